/* SPDX-License-Identifier: MIT */
/* Writers that wait for space. */
#ifndef RP_CORE_WAIT_H
#define RP_CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/slot.h"

struct rp_wait {
	uint64_t mark;			/* valid while the stack frame of the wait exists */
	uint64_t until_ns;
	uint64_t outer_until_ns;
	const struct rp_wait *outer;	/* wait that a handler interrupted to wait here; or NULL */
	uint32_t word;			/* value after this writer's announcement */
	bool moved;			/* the drain thread freed space during the wait */
};

/*
 * Begin to wait. Return: false: the caller must not wait. After each true, the caller tries to
 * write once more.
 */
bool rp_wait_begin(struct rp_wait *wait, struct rp_slot *slot);
/* Wait for space. Return: false: the time is up, or no space will become free. */
bool rp_wait_more(struct rp_wait *wait, struct rp_slot *slot, enum rp_write_result result);
void rp_wait_end(struct rp_wait *wait);
void rp_wait_wake(struct rp_slot *slot);	/* space was freed, or no wait is useful */

#endif
