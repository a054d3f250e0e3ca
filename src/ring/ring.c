/* SPDX-License-Identifier: MIT */
#include "ring/ring.h"

#include "base/memory.h"

int rp_ring_create_in(int fd, size_t size, uint32_t id, struct rp_ring **ret_ring)
{
	struct rp_ring *ring;
	void *memory;
	int ret = rp_memory_map_ring(fd, RP_RING_CONTROL_BYTES, size, &memory);

	if (ret != 0)
		return ret;
	ring = memory;
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

void rp_ring_destroy(struct rp_ring *ring)
{
	if (ring)
		rp_memory_unmap_ring(ring, RP_RING_CONTROL_BYTES, ring->size);
}
