/* SPDX-License-Identifier: MIT */
/*
 * One ring: a byte queue from the writers of one concurrency id (or one fallback lock) to the drain
 * thread.
 *
 * Positions grow for ever; the place of position p is data[p & (size - 1)]. The memory is mapped
 * twice, one mapping after the other, so a record never wraps.
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
 * An overwriting ring has no reader that frees space. Its writers free it, one sub-buffer (an
 * eighth of the ring) at a time. No record crosses a sub-buffer boundary, so each sub-buffer begins
 * with a record, and the tail is always a boundary. A writer without space takes one of these steps
 * and tries again:
 *
 *	head below tail + size		record where the sub-buffer's records end, then move the
 *					head to the boundary				[RING-PUB]
 *	head at tail + size		discard the oldest one: tail += subbuf	[RING-SUBBUF]
 *
 * The tail starts at one sub-buffer minus the ring's size, which is negative. The write itself uses
 * the same instructions as in a ring that does not overwrite.
 *
 * A buffer of a session's pool (slot.h) is a ring that is filled once. Its tail stays a multiple of
 * its size, so records lie in it from beginning to end, and it is mapped once. When the drain
 * thread has read all of it and no writer can reach it any more, rp_ring_recycle() moves tail and
 * head to the next multiple.
 *
 * A snapshot copies the ring, oldest sub-buffer first, and then checks whether a writer discarded
 * the sub-buffer during the copy. A sub-buffer is discarded before anything is written there again.
 *
 *	writer						reader of a copy
 *	------						----------------
 *	store tail		[RING-SUBBUF] release	load head		[RING-PUB]  acquire
 *	(a fence that orders stores)			copy a sub-buffer
 *	write records into the sub-buffer		(a fence that orders loads)
 *	store head		[RING-PUB]   release	load tail: still below?	[RING-SUBBUF]
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

#define RP_RECORD_HEADER 24u
#define RP_RECORD_PREFIX_MAX (2 * 16u + RP_STACK_MAX * 8u)
#define RP_RECORD_MAX (RP_RECORD_HEADER + RP_RECORD_PREFIX_MAX + RP_PAYLOAD_MAX)

#define RP_RING_SUBBUFS 8u		/* of a ring that overwrites */

struct rp_ring {
	/* The writers' line. */
	uint64_t head;
	uint64_t lost_full;
	uint8_t *data;
	uint64_t size;
	uint64_t watermark;	/* more in it, up to `size`, wakes the drain thread */
	uint64_t intent;	/* fallback rings: the head after the last write begun */
	uint64_t subbuf;	/* bytes of a sub-buffer; 0: the ring does not overwrite */
	uint64_t stamp;		/* the latest by the coarse clock */
	/* The reader's line. */
	uint64_t tail __attribute__((aligned(64)));
	uint32_t id;		/* in its session, as in EventsLost */
	/* End of the last record of each sub-buffer; unset if records fill it to its boundary. */
	uint64_t ends[RP_RING_SUBBUFS] __attribute__((aligned(64)));
	uint64_t lost_fallback;	/* events that did not fit, counted under a fallback lock */
};

/* Bytes in front of the data. They contain the struct; in a file, at its beginning. */
#define RP_RING_CONTROL_BYTES 4096u

/* `size` is a power of two, at least a page. Return: 0 or -errno of mmap. */
int rp_ring_create(size_t size, uint32_t id, struct rp_ring **ret_ring);
/* In a file of zeros, RP_RING_CONTROL_BYTES + `size` long, which may be closed afterwards. */
int rp_ring_create_in(int fd, size_t size, uint32_t id, struct rp_ring **ret_ring);
void rp_ring_destroy(struct rp_ring *ring);

/* Buffers of a pool that share one mapping. */
struct rp_ring_array {
	void *memory;
	size_t control_bytes;	/* in front of the buffers' data */
	size_t first;		/* offset of the first struct */
	size_t size;		/* of each buffer */
	uint32_t count;
};

/*
 * Maps `count` buffers of `size` bytes, a power of two and at least a page, whose ids are their
 * indexes. Untouched pages take no memory; a forked child has none of them.
 * Return: 0 or -errno of mmap.
 */
int rp_ring_array_create(size_t size, uint32_t count, struct rp_ring_array *ret_array);
struct rp_ring *rp_ring_array_at(const struct rp_ring_array *array, uint32_t index);
/* Unmaps the data of one buffer; its struct stays. */
void rp_ring_array_drop(const struct rp_ring_array *array, uint32_t index);
/* Unmaps all of it. An array of zeros is fine. */
void rp_ring_array_destroy(struct rp_ring_array *array);

/* Before its first write: a buffer of a pool has no watermark. */
void rp_ring_set_pooled(struct rp_ring *ring);

/* Makes a buffer empty that has been read and that no writer can reach. */
static inline void rp_ring_recycle(struct rp_ring *ring)
{
	uint64_t begin = (rp_load_relaxed(&ring->head) + ring->size - 1) & -ring->size;

	/* In this order, so that recovery finds an empty ring in between. */
	rp_store_release(&ring->tail, begin);	/* [RING-ROOM] */
	rp_store_release(&ring->head, begin);	/* [RING-PUB] */
	/* A holder that left the lock in the middle of a record may have left this. */
	rp_store_relaxed(&ring->intent, begin);
}

/* Makes the ring overwrite. Call it before the first write. Writers then wake no reader. */
void rp_ring_set_overwrite(struct rp_ring *ring);

/*
 * Copies an overwriting ring, or a ring of state events, into another ring of the same size, while
 * writers continue. `to` must have no writers. Afterwards it has the records that were not
 * discarded before they were copied: its tail is the number of discarded bytes, and equals the head
 * if no record is left.
 */
void rp_ring_copy(struct rp_ring *to, const struct rp_ring *from);

static inline uint64_t rp_record_step(uint32_t length)
{
	return ((uint64_t)length + 7) & ~7ull;
}

/* The oldest position that is not discarded. */
static inline uint64_t rp_ring_oldest(const struct rp_ring *ring)
{
	uint64_t tail = rp_load_relaxed(&ring->tail);	/* [RING-SUBBUF] */

	return (int64_t)tail > 0 ? tail : 0;
}

/*
 * End of the contiguous records from `position`, which is below `limit`, an earlier head. In an
 * overwriting ring, they end in the same sub-buffer. The next ones start at rp_ring_next_batch().
 */
static inline uint64_t rp_ring_batch_end(const struct rp_ring *ring, uint64_t position,
					 uint64_t limit)
{
	uint64_t boundary = (position | (ring->subbuf - 1)) + 1, end;

	if (!ring->subbuf || boundary > limit)
		return limit;
	end = rp_load_relaxed(&ring->ends[position / ring->subbuf % RP_RING_SUBBUFS]);
	/* An end from an earlier round means that records filled the sub-buffer to its boundary. */
	return boundary - end < ring->subbuf ? end : boundary;
}

static inline uint64_t rp_ring_next_batch(const struct rp_ring *ring, uint64_t row_end)
{
	return ring->subbuf ? (row_end + ring->subbuf - 1) & ~(ring->subbuf - 1) : row_end;
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
	uint64_t space = limit - position;

	if (space < RP_RECORD_HEADER || record->length < RP_RECORD_HEADER || record->length > space)
		return NULL;
	return record;
}

#endif
