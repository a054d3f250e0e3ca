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
 *
 * A ring that overwrites has no reader that makes room: its writers do, an eighth of the ring at a
 * time. No record crosses the border of two chunks, so each chunk begins with a record, and the
 * tail is always a border. A writer that finds no room does one of two things and tries again:
 *
 *	head below tail + size		notes where the chunk's records end, then the head goes to
 *					the border					[RING-PUB]
 *	head at tail + size		gives the oldest chunk up: tail += chunk	[RING-CHUNK]
 *
 * The tail begins below zero, a chunk short of a whole ring: it has given up what never was. The
 * write itself is the same instructions as in a ring that does not overwrite.
 *
 * Who wants to know what is in it copies it, oldest chunk first, and looks afterwards whether the
 * chunk was given up meanwhile: a chunk is given up before anything is written there again.
 *
 *	writer						reader of a copy
 *	------						----------------
 *	store tail		[RING-CHUNK] release	load head		[RING-PUB]  acquire
 *	(a fence that orders stores)			copy a chunk
 *	write records into the chunk			(a fence that orders loads)
 *	store head		[RING-PUB]   release	load tail: still below?	[RING-CHUNK] relaxed
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

#define RP_RING_CHUNKS 8u		/* of a ring that overwrites */

struct rp_ring {
	/* The writers' line. */
	uint64_t head;
	uint64_t lost_full;
	uint8_t *data;
	uint64_t size;
	uint64_t watermark;	/* more in it, up to `size`, wakes the drain thread */
	uint64_t intent;	/* fallback rings: the head after the last write begun */
	uint64_t chunk;		/* bytes given up at a time; 0: nothing is overwritten */
	uint64_t stamp;		/* the latest by the coarse clock */
	/* The reader's line. */
	uint64_t tail __attribute__((aligned(64)));
	uint32_t id;		/* in its session, as EventsLost tells it */
	/* Where the last record of each chunk ended; one that was filled to its border has none. */
	uint64_t ends[RP_RING_CHUNKS] __attribute__((aligned(64)));
};

/* What its data lies behind. The struct is in there; in a file, at its beginning. */
#define RP_RING_CONTROL_BYTES 4096u

/* `size` is a power of two, at least a page. Return: 0 or -errno of mmap. */
int rp_ring_create(size_t size, uint32_t id, struct rp_ring **ret_ring);
/* In a file of zeros, RP_RING_CONTROL_BYTES + `size` long, which may be closed afterwards. */
int rp_ring_create_in(int fd, size_t size, uint32_t id, struct rp_ring **ret_ring);
void rp_ring_destroy(struct rp_ring *ring);

/* Before its first write: from now on it overwrites, and wakes nobody. */
void rp_ring_set_overwrite(struct rp_ring *ring);

/*
 * Copies what a ring that overwrites, or one that nobody empties, holds, while writers go on, into
 * one of the same size that nobody writes to. Afterwards `to` is as if written by the same writers,
 * without what they gave up before it was copied: its tail tells how much that is, and is its head
 * if nothing is left.
 */
void rp_ring_copy(struct rp_ring *to, const struct rp_ring *from);

static inline uint64_t rp_record_step(uint32_t length)
{
	return ((uint64_t)length + 7) & ~7ull;
}

/* The oldest position that is not given up. */
static inline uint64_t rp_ring_oldest(const struct rp_ring *ring)
{
	uint64_t tail = rp_load_relaxed(&ring->tail);	/* [RING-CHUNK] */

	return (int64_t)tail > 0 ? tail : 0;
}

/*
 * How far records follow each other from `position`, which is below `limit`, a head seen before: in
 * a ring that overwrites no further than the chunk goes. They go on at rp_ring_next_row().
 */
static inline uint64_t rp_ring_row_end(const struct rp_ring *ring, uint64_t position,
				       uint64_t limit)
{
	uint64_t border = (position | (ring->chunk - 1)) + 1, end;

	if (!ring->chunk || border > limit)
		return limit;
	end = rp_load_relaxed(&ring->ends[position / ring->chunk % RP_RING_CHUNKS]);
	/* What is not of this time around was there when the chunk was filled to its border. */
	return border - end < ring->chunk ? end : border;
}

static inline uint64_t rp_ring_next_row(const struct rp_ring *ring, uint64_t row_end)
{
	return ring->chunk ? (row_end + ring->chunk - 1) & ~(ring->chunk - 1) : row_end;
}

static inline const struct rp_record *rp_ring_at(const struct rp_ring *ring, uint64_t position)
{
	return (const void *)(ring->data + (position & (ring->size - 1)));
}

/*
 * The record at `position`, which is below `limit`, a head seen before. NULL when its length cannot
 * be: the ring was damaged by a stray write.
 */
static inline const struct rp_record *rp_ring_record(const struct rp_ring *ring, uint64_t position,
						     uint64_t limit)
{
	const struct rp_record *record = rp_ring_at(ring, position);
	uint64_t room = limit - position;

	if (room < RP_RECORD_HEAD || record->length < RP_RECORD_HEAD || record->length > room)
		return NULL;
	return record;
}

#endif
