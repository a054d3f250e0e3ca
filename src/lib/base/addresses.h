/* SPDX-License-Identifier: MIT */
/* A set of addresses, with a limit of 65,536. */
#ifndef RP_BASE_ADDRESSES_H
#define RP_BASE_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

struct rp_address {
	uint64_t address;	/* 0: a free slot */
	uint64_t time_ns;	/* time at which the address was first added */
};

struct rp_address_set {
	struct rp_address *slots;
	size_t size;		/* number of slots, a power of two */
	size_t count;
	uint64_t left_out;	/* addresses not added: the set was full, or no memory */
};

/*
 * Add the addresses in `frames`, which may be unaligned. The function cannot fail: it counts the
 * addresses that it leaves out, repeated ones each time.
 */
void rp_address_set_add(struct rp_address_set *set, const void *frames, uint32_t frame_count,
			uint64_t time_ns);

/* Move the addresses to the front. Return: the array. Do not add addresses afterwards. */
const struct rp_address *rp_address_set_list(struct rp_address_set *set);

void rp_address_set_fini(struct rp_address_set *set);

#endif
