/* SPDX-License-Identifier: MIT */
#include "ring/ring.h"

#include "base/atomic.h"
#include "base/memory.h"

/*
 * Offsets for the struct of a ring, one cache line apart. The count is prime, so that consecutive
 * rings use all offsets.
 */
#define OFFSETS 61u
#define OFFSET_BYTES 64u

_Static_assert((OFFSETS - 1) * OFFSET_BYTES + sizeof(struct rp_ring) <= RP_RING_CONTROL_BYTES,
	       "the last offset ends in the ring's head");

/*
 * Return the offset of the struct for a new ring in memory. An event that many sessions want
 * touches the first cache lines of as many rings. An L1 cache keeps about eight lines with the same
 * offset in a page. If all structs were at the beginning of a page, forty sessions would need a
 * third more time (doc/performance.md).
 */
static size_t next_offset(void)
{
	static uint32_t rings;

	return rp_add_relaxed(&rings, 1) * 3 % OFFSETS * OFFSET_BYTES;
}

int rp_ring_create_in(int fd, size_t size, uint32_t id, struct rp_ring **ret_ring)
{
	struct rp_ring *ring;
	void *memory;
	int ret = rp_memory_map_ring(fd, RP_RING_CONTROL_BYTES, size, &memory);

	if (ret != 0)
		return ret;
	/* In a file, recovery expects the struct at offset 0: src/lib/recover/recovery_format.h. */
	ring = (void *)((char *)memory + (fd < 0 ? next_offset() : 0));
	ring->data = (uint8_t *)memory + RP_RING_CONTROL_BYTES;
	ring->size = size;
	ring->watermark = size / 4;
	ring->id = id;
	*ret_ring = ring;
	return 0;
}

int rp_ring_create(size_t size, uint32_t id, struct rp_ring **ret_ring)
{
	return rp_ring_create_in(-1, size, id, ret_ring);
}

/* Distance between structs. It leaves gaps for the cache lines that the processor prefetches. */
#define ARRAY_STRIDE 320u

_Static_assert(sizeof(struct rp_ring) <= ARRAY_STRIDE, "structs in an array do not overlap");

int rp_ring_array_create(size_t bytes, uint32_t count, struct rp_ring_array *ret_array)
{
	size_t first = next_offset(), size = 1;
	struct rp_ring_array array = {
		/* The same for each offset, so that a later array can have the address range. */
		.control_bytes = (OFFSETS * OFFSET_BYTES + count * ARRAY_STRIDE + 4095) & ~4095ull,
		.first = first,
		.bytes = bytes,
		.count = count,
	};
	int ret = rp_memory_map_once(array.control_bytes + count * bytes, &array.memory);

	if (ret != 0)
		return ret;
	while (size < bytes)
		size *= 2;
	for (uint32_t i = 0; i < count; i++) {
		struct rp_ring *ring = rp_ring_array_at(&array, i);

		ring->data = (uint8_t *)array.memory + array.control_bytes + i * bytes;
		ring->size = size;
		ring->unused = size - bytes;
		ring->tail = 0 - ring->unused;
		ring->id = i;
		rp_ring_set_pooled(ring);
	}
	*ret_array = array;
	return 0;
}

struct rp_ring *rp_ring_array_at(const struct rp_ring_array *array, uint32_t index)
{
	return (void *)((char *)array->memory + array->first + index * ARRAY_STRIDE);
}

void rp_ring_array_drop(const struct rp_ring_array *array, uint32_t index)
{
	rp_memory_unmap(rp_ring_array_at(array, index)->data, array->bytes);
}

void rp_ring_array_destroy(struct rp_ring_array *array)
{
	if (array->memory)
		rp_memory_unmap(array->memory, array->control_bytes + array->count * array->bytes);
	array->memory = NULL;
}

void rp_ring_set_pooled(struct rp_ring *ring)
{
	ring->watermark = ring->size;
}

void rp_ring_set_overwrite(struct rp_ring *ring)
{
	ring->subbuf = ring->size / RP_RING_SUBBUFS;
	ring->tail = ring->subbuf - ring->size;
	ring->watermark = ring->size;
}

/*
 * Writers may overwrite these bytes during the copy, and the caller then discards the copy.
 * Therefore ThreadSanitizer must ignore the race, and the compiler must not read a word twice.
 */
static __attribute__((no_sanitize("thread"))) void copy_words(uint8_t *to, const uint8_t *from,
							      uint64_t bytes)
{
	const volatile uint64_t *source = (const volatile uint64_t *)(const volatile void *)from;
	uint64_t *target = (uint64_t *)(void *)to;

	for (uint64_t i = 0; i < bytes / 8; i++)
		target[i] = source[i];
}

void rp_ring_copy(struct rp_ring *to, const struct rp_ring *from)
{
	uint64_t head = rp_load_acquire(&from->head);	/* [RING-PUB] */
	uint64_t at = rp_ring_oldest(from), first = at;
	uint64_t step = from->subbuf ? from->subbuf : from->size;

	while (at < head) {
		uint64_t end = at + step < head ? at + step : head;
		uint64_t place = at & (from->size - 1), oldest;
		uint64_t subbuf = at / step % RP_RING_SUBBUFS;

		copy_words(to->data + place, from->data + place, end - at);
		to->ends[subbuf] = rp_load_relaxed(&from->ends[subbuf]);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		oldest = rp_ring_oldest(from);	/* [RING-SUBBUF] */
		if (oldest > at)
			at = first = oldest;
		else
			at = end;
	}
	to->subbuf = from->subbuf;
	to->head = head;
	to->tail = first < head ? first : head;
	to->lost_full = rp_load_relaxed(&from->lost_full);
	to->lost_fallback = rp_load_relaxed(&from->lost_fallback);
}

void rp_ring_destroy(struct rp_ring *ring)
{
	if (ring)
		rp_memory_unmap_ring(ring->data - RP_RING_CONTROL_BYTES, RP_RING_CONTROL_BYTES,
				     ring->size);
}
