/* SPDX-License-Identifier: MIT */
/*
 * The sampled blocks that the program has not freed yet: a table of fixed size without locks.
 * free(3) first looks at `rp_inbox_heap_filter`, which has the number of blocks in each bucket, so
 * a block that is not sampled costs one load.
 *
 * Only the caller who owns a block inserts or removes it, so no two threads do it for one block.
 */
#ifndef RP_INBOX_HEAP_SAMPLES_H
#define RP_INBOX_HEAP_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#define INBOX_HEAP_BUCKET_BITS 15
#define INBOX_HEAP_BUCKETS (1u << INBOX_HEAP_BUCKET_BITS)

extern uint8_t rp_inbox_heap_filter[INBOX_HEAP_BUCKETS] __attribute__((visibility("hidden")));

static inline uint32_t rp_inbox_heap_bucket(const void *block)
{
	/* The factor is divided by 16 instead of the address, whose low 4 bits are 0. */
	return (uint32_t)((uint64_t)(uintptr_t)block * (0x9e3779b97f4a7c15u >> 4) >>
			  (64 - INBOX_HEAP_BUCKET_BITS));
}

/* Return: whether the block may be a sampled one; NULL may be one too. */
static inline bool rp_inbox_heap_may_be_sampled(const void *block)
{
	return __atomic_load_n(&rp_inbox_heap_filter[rp_inbox_heap_bucket(block)],
			       __ATOMIC_RELAXED) != 0;
}

/*
 * Insert a new block. Blocks with ids below `first_id` belong to earlier sessions, and lose their
 * space to it.
 * Context: any thread, any signal handler. Return: false if the bucket is full.
 */
bool rp_inbox_heap_insert(const void *block, uint64_t id, uint64_t first_id);

/*
 * Remove a block, before it is freed. Context: as above.
 * Return: its id; 0: it was not sampled, or is NULL.
 */
uint64_t rp_inbox_heap_remove(const void *block);

#endif
