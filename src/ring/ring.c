/* SPDX-License-Identifier: MIT */
#include "ring/ring.h"

#include "base/atomic.h"
#include "base/memory.h"

/* Places for a ring's struct, a cache line apart. Prime: any number of rings goes through all. */
#define PLACES 61u
#define PLACE_BYTES 64u

_Static_assert((PLACES - 1) * PLACE_BYTES + sizeof(struct rp_ring) <= RP_RING_CONTROL_BYTES,
	       "the last place ends in the ring's head");

/*
 * Where the struct of a ring in memory begins. An event that many sessions want touches the first
 * lines of as many rings, and a nearest cache keeps eight or so of the same place in a page: were
 * they all at its beginning, forty sessions would take a third longer (doc/performance.md).
 */
static size_t next_place(void)
{
	static uint32_t rings;

	return rp_add_relaxed(&rings, 1) * 3 % PLACES * PLACE_BYTES;
}

int rp_ring_create_in(int fd, size_t size, uint32_t id, struct rp_ring **ret_ring)
{
	struct rp_ring *ring;
	void *memory;
	int ret = rp_memory_map_ring(fd, RP_RING_CONTROL_BYTES, size, &memory);

	if (ret != 0)
		return ret;
	/* A file is read by its form: src/recover/format.h. */
	ring = (void *)((char *)memory + (fd < 0 ? next_place() : 0));
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

void rp_ring_set_overwrite(struct rp_ring *ring)
{
	ring->chunk = ring->size / RP_RING_CHUNKS;
	ring->tail = ring->chunk - ring->size;
	ring->watermark = ring->size;
}

/*
 * What is read here may be written meanwhile, and is then thrown away: ThreadSanitizer need not
 * know, nor may the compiler read twice.
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
	uint64_t step = from->chunk ? from->chunk : from->size;

	while (at < head) {
		uint64_t end = at + step < head ? at + step : head;
		uint64_t place = at & (from->size - 1), oldest;
		uint64_t chunk = at / step % RP_RING_CHUNKS;

		copy_words(to->data + place, from->data + place, end - at);
		to->ends[chunk] = rp_load_relaxed(&from->ends[chunk]);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		oldest = rp_ring_oldest(from);	/* [RING-CHUNK] */
		if (oldest > at)
			at = first = oldest;
		else
			at = end;
	}
	to->chunk = from->chunk;
	to->head = head;
	to->tail = first < head ? first : head;
	to->lost_full = rp_load_relaxed(&from->lost_full);
}

void rp_ring_destroy(struct rp_ring *ring)
{
	if (ring)
		rp_memory_unmap_ring(ring->data - RP_RING_CONTROL_BYTES, RP_RING_CONTROL_BYTES,
				     ring->size);
}
