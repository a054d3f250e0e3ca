/* SPDX-License-Identifier: MIT */
/*
 * Explains intervals of threads from a trace in a file: what the thread did, and what the thread
 * did that released the lock for which it waited longest. The file is read once for the records of
 * the threads, and once more for those of the other threads.
 */
#ifndef RP_TOOL_EXPLANATION_H
#define RP_TOOL_EXPLANATION_H

#include "tools/analysis/thread_time.h"

/* The caller sets the first members, and zeros the others. */
struct rp_explanation {
	const char *path;
	int signal_fd;			/* reading ends when it is readable; or -1 */
	uint32_t pointer_bytes;		/* of the trace */
	const struct rp_symbols *symbols;
	/* Sorted by the division; the caller frees the array after rp_explanation_fini(). */
	struct rp_thread_interval *intervals;
	size_t count;
	struct rp_thread_time time, holders;
	struct rp_thread_interval *holder_intervals;	/* `owner` as in the interval */
	size_t holder_count;
};

/* Called with each event. Return: 0, or -errno to stop. */
typedef int (*rp_explanation_take)(const struct rp_reader_event *event, void *data);

/*
 * Read a trace once.
 * @is_loud: report damage on standard error.
 * @ret_pointer_bytes: of the trace.
 * Return: what ended the reading, as rp_reader_next(); what `take` returned; -ECANCELED; as
 * rp_input_open(), which prints why it failed.
 */
int rp_explanation_read(const char *path, int signal_fd, bool is_loud, rp_explanation_take take,
			void *data, uint32_t *ret_pointer_bytes);

/*
 * Divide the intervals. Damage ends a reading early, and what came before it counts.
 * Return: 0; -ECANCELED; -ENOMEM.
 */
int rp_explanation_divide(struct rp_explanation *explanation);

void rp_explanation_fini(struct rp_explanation *explanation);

#endif
