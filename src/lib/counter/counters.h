/* SPDX-License-Identifier: MIT */
/* The functions of counters that library initialisation (src/lib/ringpipe.c) and others call. */
#ifndef RP_COUNTER_COUNTERS_H
#define RP_COUNTER_COUNTERS_H

#include <ringpipe/counter.h>

/* Watch for sessions that request counters. Call once, after rp_core_init(). */
void rp_counters_init(void);

/*
 * Start the counters' thread, which sleeps until a session requests counters. Return: 0 or -errno.
 */
int rp_counters_prepare(void);

/* Register an object's counters after its providers, and unregister them before. */
void rp_counters_register(struct rp_object *object);
void rp_counters_unregister(struct rp_object *object);

/*
 * As rp_counter_read(), by names; the counter may be destroyed meanwhile. For an observed counter,
 * this runs the callback. Return: also -ENOENT: no counter has these names.
 */
int rp_counter_read_named(const char *provider, const char *name,
			  struct rp_counter_reading *ret_reading);

/* Fork handlers, called around those of the core. A child keeps the counts. */
void rp_counters_fork_prepare(void);
void rp_counters_fork_parent(void);
void rp_counters_fork_child(void);

#endif
