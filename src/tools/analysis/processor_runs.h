/* SPDX-License-Identifier: MIT */
/*
 * The latest threads that used each processor, from the waits of threads. A wait ends when its
 * thread gets a processor, and states the thread that used the processor before and at least the
 * last part of that thread's time.
 */
#ifndef RP_TOOL_PROCESSOR_RUNS_H
#define RP_TOOL_PROCESSOR_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_RUNS_KEPT 1024u		/* of each processor */

/* A time in which a thread used a processor. */
struct rp_processor_run {
	int64_t from_ns, to_ns;
	uint64_t process, thread;
	const char *name;		/* of the thread; the caller keeps it */
};

/* The latest runs of a processor. */
struct rp_processor_history {
	uint64_t thread;		/* that got the processor last, */
	int64_t since_ns;		/* at this time */
	size_t count;			/* of all runs; run i is in runs[i % RP_RUNS_KEPT] */
	struct rp_processor_run runs[RP_RUNS_KEPT];
};

/* Initialise it with zeros. */
struct rp_processor_runs {
	struct rp_processor_history **processors;	/* NULL: no run yet */
	size_t count;
};

/*
 * Take the end of a wait, in the order of time.
 * @thread: gets the processor now.
 * @run: of the thread that used the processor until now. Its `thread` is 0 if there is none.
 * @is_cut: the run may have begun before `from_ns`. It becomes longer if that thread got the
 * processor by the wait before.
 * @ret_history: of the processor, until rp_processor_runs_fini(); NULL: a number that no processor
 * has.
 * Return: 0; -ENOMEM.
 */
int rp_processor_runs_take(struct rp_processor_runs *runs, uint32_t processor, uint64_t thread,
			   struct rp_processor_run *run, bool is_cut,
			   const struct rp_processor_history **ret_history);

void rp_processor_runs_fini(struct rp_processor_runs *runs);

#endif
