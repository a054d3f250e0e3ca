/* SPDX-License-Identifier: MIT */
/* The placement of rings in memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
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
		rp_ring_destroy(ring);
		for (size_t at = 0; at < RP_RING_CONTROL_BYTES + 2 * RING_BYTES; at += 4096)
			left += mincore(memory + at, 4096, &there) == 0 || errno != ENOMEM;
	}
	cr_assert_eq(left, 0u);
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
