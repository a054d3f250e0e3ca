/* SPDX-License-Identifier: MIT */
/*
 * The waits of all threads, for kernels that refuse BPF programs: perf_events report each switch
 * between threads, with the kernel's stack of the thread that leaves. The program's stack and the
 * thread that ended the wait are not known. Only one thread
 * may use it at a time.
 */
#ifndef RP_RECORD_SWITCH_WAITS_H
#define RP_RECORD_SWITCH_WAITS_H

#include "tools/ringpipe-record/wait_programs.h"

struct rp_switch_waits;

/* Open the events. Return: 0; -ENOMEM; -errno of perf_event_open(2) or mmap(2). */
int rp_switch_waits_start(const struct rp_waits_options *options, rp_waits_callback callback,
			  void *user, struct rp_switch_waits **ret_waits);
void rp_switch_waits_destroy(struct rp_switch_waits *waits);

/* A descriptor that becomes readable when a ring is half full. */
int rp_switch_waits_fd(const struct rp_switch_waits *waits);

/*
 * Deliver the waits that the rings contain, in order of time. At the end, `is_last` takes also what
 * the kernel stored a moment ago. Return: 0; the first other result of the callback.
 */
int rp_switch_waits_drain(struct rp_switch_waits *waits, bool is_last);
void rp_switch_waits_stop(struct rp_switch_waits *waits);

/* Return: the number of records of switches that were lost. */
uint64_t rp_switch_waits_lost(const struct rp_switch_waits *waits);

#endif
