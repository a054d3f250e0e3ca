/* SPDX-License-Identifier: MIT */
/*
 * A hash table of chains. It doubles when it has more nodes than chains, so chains stay short. A
 * zeroed struct is an empty table. Context: one thread at a time.
 */
#ifndef RP_BASE_CHAINS_H
#define RP_BASE_CHAINS_H

#include <stddef.h>
#include <stdint.h>

#include <urcu/hlist.h>

#define RP_CHAINS_AT_FIRST 256u

/* A member of each object in the table. */
struct rp_chain_node {
	struct cds_hlist_node node;
	uint64_t hash;
};

struct rp_chains {
	struct cds_hlist_head first[RP_CHAINS_AT_FIRST];
	struct cds_hlist_head *grown;	/* replaces `first` after growth; or NULL */
	size_t capacity;		/* number of chains in `grown` */
	size_t count;
};

/* The chain that contains the nodes with this hash, among others. */
static inline struct cds_hlist_head *rp_chains_at(struct rp_chains *chains, uint64_t hash)
{
	/* The high bits of an FNV hash differ more than its low bits. */
	hash ^= hash >> 32;
	return chains->grown ? &chains->grown[hash & (chains->capacity - 1)] :
	       &chains->first[hash & (RP_CHAINS_AT_FIRST - 1)];
}

/* Add a node. This may allocate memory; without memory, chains become longer. */
void rp_chains_add(struct rp_chains *chains, struct rp_chain_node *node, uint64_t hash);
void rp_chains_remove(struct rp_chains *chains, struct rp_chain_node *node);

#endif
