/* SPDX-License-Identifier: MIT */
/*
 * Explains spans, or intervals of threads, from a trace in a file: what the threads did, and what
 * the thread did that released the lock for which they waited longest. The file is read for the
 * threads of spans that move, for the records of the threads, and for those of the other threads.
 * With an index and the kinds of records, each reading has only the blocks of the times it needs.
 */
#ifndef RP_TOOL_EXPLANATION_H
#define RP_TOOL_EXPLANATION_H

#include "tools/analysis/span_path.h"
#include "tools/analysis/thread_time.h"

/* The caller sets the first members, and zeros the others. */
struct rp_explanation {
	const char *path;
	int signal_fd;			/* reading ends when it is readable; or -1 */
	uint32_t pointer_bytes;		/* of the trace */
	const struct rp_trace_index *index;	/* of the trace; NULL: none */
	const struct rp_recorded_kinds *kinds;	/* of the trace; NULL: read all of it for them */
	const struct rp_symbols *symbols;
	const struct rp_trace_span *spans;
	size_t span_count;
	/* Without spans: one interval, which stays the caller's. */
	struct rp_thread_interval *interval;
	/* For each span, by `owner`, or of the interval: what the threads did. */
	struct rp_thread_interval *results;
	size_t result_count;
	struct rp_thread_time time, holders;
	struct rp_thread_interval *holder_intervals;	/* `owner` as in the result */
	size_t holder_count;
	/* For explanation.c only. */
	struct rp_recorded_kinds read_kinds;	/* without `kinds` */
	struct rp_span_path path_of_spans;
	struct rp_thread_interval *intervals, *joined;
};

/*
 * Called with each event. Return: 0; 1: the rest of the trace is not needed; -errno to stop.
 */
typedef int (*rp_explanation_take)(const struct rp_reader *reader,
				   const struct rp_reader_event *event, void *data);

/* A reading of a trace. */
struct rp_explanation_reading {
	const char *path;
	int signal_fd;			/* reading ends when it is readable; or -1 */
	bool is_loud;			/* report damage on standard error */
	const struct rp_trace_index *index;	/* of the trace; NULL: none */
	const struct rp_symbols *symbols;	/* of the trace, for the processes of threads */
	struct rp_trace_query query;	/* the events to take */
	rp_explanation_take take;
	void *data;			/* for `take` */
};

/*
 * Read a trace once.
 * @ret_pointer_bytes: of the trace.
 * Return: what ended the reading, as rp_reader_next(); -EBADMSG: the reader skipped damage, which
 * was reported; what `take` returned, but 0 for 1; -ECANCELED; as rp_input_open(), which prints why
 * it failed.
 */
int rp_explanation_read(const struct rp_explanation_reading *reading,
			uint32_t *ret_pointer_bytes);

/*
 * Divide the time of the spans or of the interval. Damage ends a reading early; what came before it
 * counts.
 * Return: 0; -ECANCELED; -ENOMEM.
 */
int rp_explanation_divide(struct rp_explanation *explanation);

void rp_explanation_fini(struct rp_explanation *explanation);

#endif
