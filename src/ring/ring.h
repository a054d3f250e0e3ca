/* SPDX-License-Identifier: MIT */
/*
 * One ring: a byte queue from the writers of one concurrency id (or one fallback lock) to the drain
 * thread.
 *
 * Positions grow for ever; the place of position p is data[p & (size - 1)]. The memory is mapped
 * twice in a row, so a record never wraps.
 *
 *	tail <= head <= tail + size
 *	[tail, head) holds whole records; nothing beyond head is ever read
 *
 * A record, at a multiple of 8:
 *	 0  u32  length, header included, padding not
 *	 4  u32  index of the event's definition
 *	 8  u64  ticks
 *	16  u32  thread
 *	20  u16  processor
 *	22  u8   flags: what stands between header and payload, in this order
 *	23  u8   number of stack frames
 *	24  16 bytes activity id, 16 bytes related activity id, 8 bytes for each frame
 *	    payload
 *
 * ORDERING
 *
 *	writer (rseq section, or under a fallback lock)	drain thread
 *	-----------------------------------------------	------------------------------------
 *	load tail		[RING-ROOM] acquire	load head		[RING-PUB] acquire
 *	write the record				read records
 *	store head		[RING-PUB]  release	store tail		[RING-ROOM] release
 *
 * On x86-64 the section's plain stores and loads are release and acquire.
 */
#ifndef RP_RING_RING_H
#define RP_RING_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "base/atomic.h"

enum rp_record_flags {
	RP_RECORD_ACTIVITY = 1,
	RP_RECORD_RELATED = 2,
};

struct rp_record {
	uint32_t length;
	uint32_t event;
	uint64_t ticks;
	uint32_t thread;
	uint16_t processor;
	uint8_t flags;
	uint8_t frames;
	uint8_t body[];
};

#define RP_RECORD_HEAD 24u
#define RP_RECORD_PREFIX_MAX (2 * 16u + RP_STACK_MAX * 8u)
#define RP_RECORD_MAX (RP_RECORD_HEAD + RP_RECORD_PREFIX_MAX + RP_PAYLOAD_MAX)

struct rp_ring {
	/* The writers' line. */
	uint64_t head;
	uint64_t lost_full;
	uint8_t *data;
	uint64_t size;
	uint64_t watermark;	/* this much in it wakes the drain thread */
	uint64_t intent;	/* fallback rings: the head after the last write begun */
	/* The reader's line. */
	uint64_t tail __attribute__((aligned(64)));
	uint32_t id;		/* in its session, as EventsLost tells it */
};

/* A ring's memory begins with its struct, then comes the data. */
#define RP_RING_CONTROL_BYTES 4096u

/* `size` is a power of two, at least a page. Return: 0 or -errno of mmap. */
int rp_ring_create(size_t size, uint32_t id, struct rp_ring **ret_ring);
/* In a file of zeros, RP_RING_CONTROL_BYTES + `size` long, which may be closed afterwards. */
int rp_ring_create_in(int fd, size_t size, uint32_t id, struct rp_ring **ret_ring);
void rp_ring_destroy(struct rp_ring *ring);

static inline uint64_t rp_record_step(uint32_t length)
{
	return ((uint64_t)length + 7) & ~7ull;
}

/*
 * The record at `position`, which is below `limit`, a head seen before. NULL when its length cannot
 * be: the ring was damaged by a stray write.
 */
static inline const struct rp_record *rp_ring_record(const struct rp_ring *ring, uint64_t position,
						     uint64_t limit)
{
	const struct rp_record *record =
		(const void *)(ring->data + (position & (ring->size - 1)));
	uint64_t room = limit - position;

	if (room < RP_RECORD_HEAD || record->length < RP_RECORD_HEAD || record->length > room)
		return NULL;
	return record;
}

#endif
