/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_table.h"

/* Precedes each block, and keeps the alignment. */
struct heap_block {
	_Alignas(max_align_t) const struct rp_host *owner;	/* NULL: from malloc(3) */
	size_t bytes;						/* of the memory that follows */
};

void *rp_heap_alloc(size_t bytes)
{
	const struct rp_host *host = rp_host_get();
	struct heap_block *block;

	if (host && !host->allocate)
		host = NULL;
	if (bytes > SIZE_MAX - sizeof(*block))
		return NULL;
	block = host ? host->allocate(sizeof(*block) + bytes, host->data) :
		malloc(sizeof(*block) + bytes);
	if (!block)
		return NULL;
	block->owner = host;
	block->bytes = bytes;
	return block + 1;
}

void *rp_heap_zalloc(size_t count, size_t item_bytes)
{
	size_t bytes;
	void *memory;

	if (__builtin_mul_overflow(count, item_bytes, &bytes))
		return NULL;
	memory = rp_heap_alloc(bytes);
	return memory ? memset(memory, 0, bytes) : NULL;
}

static struct heap_block *block_of(void *memory)
{
	return (struct heap_block *)memory - 1;
}

void rp_heap_free(void *memory)
{
	struct heap_block *block;

	if (!memory)
		return;
	block = block_of(memory);
	if (block->owner)
		block->owner->release(block, block->owner->data);
	else
		free(block);
}

void *rp_heap_resize(void *memory, size_t bytes)
{
	size_t kept = memory ? block_of(memory)->bytes : 0;
	void *grown = rp_heap_alloc(bytes);

	if (!grown)
		return NULL;
	if (memory)
		memcpy(grown, memory, kept < bytes ? kept : bytes);
	rp_heap_free(memory);
	return grown;
}
