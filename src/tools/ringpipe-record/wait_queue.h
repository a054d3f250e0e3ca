/* SPDX-License-Identifier: MIT */
/*
 * Copies of waits until the trace has reached their time. They come from the kernel roughly in
 * order of time, and the records of perf_events come by another way.
 */
#ifndef RP_RECORD_WAIT_QUEUE_H
#define RP_RECORD_WAIT_QUEUE_H

#include "tools/ringpipe-record/wait_programs.h"

struct rp_wait_queue {
	struct rp_wait_record **records;	/* sorted by time, from `first` on */
	size_t first, count, capacity;		/* count: the end of the records */
};

/* Add a copy. 0; -ENOMEM. */
int rp_wait_queue_add(struct rp_wait_queue *queue, const struct rp_wait_record *record);

/*
 * Take the earliest record before `limit_ns` from the queue. Return: the record, for free(); NULL:
 * there is none.
 */
struct rp_wait_record *rp_wait_queue_take(struct rp_wait_queue *queue, uint64_t limit_ns);

void rp_wait_queue_fini(struct rp_wait_queue *queue);

#endif
