/* SPDX-License-Identifier: MIT */
/* Parses the records of perf_events, which are untrusted only in their length. */
#ifndef RP_RECORD_PERF_RECORD_H
#define RP_RECORD_PERF_RECORD_H

#include <linux/perf_event.h>

#include "nettrace/thread_table.h"
#include "tools/ringpipe-record/perf_events.h"

#define RP_PERF_SAMPLE_TYPE \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | \
	 PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | \
	 PERF_SAMPLE_STACK_USER)

/* User registers that unwinding needs, as bits of the kernel's enum perf_event_x86_regs. */
#define RP_PERF_REGISTERS 0xff01ffull

/* A tracepoint or a counter has these, and may have the last two of the above. */
#define RP_PERF_POINT_TYPE \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW)

#define RP_PERF_FRAMES_MAX 127u		/* kernel.perf_event_max_stack's default */

/* Where the decoded parts of one record are stored. */
struct rp_perf_parts {
	struct rp_registers registers;
	uint64_t frames[RP_PERF_FRAMES_MAX];
	/* How records are laid out: all zeros, or with ids of the events. */
	bool has_ids;
	struct rp_thread_table ids;	/* id of an event -> index of its point, plus 1 */
	const struct rp_perf_point *points;
};

/* If the record is the output of a BPF program, get the ids in it. Return: whether it is. */
bool rp_perf_record_context(const struct perf_event_header *header,
			    struct rp_trace_context *ret_context);

/* The time of a record; 0: the record is too short. */
uint64_t rp_perf_record_time(const struct perf_event_header *header,
			     const struct rp_perf_parts *parts);

/*
 * Return: 0; 1: a record of another kind, without meaning here; 2: `ret_lost` records were lost;
 * -EBADMSG: too short.
 */
int rp_perf_record_parse(const struct perf_event_header *header, struct rp_perf_parts *parts,
			 struct rp_perf_record *ret_record, uint64_t *ret_lost);

/* The last thread that ended on a processor; 0: none. */
struct rp_perf_ended {
	pid_t process, thread;
};

/*
 * Find the thread of a record that was taken while the thread ended. All records of the processor
 * pass here, in order.
 *
 * The kernel frees the ids of a thread before the thread leaves its processor for the last time.
 * Its id is -1 then, and so is the process's if it was the last thread. The sample is of the last
 * thread that ended on this processor, unless that was of another process: the thread may have been
 * preempted, or have moved, since its end. The sample then belongs to the process's first thread.
 */
void rp_perf_record_find_ended(struct rp_perf_record *record, struct rp_perf_ended *ended);

#endif
