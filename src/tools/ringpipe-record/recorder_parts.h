/* SPDX-License-Identifier: MIT */
/* The recorder's state, for the files that it consists of. */
#ifndef RP_RECORD_RECORDER_PARTS_H
#define RP_RECORD_RECORDER_PARTS_H

#include "tools/ringpipe-record/clock_watch.h"
#include "tools/ringpipe-record/functions.h"
#include "tools/ringpipe-record/kernel_tracepoints.h"
#include "tools/ringpipe-record/perf_events.h"
#include "tools/ringpipe-record/recorder.h"
#include "tools/ringpipe-record/stack_walk.h"
#include "tools/ringpipe-record/switch_waits.h"
#include "tools/ringpipe-record/wait_queue.h"

#define RP_RECORDER_FRAMES_MAX 512u

/* How often the events of chosen threads are opened, as long as threads start meanwhile. */
#define RP_RECORDER_OPENINGS_MAX 3

struct rp_recorder {
	struct rp_recorder_options options;
	struct rp_perf *perf;
	struct rp_waits *waits;		/* NULL: the kernel refused BPF */
	struct rp_switch_waits *switch_waits;	/* in their place; or NULL */
	struct rp_points *tracepoints;	/* likewise, for other groups than waits */
	unsigned int groups;			/* enum rp_waits_group that are recorded */
	struct rp_wait_queue wait_queue;
	uint64_t drain_end_ns;		/* a drain of the waits ends at a record from then on */
	size_t part_bytes;		/* of the records that a part of the drain has copied */
	uint64_t part_ns;		/* a ring has later records; UINT64_MAX: none has */
	struct rp_images *images;
	struct rp_process_table *processes;
	struct rp_functions *functions;
	struct rp_record_trace *trace;
	struct rp_clock_watch clocks;
	bool is_chosen;			/* only chosen processes are recorded */
	bool is_machine_wide;		/* of is_chosen: perf_events report all processes */
	struct rp_process_choice choice;	/* these; all zeros: all */
	uint64_t scan_ns;		/* of is_chosen: when their choice began */
	uint64_t named_ns;		/* when functions were named last */
	bool is_naming;			/* functions are being named */
	uint64_t ends[RP_WALK_FRAMES_MAX + 1];	/* how walks ended */
	uint64_t wait_ends[RP_WALK_FRAMES_MAX + 1];
	uint64_t reported[RP_RECORDER_LOSS_COUNT];	/* losses that the trace states */
	uint64_t frames[RP_RECORDER_FRAMES_MAX];
};

/* Let the BPF programs read the trace ids of sampled threads. Prints why they cannot. */
void rp_recorder_attach_contexts(struct rp_recorder *recorder);

/*
 * Find what processes have published since the last call, and put their attributes into the trace.
 * @is_last: look at all processes of the trace. Return: 0; -ENOMEM.
 */
int rp_recorder_read_contexts(struct rp_recorder *recorder, bool is_last);

/* The process has ended, or executes another program. */
void rp_recorder_forget_contexts(struct rp_recorder *recorder, struct rp_machine_process *process);

/*
 * A process executes another program. The file that names the generated code of the process id may
 * then be that of the new program. 0; -ENOMEM.
 */
int rp_recorder_leave_program(struct rp_recorder *recorder, pid_t pid);

#define RP_RING_BYTES_MIN (256u << 10)

/* Return: the largest power of two within the share and the limits of a ring. */
size_t rp_recorder_choose_bytes(size_t share, size_t max);

/* Start the waits and the groups that the kernel lets this process record. 0; -ENOMEM. */
int rp_recorder_start_waits(struct rp_recorder *recorder);

/* State what the kernel records, which may be less than the options request. 0; -ENOMEM. */
int rp_recorder_put_groups(struct rp_recorder *recorder);

/* Put the records of BPF programs before `limit_ns` into the trace. 0; -ENOMEM. */
int rp_recorder_take_waits(struct rp_recorder *recorder, uint64_t limit_ns);

#endif
