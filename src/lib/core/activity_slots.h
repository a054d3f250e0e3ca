/* SPDX-License-Identifier: MIT */
/* A thread's activity ids, as the write path reads them. */
#ifndef RP_CORE_ACTIVITY_SLOTS_H
#define RP_CORE_ACTIVITY_SLOTS_H

#include <ringpipe/activity.h>

#include "ring/slot.h"

/* The current slot, one being filled, and one for each of two handlers that interrupted that. */
#define RP_ACTIVITY_SLOTS 4u

/* The ids of one thread. */
struct rp_activity_block {
	uint32_t owner;		/* kernel id of the thread; 0: none yet */
	uint32_t state;		/* modulo RP_ACTIVITY_SLOTS the current slot; above, a generation */
	uint32_t filling;	/* a bit for each slot being filled, by an interrupted call too */
	struct rp_activity slots[RP_ACTIVITY_SLOTS];
};

/* Blocks that threads have claimed so far, free ones included. */
extern uint32_t rp_activity_block_count;

/*
 * Seeds the ids that rp_activity_generate() makes; again in a forked child, whose thread keeps its
 * ids under its new number.
 */
void rp_activity_init(void);

/* rp_activity_get() of a thread with ids: rp_thread_ring.has_ids is not 0. */
void rp_activity_read(struct rp_activity *ret_activity);

/* A number that no other call in this process returns, and that looks random. */
uint64_t rp_activity_number(void);

#endif
