/* SPDX-License-Identifier: MIT */
/* The placement of rings in memory. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ring/ring.h"
#include "ring/slot.h"

#define RING_BYTES 4096u
#define LINE 64u

static uint8_t *memory_of(const struct rp_ring *ring)
{
	return ring->data - RP_RING_CONTROL_BYTES;
}

Test(ring_memory, rings_of_all_sessions_begin_in_different_lines_of_their_pages)
{
	bool taken[RP_RING_CONTROL_BYTES / LINE] = { false };
	struct rp_ring *rings[RP_SLOTS];

	for (unsigned int i = 0; i < RP_SLOTS; i++) {
		size_t offset;

		cr_assert_eq(rp_ring_create(RING_BYTES, i, &rings[i]), 0);
		offset = (size_t)((uint8_t *)rings[i] - memory_of(rings[i]));
		cr_assert_eq(offset % LINE, 0u);
		cr_assert_leq(offset + sizeof(*rings[i]), RP_RING_CONTROL_BYTES);
		cr_expect(!taken[offset / LINE], "ring %u at %zu", i, offset);
		taken[offset / LINE] = true;
	}
	for (unsigned int i = 0; i < RP_SLOTS; i++)
		rp_ring_destroy(rings[i]);
}

Test(ring_memory, wherever_a_ring_begins_all_of_it_is_given_back)
{
	struct rp_ring *ring;
	unsigned int left = 0;
	uint8_t *memory;
	unsigned char there;

	for (unsigned int i = 0; i < 2 * RP_SLOTS; i++) {
		cr_assert_eq(rp_ring_create(RING_BYTES, 0, &ring), 0);
		memory = memory_of(ring);
		memset(ring->data, 1, 2 * RING_BYTES);
		rp_ring_destroy(ring);
		for (size_t at = 0; at < RP_RING_CONTROL_BYTES + 2 * RING_BYTES; at += 4096)
			left += mincore(memory + at, 4096, &there) != 0 || (there & 1);
	}
	cr_assert_eq(left, 0u, "%u pages", left);
}

/* A thread that waits in a page fault of a destroyed ring finds a mapping. */
Test(ring_memory, address_range_remains_mapped_for_a_later_ring_of_the_size)
{
	struct rp_ring *ring, *larger;
	uint8_t *memory, *data;

	cr_assert_eq(rp_ring_create(RING_BYTES, 0, &ring), 0);
	memory = memory_of(ring);
	data = ring->data;
	memset(data, 1, RING_BYTES);
	rp_ring_destroy(ring);
	cr_expect_eq(data[0], 0);
	data[0] = 1;
	cr_assert_eq(rp_ring_create(2 * RING_BYTES, 0, &larger), 0);
	cr_expect_neq((void *)memory_of(larger), (void *)memory);
	cr_assert_eq(rp_ring_create(RING_BYTES, 0, &ring), 0);
	cr_expect_eq((void *)memory_of(ring), (void *)memory);
	cr_expect_eq(ring->data[0], 0);
	cr_expect_eq(ring->head, 0u);
	rp_ring_destroy(ring);
	rp_ring_destroy(larger);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Without address space, the free ranges are unmapped. */
Test(ring_memory, free_ranges_do_not_prevent_a_larger_ring)
{
	const size_t bytes = 64u << 20;
	struct rp_ring_array array;
	struct rlimit limit;
	struct rp_ring *ring;
	char line[64] = "";
	FILE *file = fopen("/proc/self/statm", "r");

	cr_assert_not_null(file);
	cr_assert_not_null(fgets(line, sizeof(line), file));
	fclose(file);
	cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = strtoull(line, NULL, 10) * 4096 + 4 * bytes;
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	cr_assert_eq(rp_ring_array_create(bytes, 2, &array), 0);
	rp_ring_array_destroy(&array);
	cr_assert_eq(rp_ring_create(bytes, 0, &ring), 0);
	rp_ring_destroy(ring);
}
#endif

/* Buffers with fewer bytes than their size, as writers and the drain thread see them. */
Test(ring_memory, buffers_of_any_number_of_pages_do_not_overlap)
{
	const size_t bytes = 3 * 4096;
	struct rp_ring_array array;

	cr_assert_eq(rp_ring_array_create(bytes, 3, &array), 0);
	for (unsigned int i = 0; i < 3; i++) {
		struct rp_ring *ring = rp_ring_array_at(&array, i);

		for (unsigned int round = 0; round < 3; round++) {
			cr_expect_eq(ring->size - (ring->head - ring->tail), bytes);
			cr_expect_eq(ring->head & (ring->size - 1), 0u);
			ring->head += bytes;
			rp_ring_recycle(ring);
		}
		memset(ring->data, (int)i + 1, bytes);
	}
	for (unsigned int i = 0; i < 3; i++) {
		const struct rp_ring *ring = rp_ring_array_at(&array, i);

		cr_expect_eq(ring->data[0], i + 1);
		cr_expect_eq(ring->data[bytes - 1], i + 1);
	}
	rp_ring_array_destroy(&array);
}

Test(ring_memory, a_ring_in_a_file_begins_where_the_file_does)
{
	struct rp_ring *ring;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, RP_RING_CONTROL_BYTES + RING_BYTES), 0);
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(rp_ring_create_in(fd, RING_BYTES, i, &ring), 0);
		cr_expect_eq((void *)ring, (void *)memory_of(ring));
		rp_ring_destroy(ring);
	}
	close(fd);
}
