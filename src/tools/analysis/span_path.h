/* SPDX-License-Identifier: MIT */
/*
 * Finds the threads that worked for spans, and when.
 *
 * A span that starts and stops on one thread has all of its time on that thread. A span that stops
 * on another thread has the time between two events of its activity id if one thread wrote both,
 * and wrote no event of another activity between them. The trace does not say what the rest waited
 * for.
 */
#ifndef RP_TOOL_SPAN_PATH_H
#define RP_TOOL_SPAN_PATH_H

#include "tools/analysis/thread_time.h"

/* Limits the memory for events of spans that move. */
#define RP_PATH_MARKS_MAX 1000000u

struct rp_span_path {
	const struct rp_trace_span *spans;
	size_t count;
	size_t *moving;			/* indexes of the spans that move, by activity */
	size_t moving_count;
	struct rp_path_mark *marks;	/* events of spans that move */
	size_t mark_count, mark_capacity;
	void *thread_tree;		/* of struct path_thread */
};

/* @spans: must outlive `path`. Return: 0; -ENOMEM. */
int rp_span_path_begin(struct rp_span_path *path, const struct rp_trace_span *spans, size_t count);

/* Take an event of the trace; only needed if path->moving_count is not 0. Return: 0; -ENOMEM. */
int rp_span_path_take(struct rp_span_path *path, const struct rp_reader_event *event);

/*
 * Make the intervals in which threads worked, for free(). The index of its span is an interval's
 * owner. Return: 0; -ENOMEM.
 */
int rp_span_path_intervals(struct rp_span_path *path, struct rp_thread_interval **ret_intervals,
			   size_t *ret_count);

/*
 * Join the divided intervals of each span to one interval, with pieces of RP_TIME_UNEXPLAINED where
 * no thread worked. rp_span_path_free_joined() frees the result. Return: 0; -ENOMEM.
 */
int rp_span_path_join(const struct rp_span_path *path, struct rp_thread_interval *intervals,
		      size_t count, struct rp_thread_interval **ret_joined);
void rp_span_path_free_joined(struct rp_thread_interval *joined, size_t count);

void rp_span_path_fini(struct rp_span_path *path);

#endif
