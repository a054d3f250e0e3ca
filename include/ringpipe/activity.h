/* SPDX-License-Identifier: MIT */
/*
 * Activity ids: which request, of all those under way, an event belongs to. Each thread has a
 * current id and a related one; every event it writes carries those that are not zero.
 */
#ifndef RINGPIPE_ACTIVITY_H
#define RINGPIPE_ACTIVITY_H

#include <ringpipe/types.h>

RP_BEGIN_DECLS

/* A thread's two ids. */
struct rp_activity {
	struct rp_guid id;
	struct rp_guid related;
};

/* Copies the calling thread's ids. Context: any, signal handlers included. */
RP_PUBLIC void rp_activity_get(struct rp_activity *ret_activity);

/* Sets both. Context: any, signal handlers included; a write interrupted has the old or the new. */
RP_PUBLIC void rp_activity_set(const struct rp_activity *activity);

/*
 * Makes an id that no other call in this process returns, without a lock or a system call.
 * Context: any, signal handlers included.
 */
RP_PUBLIC void rp_activity_create(struct rp_guid *ret_id);

/*
 * Begins a new activity as the child of the current one: the current id becomes the related id, and
 * a fresh one current. Give `ret_outer` to rp_activity_end() to go back.
 */
RP_PUBLIC void rp_activity_begin(struct rp_activity *ret_outer);
RP_PUBLIC void rp_activity_end(const struct rp_activity *outer);

RP_END_DECLS

#endif
