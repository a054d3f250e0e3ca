/* SPDX-License-Identifier: MIT */
#include "nettrace/thread_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

/* The place where a search for the thread begins. */
static size_t home_of(size_t capacity, uint64_t thread)
{
	uint64_t hash = thread ^ thread >> 32;

	hash *= 0x9e3779b97f4a7c15ull;
	return (hash ^ hash >> 32) & (capacity - 1);
}

static struct rp_thread_slot *probe(struct rp_thread_slot *slots, size_t capacity, uint64_t thread)
{
	size_t at = home_of(capacity, thread);

	while (slots[at].used && slots[at].thread != thread)
		at = (at + 1) & (capacity - 1);
	return &slots[at];
}

struct rp_thread_slot *rp_thread_table_find(const struct rp_thread_table *table, uint64_t thread)
{
	struct rp_thread_slot *slot;

	if (!table->capacity)
		return NULL;
	slot = probe(table->slots, table->capacity, thread);
	return slot->used ? slot : NULL;
}

static int grow(struct rp_thread_table *table)
{
	size_t capacity = table->capacity ? table->capacity * 2 : 64;
	struct rp_thread_slot *slots = rp_heap_zalloc(capacity, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->capacity; i++) {
		const struct rp_thread_slot *old = &table->slots[i];

		if (old->used)
			*probe(slots, capacity, old->thread) = *old;
	}
	rp_heap_free(table->slots);
	table->slots = slots;
	table->capacity = capacity;
	return 0;
}

int rp_thread_table_add(struct rp_thread_table *table, uint64_t thread,
			struct rp_thread_slot **ret_slot)
{
	struct rp_thread_slot *slot = rp_thread_table_find(table, thread);
	int ret;

	if (!slot) {
		if (4 * (table->count + 1) > 3 * table->capacity) {
			ret = grow(table);
			if (ret < 0)
				return ret;
		}
		slot = probe(table->slots, table->capacity, thread);
		slot->thread = thread;
		slot->used = 1;
		table->count++;
	}
	*ret_slot = slot;
	return 0;
}

/*
 * Linear probing without tombstones: a slot after the hole moves into it unless its search begins
 * after the hole. Source: Knuth, The Art of Computer Programming, volume 3, algorithm 6.4 R.
 */
void rp_thread_table_remove(struct rp_thread_table *table, uint64_t thread)
{
	struct rp_thread_slot *slot = rp_thread_table_find(table, thread);
	const size_t mask = table->capacity - 1;
	size_t hole, at;

	if (!slot)
		return;
	table->marked -= slot->marked != 0;
	hole = at = (size_t)(slot - table->slots);
	for (;;) {
		at = (at + 1) & mask;
		if (!table->slots[at].used)
			break;
		if (((at - home_of(table->capacity, table->slots[at].thread)) & mask) <
		    ((at - hole) & mask))
			continue;
		table->slots[hole] = table->slots[at];
		hole = at;
	}
	memset(&table->slots[hole], 0, sizeof(*table->slots));
	table->count--;
}

void rp_thread_table_fini(struct rp_thread_table *table)
{
	rp_heap_free(table->slots);
	memset(table, 0, sizeof(*table));
}
