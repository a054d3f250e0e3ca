/* SPDX-License-Identifier: MIT */
/* Claim and release buffers of a pool: see THE POOL in slot.h. */
#include "ring/slot.h"

uint64_t rp_pool_next_epoch(void)
{
	static uint64_t epochs;

	return (rp_add_relaxed(&epochs, 1) + 1) * RP_OWNER_EPOCH;
}

static __attribute__((noinline)) int claim_lowest(struct rp_write *write, enum rp_owner owner,
						  uint64_t *ret_token, uint64_t frees)
{
	struct rp_slot *slot = write->slot;
	uint64_t count = rp_load_relaxed(&slot->pool_count);

	for (uint64_t i = 0; i < count && i < RP_POOL_MAX; i++) {
		uint64_t word = rp_load_relaxed(&slot->owners[i]);
		uint64_t token = (word & ~RP_OWNER_MASK) | owner;

		if ((word & RP_OWNER_MASK) != RP_OWNER_FREE ||
		    !rp_cas_seq_cst(&slot->owners[i], &word, token))	/* [POOL-OWNER] */
			continue;
		*ret_token = token;
		write->claimed |= i >= rp_load_relaxed(&slot->pool_wake);
		return (int)i;
	}
	/* Until a buffer becomes free, writers skip this search. */
	rp_store_relaxed(&slot->pool_empty, frees + 1);
	write->claimed |= count != 0;
	return -1;
}

/* A writer that finds the pool empty again saves no registers for the search. */
int rp_pool_claim(struct rp_write *write, enum rp_owner owner, uint64_t *ret_token)
{
	uint64_t frees = rp_load_acquire(&write->slot->pool_frees);	/* [POOL-FREE] */

	if (rp_load_relaxed(&write->slot->pool_empty) == frees + 1)
		return -1;
	return claim_lowest(write, owner, ret_token, frees);
}

bool rp_pool_is_short(const struct rp_slot *slot)
{
	uint64_t word = rp_load_relaxed(&slot->pool_frees) + 1;

	return rp_load_relaxed(&slot->pool_empty) == word ||
	       rp_load_relaxed(&slot->pool_full) >> RP_POOL_STEP_BITS == word;
}

void rp_pool_release(struct rp_slot *slot, int index, uint64_t token)
{
	uint64_t word = token;

	if (rp_cas_seq_cst(&slot->owners[index], &word,
			   (token & ~RP_OWNER_MASK) | RP_OWNER_FREE))	/* [POOL-OWNER] */
		rp_add_seq_cst(&slot->pool_frees, 1);	/* [POOL-FREE] */
}
