/* SPDX-License-Identifier: MIT */
/* Distinct addresses, up to a ceiling of 65,536. */
#ifndef RP_BASE_ADDRESSES_H
#define RP_BASE_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

struct rp_address {
	uint64_t address;	/* 0: a free slot */
	uint64_t time_ns;	/* when it came first */
};

struct rp_address_set {
	struct rp_address *slots;
	size_t size;		/* of slots, a power of two */
	size_t count;
	uint64_t left_out;	/* not kept: the set is full, or there was no memory */
};

/*
 * `frames` may be unaligned. Nothing fails: what cannot be kept is counted, as often as it comes.
 */
void rp_address_set_add(struct rp_address_set *set, const void *frames, uint32_t frame_count,
			uint64_t time_ns);

/* Moves the addresses to the front and gives them; nothing may be added after. */
const struct rp_address *rp_address_set_list(struct rp_address_set *set);

void rp_address_set_fini(struct rp_address_set *set);

#endif
