/* SPDX-License-Identifier: MIT */
/* A thread's activity ids, as the write path reads them. */
#ifndef RP_CORE_ACTIVITY_H
#define RP_CORE_ACTIVITY_H

#include <ringpipe/activity.h>

struct rp_activity_slots {
	struct rp_activity slots[2];
	uint32_t generation;	/* its lowest bit says which slot is current */
	uint32_t any;		/* whether the current one is not all zeros */
};

/* initial-exec: the first touch from a signal handler must not allocate. */
extern __thread struct rp_activity_slots rp_activity_slots
	__attribute__((tls_model("initial-exec")));

/* Seeds the ids that rp_activity_create() makes; again in a forked child. */
void rp_activity_init(void);

#endif
