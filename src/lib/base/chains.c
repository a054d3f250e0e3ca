/* SPDX-License-Identifier: MIT */
#include "base/chains.h"

#include <stdlib.h>

static void grow(struct rp_chains *chains)
{
	size_t before = chains->grown ? chains->capacity : RP_CHAINS_AT_FIRST;
	struct cds_hlist_head *from = chains->grown ? chains->grown : chains->first;
	struct cds_hlist_head *old = chains->grown;
	struct cds_hlist_head *heads = calloc(2 * before, sizeof(*heads));

	if (!heads)
		return;
	chains->grown = heads;
	chains->capacity = 2 * before;
	for (size_t i = 0; i < before; i++) {
		struct rp_chain_node *each, *next;

		cds_hlist_for_each_entry_safe_2(each, next, &from[i], node)
			cds_hlist_add_head(&each->node, rp_chains_at(chains, each->hash));
	}
	free(old);
}

void rp_chains_add(struct rp_chains *chains, struct rp_chain_node *node, uint64_t hash)
{
	if (chains->count >= (chains->grown ? chains->capacity : RP_CHAINS_AT_FIRST))
		grow(chains);
	node->hash = hash;
	cds_hlist_add_head(&node->node, rp_chains_at(chains, hash));
	chains->count++;
}

void rp_chains_remove(struct rp_chains *chains, struct rp_chain_node *node)
{
	cds_hlist_del(&node->node);
	chains->count--;
}
