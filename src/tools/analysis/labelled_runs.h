/* SPDX-License-Identifier: MIT */
/*
 * Finds when threads worked for a request of which only the recorder's samples and waits have the
 * ids, because the program publishes them but writes no events.
 *
 * A run of a thread consists of successive samples and waits with the id. A sample stands for half
 * of its period before and after it, up to the next record of the thread.
 */
#ifndef RP_TOOL_LABELLED_RUNS_H
#define RP_TOOL_LABELLED_RUNS_H

#include "tools/analysis/slowest_spans.h"

/* Initialise it with zeros, except for `runs` and `range`. */
struct rp_labelled_runs {
	struct rp_slowest_spans *runs;	/* the longest runs, as spans of the activity */
	const struct rp_time_range *range;	/* in which they start */
	void *thread_tree;		/* for labelled_runs.c only */
};

/* Return: whether a run has the name, NAME or PROVIDER/NAME; NULL: any. */
bool rp_labelled_runs_have_name(const char *wanted);

/*
 * Take an event of the trace.
 * @has_id: the event has the id of the request.
 * Return: 0; -ENOMEM.
 */
int rp_labelled_runs_take(struct rp_labelled_runs *runs, const struct rp_reader_event *event,
			  bool has_id);

/* Add the runs that last until the end of the trace. */
void rp_labelled_runs_end(struct rp_labelled_runs *runs);

void rp_labelled_runs_fini(struct rp_labelled_runs *runs);

#endif
