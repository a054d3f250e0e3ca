/* SPDX-License-Identifier: MIT */
#include "tools/trace/guids.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 64u

/* The GUIDs of one process may differ in only a few bytes, at any position, so all bytes matter. */
static size_t hash_of(const struct rp_guid *guid)
{
	uint64_t low, high;

	memcpy(&low, guid->bytes, sizeof(low));
	memcpy(&high, guid->bytes + sizeof(low), sizeof(high));
	/* The counter in an activity id changes the most significant bits of `high` first. */
	low ^= high * 0x9e3779b97f4a7c15u;
	low = (low ^ low >> 32) * 0xbf58476d1ce4e5b9u;
	return (size_t)(low ^ low >> 29);
}

/* Return: the slot of the GUID, or the free slot where it belongs. */
static struct rp_guid *find(struct rp_guid *slots, size_t capacity, const struct rp_guid *guid)
{
	static const struct rp_guid none;
	size_t at = hash_of(guid) & (capacity - 1);

	while (memcmp(&slots[at], &none, sizeof(none)) != 0 &&
	       memcmp(&slots[at], guid, sizeof(*guid)) != 0)
		at = (at + 1) & (capacity - 1);
	return &slots[at];
}

static int grow(struct rp_guids *set)
{
	size_t capacity = set->capacity ? 2 * set->capacity : CAPACITY_MIN;
	struct rp_guid *slots = calloc(capacity, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < set->capacity; i++)
		*find(slots, capacity, &set->slots[i]) = set->slots[i];
	free(set->slots);
	set->slots = slots;
	set->capacity = capacity;
	return 0;
}

int rp_guids_add(struct rp_guids *set, const struct rp_guid *guid)
{
	static const struct rp_guid none;
	struct rp_guid *slot;

	if (memcmp(guid, &none, sizeof(none)) == 0)
		return 0;
	/* Keep a quarter of the slots free. */
	if (4 * set->count >= 3 * set->capacity && grow(set) != 0)
		return -ENOMEM;
	slot = find(set->slots, set->capacity, guid);
	set->count += memcmp(slot, guid, sizeof(*guid)) != 0;
	*slot = *guid;
	return 0;
}

const char *rp_guid_text(const struct rp_guid *guid, char *buffer)
{
	static const struct rp_guid none;
	size_t at = 0;

	buffer[0] = '\0';
	if (!memcmp(guid, &none, sizeof(none)))
		return buffer;
	for (int i = 0; i < 16; i++)
		at += (size_t)snprintf(buffer + at, RP_GUID_TEXT - at,
				       i >= 4 && i <= 10 && !(i & 1) ? "-%02x" : "%02x",
				       guid->bytes[i]);
	return buffer;
}

void rp_guids_fini(struct rp_guids *set)
{
	free(set->slots);
	*set = (struct rp_guids){ 0 };
}
