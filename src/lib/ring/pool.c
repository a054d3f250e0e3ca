/* SPDX-License-Identifier: MIT */
/* Claim and release buffers of a pool: see THE POOL in slot.h. */
#include "ring/slot.h"

uint64_t rp_pool_next_epoch(void)
{
	static uint64_t epochs;

	return (rp_add_relaxed(&epochs, 1) + 1) * RP_OWNER_EPOCH;
}

int rp_pool_claim(struct rp_slot *slot, enum rp_owner owner, uint64_t *ret_token)
{
	uint64_t count = rp_load_relaxed(&slot->pool_count);
	uint64_t frees = rp_load_acquire(&slot->pool_frees);	/* [POOL-FREE] */

	if (rp_load_relaxed(&slot->pool_empty) == frees + 1)
		return -1;
	for (uint64_t i = 0; i < count && i < RP_POOL_MAX; i++) {
		uint64_t word = rp_load_relaxed(&slot->owners[i]);
		uint64_t token = (word & ~RP_OWNER_MASK) | owner;

		if ((word & RP_OWNER_MASK) != RP_OWNER_FREE ||
		    !rp_cas_seq_cst(&slot->owners[i], &word, token))	/* [POOL-OWNER] */
			continue;
		*ret_token = token;
		return (int)i;
	}
	/* Until a buffer becomes free, writers skip this search. */
	rp_store_relaxed(&slot->pool_empty, frees + 1);
	return -1;
}

void rp_pool_release(struct rp_slot *slot, int index, uint64_t token)
{
	uint64_t word = token;

	if (rp_cas_seq_cst(&slot->owners[index], &word,
			   (token & ~RP_OWNER_MASK) | RP_OWNER_FREE))	/* [POOL-OWNER] */
		rp_add_seq_cst(&slot->pool_frees, 1);	/* [POOL-FREE] */
}
