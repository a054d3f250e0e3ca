/* SPDX-License-Identifier: MIT */
#include "tools/analysis/heap_profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/analysis/call_parts.h"

#define ALLOCATED 1u			/* ids of events */
#define FREED 2u

static uint64_t hash_site(const void *sites, uint32_t number)
{
	const struct rp_heap_site *site = (const struct rp_heap_site *)sites + number;

	return rp_call_hash(site->process, site->node);
}

static uint64_t hash_block(const void *blocks, uint32_t number)
{
	const struct rp_heap_block *block = (const struct rp_heap_block *)blocks + number;

	return rp_call_hash(block->process, block->id);
}

/* Find or add the site. Return: 0; -ENOMEM. */
static int find_site(struct rp_heap_profile *heap, uint64_t process, uint32_t node,
		     uint32_t *ret_site)
{
	const struct rp_heap_site wanted = { .process = process, .node = node };
	struct rp_heap_site *sites;
	size_t at, mask;

	if (rp_call_index_reserve(&heap->by_stack, heap->site_count, hash_site, heap->sites))
		return -ENOMEM;
	mask = heap->by_stack.capacity - 1;
	for (at = hash_site(&wanted, 0) & mask; heap->by_stack.slots[at]; at = (at + 1) & mask) {
		*ret_site = heap->by_stack.slots[at] - 1;
		if (heap->sites[*ret_site].process == process &&
		    heap->sites[*ret_site].node == node)
			return 0;
	}
	sites = rp_array_reserve(heap->sites, heap->site_count, &heap->site_capacity, 1,
				 sizeof(*sites));
	if (!sites)
		return -ENOMEM;
	heap->sites = sites;
	sites[heap->site_count] = wanted;
	*ret_site = (uint32_t)heap->site_count++;
	heap->by_stack.slots[at] = *ret_site + 1;
	return 0;
}

/* Return: the slot of the block in the index: an empty one if there is no such block. */
static size_t find_block(const struct rp_heap_profile *heap, uint64_t process, uint64_t id)
{
	const struct rp_heap_block wanted = { .process = process, .id = id };
	const size_t mask = heap->by_id.capacity - 1;
	size_t at;

	for (at = hash_block(&wanted, 0) & mask; heap->by_id.slots[at]; at = (at + 1) & mask) {
		const struct rp_heap_block *block = &heap->blocks[heap->by_id.slots[at] - 1];

		if (block->process == process && block->id == id)
			break;
	}
	return at;
}

/* Add a block. Return: 0; -ENOMEM. */
static int add_block(struct rp_heap_profile *heap, const struct rp_heap_block *block)
{
	struct rp_heap_block *blocks;
	size_t at;

	/* Ids begin at 1; two blocks have the same one only in a damaged trace. */
	if (block->id == 0 || heap->block_count >= RP_HEAP_BLOCKS_MAX) {
		heap->unfollowed++;
		return 0;
	}
	if (rp_call_index_reserve(&heap->by_id, heap->block_count, hash_block, heap->blocks))
		return -ENOMEM;
	at = find_block(heap, block->process, block->id);
	if (heap->by_id.slots[at]) {
		heap->unfollowed++;
		return 0;
	}
	blocks = rp_array_reserve(heap->blocks, heap->block_count, &heap->block_capacity, 1,
				  sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	heap->blocks = blocks;
	blocks[heap->block_count++] = *block;
	heap->by_id.slots[at] = (uint32_t)heap->block_count;
	return 0;
}

static bool is_earlier(const struct rp_heap_profile *heap, const struct rp_reader_event *event)
{
	return heap->has_earlier && event->time_ns <= heap->earlier_ns;
}

static int take_allocated(struct rp_heap_profile *heap, struct rp_profile *profile,
			  const struct rp_reader_event *event, uint64_t process)
{
	const double size = (double)rp_profile_number(event, "size");
	const double interval = (double)rp_profile_number(event, "interval");
	const double chance = interval > 1 ? -expm1(-size / interval) : 1;
	const struct rp_call_weight weight = { .count = 1 };
	struct rp_heap_block block = { .process = process, .id = rp_profile_number(event, "id") };
	struct rp_heap_site *site;
	uint32_t group, node;
	int ret;

	if (heap->where && !rp_expression_matches(heap->where, event, process))
		return 0;
	ret = rp_profile_add(profile, event, process, &weight, &group, &node);
	if (ret == 0)
		ret = find_site(heap, process, node, &block.site);
	if (ret)
		return ret;
	/* A block without bytes is a sample only where all blocks are. */
	block.blocks = chance > 0 ? 1 / chance : 1;
	block.bytes = block.blocks * size;
	block.is_earlier = is_earlier(heap, event);
	heap->samples++;
	heap->without_stack += event->frame_count == 0;
	site = &heap->sites[block.site];
	site->samples++;
	site->allocated_blocks += block.blocks;
	site->allocated_bytes += block.bytes;
	return add_block(heap, &block);
}

/* Blocks that were allocated before the trace, or before its range, have no sample in it. */
static void take_freed(struct rp_heap_profile *heap, const struct rp_reader_event *event,
		       uint64_t process)
{
	struct rp_heap_block *block;
	size_t at;

	if (!heap->block_count)
		return;
	at = find_block(heap, process, rp_profile_number(event, "id"));
	if (!heap->by_id.slots[at])
		return;
	block = &heap->blocks[heap->by_id.slots[at] - 1];
	block->is_freed = true;
	if (is_earlier(heap, event))
		block->is_earlier = false;
}

int rp_heap_profile_take(struct rp_heap_profile *heap, struct rp_profile *profile,
			 const struct rp_reader_event *event, uint64_t process)
{
	if (strcmp(event->type->provider, "ringpipe-heap") != 0)
		return 0;
	if (event->type->id == ALLOCATED)
		return take_allocated(heap, profile, event, process);
	if (event->type->id == FREED)
		take_freed(heap, event, process);
	return 0;
}

static int compare_doubles(double a, double b)
{
	return (a < b) - (a > b);
}

static int by_bytes(const void *left, const void *right)
{
	const struct rp_heap_site *a = left, *b = right;
	int order = compare_doubles(a->live_bytes, b->live_bytes);

	if (!order)
		order = compare_doubles(a->allocated_bytes, b->allocated_bytes);
	if (!order)
		order = (a->process > b->process) - (a->process < b->process);
	return order ? order : (a->node > b->node) - (a->node < b->node);
}

void rp_heap_profile_finish(struct rp_heap_profile *heap)
{
	for (size_t i = 0; i < heap->block_count; i++) {
		const struct rp_heap_block *block = &heap->blocks[i];
		struct rp_heap_site *site = &heap->sites[block->site];

		if (block->is_earlier) {
			site->earlier_blocks += block->blocks;
			site->earlier_bytes += block->bytes;
		}
		if (block->is_freed)
			continue;
		site->live_blocks += block->blocks;
		site->live_bytes += block->bytes;
	}
	if (heap->site_count)
		qsort(heap->sites, heap->site_count, sizeof(*heap->sites), by_bytes);
}

void rp_heap_profile_fini(struct rp_heap_profile *heap)
{
	free(heap->sites);
	free(heap->blocks);
	free(heap->by_stack.slots);
	free(heap->by_id.slots);
	*heap = (struct rp_heap_profile){ 0 };
}
