/* SPDX-License-Identifier: MIT */
/*
 * A hash table of chains that doubles when it has more nodes than chains, so that a search stays
 * short however many there are. All zeros is an empty one. One thread at a time.
 */
#ifndef RP_BASE_CHAINS_H
#define RP_BASE_CHAINS_H

#include <stddef.h>
#include <stdint.h>

#include <urcu/hlist.h>

#define RP_CHAINS_AT_FIRST 256u

/* Lies in what is to be found. */
struct rp_chain_node {
	struct cds_hlist_node node;
	uint64_t hash;
};

struct rp_chains {
	struct cds_hlist_head first[RP_CHAINS_AT_FIRST];
	struct cds_hlist_head *grown;	/* in place of `first`, or NULL */
	size_t capacity;		/* of `grown` */
	size_t count;
};

/* The chain that a node of the hash is in, among others. */
static inline struct cds_hlist_head *rp_chains_at(struct rp_chains *chains, uint64_t hash)
{
	/* FNV's high bits differ more than its low ones. */
	hash ^= hash >> 32;
	return chains->grown ? &chains->grown[hash & (chains->capacity - 1)] :
	       &chains->first[hash & (RP_CHAINS_AT_FIRST - 1)];
}

/* Takes memory now and then; without any, chains get longer. */
void rp_chains_add(struct rp_chains *chains, struct rp_chain_node *node, uint64_t hash);
void rp_chains_remove(struct rp_chains *chains, struct rp_chain_node *node);

#endif
