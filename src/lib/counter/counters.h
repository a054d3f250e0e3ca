/* SPDX-License-Identifier: MIT */
/* Counters, for the front door. */
#ifndef RP_COUNTER_COUNTERS_H
#define RP_COUNTER_COUNTERS_H

#include <ringpipe/counter.h>

/* Looks out for sessions that ask for counters. Once, after rp_core_init(). */
void rp_counters_init(void);

/* Start the counters' thread, which sleeps until a session asks for counters. 0 or -errno. */
int rp_counters_prepare(void);

/* An object's table, after and before its providers. */
void rp_counters_register(struct rp_object *object);
void rp_counters_unregister(struct rp_object *object);

/*
 * As rp_counter_read(), by names; the counter may go meanwhile. With observed ones their callback
 * runs. Return: also -ENOENT: there is none of these names.
 */
int rp_counter_read_named(const char *provider, const char *name,
			  struct rp_counter_reading *ret_reading);

/* Around those of the engine. A child keeps what was counted. */
void rp_counters_fork_prepare(void);
void rp_counters_fork_parent(void);
void rp_counters_fork_child(void);

#endif
