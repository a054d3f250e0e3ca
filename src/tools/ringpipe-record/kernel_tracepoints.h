/* SPDX-License-Identifier: MIT */
/*
 * System calls, page faults, block requests and interrupts, for kernels that refuse BPF programs:
 * perf_events report the kernel's tracepoints and its counters of page faults. The records are
 * those of the BPF programs, with these differences: a system call has no name of its file, and of
 * its stack only the innermost function is known. Only one thread may
 * use it at a time.
 */
#ifndef RP_RECORD_KERNEL_TRACEPOINTS_H
#define RP_RECORD_KERNEL_TRACEPOINTS_H

#include "tools/ringpipe-record/wait_programs.h"

struct rp_points;

/*
 * Open the events of the threads in the options, and of what they start. `ret_groups` is which of
 * the requested groups are recorded. A group is left out if the kernel lacks one of its points.
 *
 * Return: 0; -ENOMEM; -ENOENT: none of the groups can be recorded; -errno of perf_event_open(2),
 * mmap(2), or of open(2) for a file of tracefs.
 */
int rp_points_start(const struct rp_waits_options *options, rp_waits_callback callback, void *user,
		    struct rp_points **ret_points, unsigned int *ret_groups);
void rp_points_destroy(struct rp_points *points);

/* A descriptor that becomes readable when a ring is half full. */
int rp_points_fd(const struct rp_points *points);

/*
 * Deliver what the rings contain, in order of time. At the end, `is_last` takes also what the
 * kernel stored a moment ago. Return: 0; the first other result of the callback.
 */
int rp_points_drain(struct rp_points *points, bool is_last);
void rp_points_stop(struct rp_points *points);

/* Return: the number of records of tracepoints and counters that were lost. */
uint64_t rp_points_lost(const struct rp_points *points);

#endif
