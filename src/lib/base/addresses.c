/* SPDX-License-Identifier: MIT */
#include "base/addresses.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define SIZE_FIRST 1024u
#define SIZE_MAX_SLOTS (128u << 10)	/* at most half are used: 64 K addresses, 2 MB */

static struct rp_address *slot_of(const struct rp_address_set *set, uint64_t address)
{
	size_t at = (size_t)((address * 0x9e3779b97f4a7c15ull) >> 20) & (set->size - 1);

	while (set->slots[at].address && set->slots[at].address != address)
		at = (at + 1) & (set->size - 1);
	return &set->slots[at];
}

static void grow(struct rp_address_set *set)
{
	size_t size = set->size ? 2 * set->size : SIZE_FIRST;
	struct rp_address_set grown = { .size = size };

	if (size > SIZE_MAX_SLOTS)
		return;
	grown.slots = rp_heap_zalloc(size, sizeof(*grown.slots));
	if (!grown.slots)
		return;
	for (size_t i = 0; i < set->size; i++) {
		if (set->slots[i].address)
			*slot_of(&grown, set->slots[i].address) = set->slots[i];
	}
	rp_heap_free(set->slots);
	set->slots = grown.slots;
	set->size = size;
}

void rp_address_set_add(struct rp_address_set *set, const void *frames, uint32_t frame_count,
			uint64_t time_ns)
{
	for (uint32_t i = 0; i < frame_count; i++) {
		struct rp_address *slot;
		uint64_t address;

		memcpy(&address, (const char *)frames + 8 * (size_t)i, sizeof(address));
		if (!address)
			continue;
		if (2 * set->count >= set->size)
			grow(set);
		slot = set->size ? slot_of(set, address) : NULL;
		if (slot && slot->address)
			continue;
		if (2 * set->count >= set->size) {
			set->left_out++;
			continue;
		}
		*slot = (struct rp_address){ address, time_ns };
		set->count++;
	}
}

const struct rp_address *rp_address_set_list(struct rp_address_set *set)
{
	size_t count = 0;

	for (size_t i = 0; i < set->size; i++) {
		if (set->slots[i].address)
			set->slots[count++] = set->slots[i];
	}
	return set->slots;
}

void rp_address_set_fini(struct rp_address_set *set)
{
	rp_heap_free(set->slots);
}
