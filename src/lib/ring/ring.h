/* SPDX-License-Identifier: MIT */
/*
 * A ring buffer ("ring"): a byte queue with one consumer, the drain thread. Its producers are the
 * writers of one concurrency id, or the holders of one fallback lock.
 *
 * Positions only increase. The byte at position p is data[p & (size - 1)]. The memory is mapped
 * twice, one mapping directly after the other, so a record never wraps.
 *
 *	tail <= head <= tail + size
 *	[tail, head) holds whole records; nothing beyond head is ever read
 *
 * A record starts at a multiple of 8:
 *	 0  u32  length: header, prefix and payload, without padding
 *	 4  u32  index of the event's definition
 *	 8  u64  ticks
 *	16  u32  thread
 *	20  u16  processor
 *	22  u8   flags: which ids the prefix contains
 *	23  u8   number of stack frames
 *	24  prefix: 16 bytes activity id, 16 bytes related activity id, 8 bytes for each frame
 *	    payload
 *
 * ORDERING
 *
 *	writer (rseq section, or under a fallback lock)	drain thread
 *	-----------------------------------------------	------------------------------------
 *	load tail		[RING-SPACE] acquire	load head		[RING-PUB] acquire
 *	write the record				read records
 *	store head		[RING-PUB]  release	store tail		[RING-SPACE] release
 *
 * On x86-64, the plain stores and loads of the section already have release and acquire semantics.
 *
 * An overwriting ring has no consumer that frees space. Its writers free space themselves, one
 * sub-buffer (an eighth of the ring) at a time. No record crosses a sub-buffer boundary, so each
 * sub-buffer begins with a record, and the tail is always at a boundary. A writer without space
 * takes one of the following steps and tries again:
 *
 *	head below tail + size		store where the sub-buffer's records end, then move the
 *					head to the boundary				[RING-PUB]
 *	head at tail + size		discard the oldest one: tail += subbuf	[RING-SUBBUF]
 *
 * The tail starts at the size of one sub-buffer minus the size of the ring, which is negative. The
 * write itself executes the same instructions as in a ring that does not overwrite.
 *
 * A buffer of a session's pool (slot.h) is a ring that is filled once and mapped once. Its tail
 * remains a multiple of its size, so records lie in it from beginning to end. After the drain
 * thread has read all of it and no writer can reach it any more, rp_ring_recycle() moves tail and
 * head to the next multiple. A buffer in memory may have fewer bytes than its size, which is a
 * power of two. Its tail is then that much before the multiple, so writers find the buffer full
 * after the bytes that it has.
 *
 * A snapshot copies an overwriting ring, oldest sub-buffer first. After each sub-buffer, it checks
 * whether a writer discarded that sub-buffer during the copy. A writer discards a sub-buffer before
 * it writes anything there again.
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
	uint64_t watermark;	/* wake the drain thread above this fill level, in bytes */
	uint64_t intent;	/* fallback rings: the head after the write begun last */
	uint64_t subbuf;	/* bytes of a sub-buffer; 0: the ring does not overwrite */
	uint64_t stamp;		/* coarse clock: the latest time stamp in this ring */
	/* The reader's line. */
	uint64_t tail __attribute__((aligned(64)));
	uint32_t id;		/* unique in its session; EventsLost reports it */
	uint64_t unused;	/* a pool: bytes of `size` that the buffer does not have */
	/* End of the last record of each sub-buffer. Unset if records fill it to its boundary. */
	uint64_t ends[RP_RING_SUBBUFS] __attribute__((aligned(64)));
	uint64_t lost_fallback;	/* events that found no space, counted under a fallback lock */
};

/* Bytes before the data. They contain the struct; in a file, the struct is at the beginning. */
#define RP_RING_CONTROL_BYTES 4096u

/*
 * Create a ring in anonymous memory. `size` is a power of two and at least a page. Return: 0;
 * -errno of mmap(2).
 */
int rp_ring_create(size_t size, uint32_t id, struct rp_ring **ret_ring);
/*
 * Create a ring in a file of RP_RING_CONTROL_BYTES + `size` zero bytes. The caller may close the
 * file afterwards.
 */
int rp_ring_create_in(int fd, size_t size, uint32_t id, struct rp_ring **ret_ring);
void rp_ring_destroy(struct rp_ring *ring);

/* Buffers of a pool that share one mapping. */
struct rp_ring_array {
	void *memory;
	size_t control_bytes;	/* before the data of the buffers */
	size_t first;		/* offset of the first struct */
	size_t bytes;		/* of each buffer */
	uint32_t count;
};

/*
 * Map `count` buffers of `bytes` bytes, a multiple of the page size. The id of a buffer is its
 * index. Untouched pages take no memory. A forked child does not inherit the mapping.
 *
 * Return: 0; -errno of mmap(2).
 */
int rp_ring_array_create(size_t bytes, uint32_t count, struct rp_ring_array *ret_array);
struct rp_ring *rp_ring_array_at(const struct rp_ring_array *array, uint32_t index);
/* Unmap the data of one buffer, but not its struct. */
void rp_ring_array_drop(const struct rp_ring_array *array, uint32_t index);
/* Unmap all buffers. An array of zeros is allowed. */
void rp_ring_array_destroy(struct rp_ring_array *array);

/* Make the ring a buffer of a pool, which has no watermark. Call it before the first write. */
void rp_ring_set_pooled(struct rp_ring *ring);

/* Empty a buffer that the drain thread has read and that no writer can reach. */
static inline void rp_ring_recycle(struct rp_ring *ring)
{
	uint64_t begin = (rp_load_relaxed(&ring->head) + ring->size - 1) & -ring->size;

	/* In this order, recovery after a crash between the two stores finds an empty ring. */
	rp_store_release(&ring->tail, begin - ring->unused);	/* [RING-SPACE] */
	rp_store_release(&ring->head, begin);	/* [RING-PUB] */
	/* A holder that left the lock in the middle of a record may have left this. */
	rp_store_relaxed(&ring->intent, begin);
}

/* Make the ring overwrite. Call it before the first write. Writers then wake no reader. */
void rp_ring_set_overwrite(struct rp_ring *ring);

/*
 * Copy an overwriting ring, or a ring of state events, into another ring of the same size, while
 * writers continue. `to` must have no writers. Afterwards `to` contains the records that no writer
 * discarded before they were copied. Its tail is the position of the oldest of these records, and
 * equals the head if there are none.
 */
void rp_ring_copy(struct rp_ring *to, const struct rp_ring *from);

static inline uint64_t rp_record_step(uint32_t length)
{
	return ((uint64_t)length + 7) & ~7ull;
}

/* Return the oldest position that no writer has discarded. */
static inline uint64_t rp_ring_oldest(const struct rp_ring *ring)
{
	uint64_t tail = rp_load_relaxed(&ring->tail);	/* [RING-SUBBUF] */

	return (int64_t)tail > 0 ? tail : 0;
}

/*
 * Return the end of the contiguous records that start at `position`. `limit` is a head that the
 * caller has read; `position` is below it. In an overwriting ring, the records end at the boundary
 * of the sub-buffer at the latest. The next records start at
 * rp_ring_next_batch().
 */
static inline uint64_t rp_ring_batch_end(const struct rp_ring *ring, uint64_t position,
					 uint64_t limit)
{
	uint64_t boundary = (position | (ring->subbuf - 1)) + 1, end;

	if (!ring->subbuf || boundary > limit)
		return limit;
	end = rp_load_relaxed(&ring->ends[position / ring->subbuf % RP_RING_SUBBUFS]);
	/* An end from an earlier round: records fill the sub-buffer to its boundary. */
	return boundary - end < ring->subbuf ? end : boundary;
}

static inline uint64_t rp_ring_next_batch(const struct rp_ring *ring, uint64_t batch_end)
{
	return ring->subbuf ? (batch_end + ring->subbuf - 1) & ~(ring->subbuf - 1) : batch_end;
}

static inline const struct rp_record *rp_ring_at(const struct rp_ring *ring, uint64_t position)
{
	return (const void *)(ring->data + (position & (ring->size - 1)));
}

/*
 * Return the record at `position`, which is below `limit`, a head that was read before. Return NULL
 * if the length of the record is impossible, because a stray write corrupted the ring.
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
