/* SPDX-License-Identifier: MIT */
/*
 * The processor time that tracing takes: of the library's threads in the traced process, by their
 * names, and of this command. The time that writers spend on each event is not in it.
 */
#ifndef RP_TOOL_TOP_COST_H
#define RP_TOOL_TOP_COST_H

#include <stdint.h>
#include <sys/types.h>

/* The library has fewer threads than that in most processes; others are not counted. */
#define RP_TOP_THREADS_MAX 64u

struct rp_top_thread {
	uint64_t id;
	uint64_t cpu_ns;
};

/* Initialise it with the process id and zeros. */
struct rp_top_cost {
	pid_t pid;
	struct rp_top_thread threads[RP_TOP_THREADS_MAX];
	size_t thread_count;
	unsigned int reads;
	uint64_t own_ns;
	/* Since the previous call, in per cent of a processor. */
	double process_percent;		/* negative: it cannot be read, or the time was short */
	double command_percent;		/* negative: the time was short */
};

/* Read the times of an interval of `interval_s` seconds. */
void rp_top_cost_read(struct rp_top_cost *cost, double interval_s);

#endif
