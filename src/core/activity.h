/* SPDX-License-Identifier: MIT */
/* A thread's activity ids, as the write path reads them. */
#ifndef RP_CORE_ACTIVITY_H
#define RP_CORE_ACTIVITY_H

#include <ringpipe/activity.h>

/* The current slot, one being filled, and one for each of two handlers that interrupted that. */
#define RP_ACTIVITY_SLOTS 4u

struct rp_activity_slots {
	struct rp_activity slots[RP_ACTIVITY_SLOTS];
	uint32_t state;		/* modulo RP_ACTIVITY_SLOTS the current slot; above, a generation */
	uint32_t filling;	/* a bit for each slot being filled, by an interrupted call too */
	uint32_t any;		/* 0: the current one is all zeros */
};

/* initial-exec: the first touch from a signal handler must not allocate. */
extern __thread struct rp_activity_slots rp_activity_slots
	__attribute__((tls_model("initial-exec")));

/* Seeds the ids that rp_activity_create() makes; again in a forked child. */
void rp_activity_init(void);

/* A number that no other call in this process returns, and that looks random. */
uint64_t rp_activity_number(void);

#endif
