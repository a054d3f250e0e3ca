/* SPDX-License-Identifier: MIT */
#include "nettrace/type_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define CHUNK_BYTES 16384u

struct rp_arena_chunk {
	struct rp_arena_chunk *next;
	size_t used, capacity;
	_Alignas(16) uint8_t bytes[];
};

void *rp_type_table_alloc(struct rp_type_table *table, size_t size)
{
	struct rp_arena_chunk *chunk = table->chunks;
	size_t capacity = size > CHUNK_BYTES ? size : CHUNK_BYTES;
	void *bytes;

	size = (size + 15) & ~(size_t)15;
	if (!chunk || chunk->capacity - chunk->used < size) {
		capacity = (capacity + 15) & ~(size_t)15;
		chunk = rp_heap_alloc(sizeof(*chunk) + capacity);
		if (!chunk)
			return NULL;
		chunk->next = table->chunks;
		chunk->used = 0;
		chunk->capacity = capacity;
		table->chunks = chunk;
	}
	bytes = chunk->bytes + chunk->used;
	chunk->used += size;
	return memset(bytes, 0, size);
}

static size_t slot_of(struct rp_reader_type **slots, size_t capacity, uint32_t metadata_id)
{
	size_t at = metadata_id * 0x9e3779b1u & (capacity - 1);

	while (slots[at] && slots[at]->metadata_id != metadata_id)
		at = (at + 1) & (capacity - 1);
	return at;
}

struct rp_reader_type *rp_type_table_find_high(const struct rp_type_table *table,
					       uint32_t metadata_id)
{
	if (!table->capacity)
		return NULL;
	return table->slots[slot_of(table->slots, table->capacity, metadata_id)];
}

static int grow(struct rp_type_table *table)
{
	size_t capacity = table->capacity ? table->capacity * 2 : 64;
	struct rp_reader_type **slots;

	if (2 * (table->count + 1) <= table->capacity)
		return 0;
	slots = rp_heap_zalloc(capacity, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->capacity; i++)
		if (table->slots[i])
			slots[slot_of(slots, capacity, table->slots[i]->metadata_id)] =
				table->slots[i];
	rp_heap_free(table->slots);
	table->slots = slots;
	table->capacity = capacity;
	return 0;
}

int rp_type_table_insert(struct rp_type_table *table, struct rp_reader_type *type)
{
	if (grow(table) < 0)
		return -ENOMEM;
	if (rp_type_table_find(table, type->metadata_id))
		return -EEXIST;
	table->slots[slot_of(table->slots, table->capacity, type->metadata_id)] = type;
	if (type->metadata_id < RP_TYPE_TABLE_LOW)
		table->low[type->metadata_id] = type;
	table->count++;
	return 0;
}

/* The slots up to the next empty one may depend on the removed one, so place them again. */
void rp_type_table_remove(struct rp_type_table *table, uint32_t metadata_id)
{
	size_t at;

	if (!rp_type_table_find(table, metadata_id))
		return;
	at = slot_of(table->slots, table->capacity, metadata_id);
	table->slots[at] = NULL;
	if (metadata_id < RP_TYPE_TABLE_LOW)
		table->low[metadata_id] = NULL;
	table->count--;
	while (table->slots[at = (at + 1) & (table->capacity - 1)]) {
		struct rp_reader_type *type = table->slots[at];

		table->slots[at] = NULL;
		table->slots[slot_of(table->slots, table->capacity, type->metadata_id)] = type;
	}
}

void rp_type_table_clear(struct rp_type_table *table)
{
	if (table->slots)
		memset(table->slots, 0, table->capacity * sizeof(*table->slots));
	memset(table->low, 0, sizeof(table->low));
	table->count = 0;
}

void rp_type_table_fini(struct rp_type_table *table)
{
	while (table->chunks) {
		struct rp_arena_chunk *next = table->chunks->next;

		rp_heap_free(table->chunks);
		table->chunks = next;
	}
	rp_heap_free(table->slots);
	memset(table, 0, sizeof(*table));
}
