/* SPDX-License-Identifier: MIT */
/* Writers that wait for space. */
#ifndef RP_CORE_WAIT_H
#define RP_CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/slot.h"

struct rp_wait {
	uint64_t mark;			/* as long as the frame that it lies in is there */
	uint64_t until_ns;
	uint64_t outer_until_ns;
	const struct rp_wait *outer;	/* interrupted by a handler that waits here; or NULL */
	uint32_t word;			/* as it was announced */
	bool moved;			/* the drain thread got rid of something meanwhile */
};

/* False: the caller must not wait. After each true it tries to write once more. */
bool rp_wait_begin(struct rp_wait *wait, struct rp_slot *slot);
/* Waits for room. False: the time is up, or there will be none. */
bool rp_wait_more(struct rp_wait *wait, struct rp_slot *slot, enum rp_write_result result);
void rp_wait_end(struct rp_wait *wait);
void rp_wait_wake(struct rp_slot *slot);	/* there is space, or nothing to wait for */

#endif
