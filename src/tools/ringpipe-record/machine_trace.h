/* SPDX-License-Identifier: MIT */
/*
 * Writes the recording as nettrace V6: samples and waits with their stacks, and the processes,
 * mappings and functions that the stacks need, as events of Universal.System and Universal.Events.
 */
#ifndef RP_RECORD_MACHINE_TRACE_H
#define RP_RECORD_MACHINE_TRACE_H

#include "tools/ringpipe-record/process_table.h"
#include "tools/ringpipe/output.h"

struct rp_record_trace;

struct rp_record_trace_stats {
	uint64_t samples, waits, wakings, functions, mappings, processes;
	uint64_t bytes;			/* written */
};

/* The place and time of an event. */
struct rp_record_trace_place {
	uint64_t time_ns;		/* CLOCK_MONOTONIC; an earlier time than the last event's
					 * becomes that time */
	uint32_t processor;
	const struct rp_machine_thread *thread;
};

/* `output` is open, and the caller's. 0; -ENOMEM; -errno of write(2). */
int rp_record_trace_create(struct rp_output *output, uint32_t frequency_hz,
			   struct rp_record_trace **ret_trace);
void rp_record_trace_destroy(struct rp_record_trace *trace);

/* The encoder, for the events of sessions in processes. */
struct rp_encoder *rp_record_trace_encoder(struct rp_record_trace *trace);

/*
 * Put an event. Frames are innermost first; those of the kernel come first. Puts the process, and
 * the mappings of the frames, before their first use. 0; -ENOMEM.
 */
int rp_record_sample(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		     uint64_t period_ns, const uint64_t *frames, uint32_t frame_count);

/* A thread that runs again; `place` is its own. */
struct rp_record_wait {
	uint64_t duration_ns;		/* off its processor */
	uint64_t runnable_ns;		/* of that, after it was woken */
	uint32_t state;			/* enum rp_wait_state */
	uint32_t waker_process;		/* 0: an interrupt while the processor was idle */
	uint64_t waker_thread;		/* as in the trace */
};
int rp_record_wait(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		   const struct rp_record_wait *wait, const uint64_t *frames,
		   uint32_t frame_count);

/* A thread that woke another; `place` is the waker's. */
struct rp_record_waking {
	uint32_t woken_process;
	uint64_t woken_thread;		/* as in the trace */
	uint64_t waited_ns;		/* so far */
};
int rp_record_waking(struct rp_record_trace *trace, const struct rp_record_trace_place *place,
		     const struct rp_record_waking *waking, const uint64_t *frames,
		     uint32_t frame_count);

/* Put the end of a process that the trace has. 0; -ENOMEM. */
int rp_record_process_end(struct rp_record_trace *trace, struct rp_machine_process *process,
			  uint64_t time_ns);

/*
 * Put the name of a function of a mapping; `start` and `end` (exclusive) are addresses of the
 * process. A function that the trace already has is left out. 0; -ENOMEM.
 */
int rp_record_function(struct rp_record_trace *trace, struct rp_machine_process *process,
		       uint32_t mapping, uint64_t start, uint64_t end, const char *name);

/* The addresses in stacks, with their processes, since the last call of rp_record_hits_clear(). */
struct rp_record_hit {
	struct rp_machine_process *process;
	uint64_t address;
};
const struct rp_record_hit *rp_record_hits(const struct rp_record_trace *trace, size_t *ret_count);
void rp_record_hits_clear(struct rp_record_trace *trace);

/* Write everything so far, up to a sequence point with the total of lost events. */
int rp_record_flush(struct rp_record_trace *trace, uint64_t time_ns, uint64_t lost);

/* Flush, and write the end. Nothing may follow. */
int rp_record_end(struct rp_record_trace *trace, uint64_t time_ns, uint64_t lost);

void rp_record_trace_stats(const struct rp_record_trace *trace,
			   struct rp_record_trace_stats *ret_stats);

#endif
