/* SPDX-License-Identifier: MIT */
#include "unwind/learnt.h"

struct rp_learnt rp_learnt[1u << RP_LEARNT_BITS][RP_LEARNT_WAYS];

/* The tag's own entry, or an empty one, or one after the other. */
static struct rp_learnt *entry_for(uint64_t tag)
{
	static uint32_t turn;
	struct rp_learnt *set = rp_learnt_set(tag);
	uint64_t words[3];
	uint32_t next;

	for (unsigned int way = 0; way < RP_LEARNT_WAYS; way++) {
		if (rp_load_relaxed(&set[way].key) == 0 || rp_learnt_read(&set[way], tag, words))
			return &set[way];
	}
	next = rp_load_relaxed(&turn);
	rp_store_relaxed(&turn, next + 1);
	return &set[next % RP_LEARNT_WAYS];
}

void rp_learnt_put(uint64_t tag, const struct rp_plain *plain)
{
	struct rp_learnt *entry = entry_for(tag);
	uint64_t words[3];

	memcpy(words, plain, sizeof(words));
	for (int i = 0; i < 3; i++)
		rp_store_relaxed(&entry->words[i], words[i]);
	rp_store_relaxed(&entry->key, rp_learnt_mix(tag, words));
}
