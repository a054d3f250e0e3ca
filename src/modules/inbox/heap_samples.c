/* SPDX-License-Identifier: MIT */
#include "modules/inbox/heap_samples.h"

#include <stddef.h>

#define BUCKET_SLOTS 4u			/* 64 bytes, a cache line */
#define CLAIMED ((uintptr_t)1)		/* a slot whose id is being written */

struct inbox_heap_sample {
	uintptr_t block;		/* 0: free */
	uint64_t id;			/* valid if `block` is an address */
};

uint8_t rp_inbox_heap_filter[INBOX_HEAP_BUCKETS];

static struct inbox_heap_sample samples[INBOX_HEAP_BUCKETS][BUCKET_SLOTS]
	__attribute__((aligned(64)));

static bool claim(struct inbox_heap_sample *sample, uintptr_t before)
{
	return __atomic_compare_exchange_n(&sample->block, &before, CLAIMED, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void publish(struct inbox_heap_sample *sample, const void *block, uint64_t id)
{
	__atomic_store_n(&sample->id, id, __ATOMIC_RELAXED);
	__atomic_store_n(&sample->block, (uintptr_t)block, __ATOMIC_RELEASE);
}

static uint64_t id_of(const struct inbox_heap_sample *sample)
{
	return __atomic_load_n(&sample->id, __ATOMIC_RELAXED);
}

/* A block that was freed while no session wanted to know it: its address is now the caller's. */
static bool replace(struct inbox_heap_sample *bucket, const void *block, uint64_t id)
{
	for (size_t i = 0; i < BUCKET_SLOTS; i++) {
		if (__atomic_load_n(&bucket[i].block, __ATOMIC_RELAXED) == (uintptr_t)block &&
		    claim(&bucket[i], (uintptr_t)block)) {
			publish(&bucket[i], block, id);
			return true;
		}
	}
	return false;
}

bool rp_inbox_heap_insert(const void *block, uint64_t id, uint64_t first_id)
{
	const uint32_t number = rp_inbox_heap_bucket(block);
	struct inbox_heap_sample *bucket = samples[number];

	if (replace(bucket, block, id))
		return true;
	for (size_t i = 0; i < BUCKET_SLOTS; i++) {
		const uintptr_t before = __atomic_load_n(&bucket[i].block, __ATOMIC_ACQUIRE);

		if (before == CLAIMED || (before != 0 && id_of(&bucket[i]) >= first_id) ||
		    !claim(&bucket[i], before))
			continue;
		if (before == 0)
			__atomic_fetch_add(&rp_inbox_heap_filter[number], 1, __ATOMIC_RELAXED);
		publish(&bucket[i], block, id);
		return true;
	}
	return false;
}

uint64_t rp_inbox_heap_remove(const void *block)
{
	const uint32_t number = rp_inbox_heap_bucket(block);
	struct inbox_heap_sample *bucket = samples[number];

	/* NULL is the address in a free slot. */
	for (size_t i = 0; block && i < BUCKET_SLOTS; i++) {
		uint64_t id;

		if (__atomic_load_n(&bucket[i].block, __ATOMIC_ACQUIRE) != (uintptr_t)block ||
		    !claim(&bucket[i], (uintptr_t)block))
			continue;
		id = id_of(&bucket[i]);
		__atomic_store_n(&bucket[i].block, 0, __ATOMIC_RELEASE);
		__atomic_fetch_sub(&rp_inbox_heap_filter[number], 1, __ATOMIC_RELAXED);
		return id;
	}
	return 0;
}
