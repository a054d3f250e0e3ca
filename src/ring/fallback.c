/* SPDX-License-Identifier: MIT */
/*
 * The writer in C11 atomics, for threads without rseq, large payloads, storms of aborts, and
 * machines without rseq. See ORDERING in slot.h and ring.h.
 */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "ring/slot.h"

/* The session's bit, after the lock was taken. [SLOT-BIT] */
static bool wanted(const struct rp_write *write)
{
	return (rp_load_seq_cst(write->enable) & write->bit) != 0;
}

/*
 * Adds one to an account if the session whose generation stands there wants the event: the word is
 * read first, the bit next, so a bit seen belongs to a session not older than the word, and the
 * exchange fails if it is younger.
 */
static bool account(struct rp_write *write, uint64_t *word)
{
	uint64_t old = rp_load_seq_cst(word);

	do {
		if (!wanted(write) || !rp_load_relaxed(&write->slot->rings))
			return false;
	} while (!rp_cas_seq_cst(word, &old, old + 1));
	return true;
}

enum rp_write_result rp_slot_refuse(struct rp_write *write)
{
	return account(write, &write->slot->too_big) ? RP_WRITE_TOO_BIG : RP_WRITE_GONE;
}

enum rp_write_result rp_slot_give_up(struct rp_write *write)
{
	return account(write, &write->slot->blocked) ? RP_WRITE_BLOCKED : RP_WRITE_GONE;
}

/* Later than what the ring, whose lock is held, and the thread have; a handler may be between. */
static uint64_t stamp_after(struct rp_ring *ring, uint64_t ticks)
{
	uint64_t last = rp_load_relaxed(&rp_thread_ring.stamp);

	do {
		if (ticks < last + RP_CLOCK_STEP)
			ticks = last + RP_CLOCK_STEP;
		if (ticks < ring->stamp + RP_CLOCK_STEP)
			ticks = ring->stamp + RP_CLOCK_STEP;
	} while (!rp_cas_seq_cst(&rp_thread_ring.stamp, &last, ticks));
	ring->stamp = ticks;
	return ticks;
}

/* The clock is read for coarse times too: here it is not what costs. */
static void copy_record(const struct rp_write *write, struct rp_ring *ring, uint8_t *to)
{
	struct rp_record *record = (struct rp_record *)to;
	uint64_t ticks = rp_clock_ticks_ordered();

	if (rp_load_relaxed(&write->slot->clock) == RP_SLOT_CLOCK_COARSE)
		ticks = stamp_after(ring, ticks);

	memcpy(to, &write->length_event, 8);
	memcpy(to + 8, &ticks, 8);
	memcpy(to + 16, &write->thread_flags, 8);
	record->processor = (uint16_t)sched_getcpu();	/* vDSO or rseq: no system call */
	to += RP_RECORD_HEAD;
	if (write->prefix_bytes)
		memcpy(to, write->prefix, write->prefix_bytes);
	to += write->prefix_bytes;
	for (uint64_t i = 0; i < write->part_count; i++) {
		if (write->parts[i].size_bytes)
			memcpy(to, write->parts[i].base, write->parts[i].size_bytes);
		to += write->parts[i].size_bytes;
	}
}

/* Room in a ring that overwrites, with its lock held: on to the next chunk, the oldest given up. */
static void turn(struct rp_ring *ring)
{
	uint64_t head = rp_load_relaxed(&ring->head), tail = rp_load_relaxed(&ring->tail);
	uint64_t border = tail + ring->size;

	if (head != border) {
		rp_store_relaxed(&ring->ends[head / ring->chunk % RP_RING_CHUNKS], head);
		rp_store_release(&ring->head, border);	/* [RING-PUB] */
	}
	rp_store_release(&ring->tail, tail + ring->chunk);	/* [RING-CHUNK] */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* With the ring's lock held. */
static enum rp_write_result append(struct rp_write *write, struct rp_ring *ring)
{
	uint64_t head = rp_load_relaxed(&ring->head);
	uint64_t used = head - rp_load_acquire(&ring->tail) + write->step;	/* [RING-ROOM] */

	if (used > ring->size && ring->chunk) {
		turn(ring);
		head = rp_load_relaxed(&ring->head);
		used = head - rp_load_relaxed(&ring->tail) + write->step;
	}
	if (used > ring->size && rp_load_relaxed(&write->slot->wait_ns))
		return RP_WRITE_NO_ROOM;
	if (used > ring->size) {
		rp_store_relaxed(&ring->lost_full, ring->lost_full + 1);
		return RP_WRITE_FULL;
	}
	/* A handler may leave from here by siglongjmp: then the event was offered and is lost. */
	rp_store_relaxed(&ring->intent, head + write->step);
	rp_compiler_barrier();
	copy_record(write, ring, ring->data + (head & (ring->size - 1)));
	rp_store_release(&ring->head, head + write->step);	/* [RING-PUB] */
	write->above = used > ring->watermark;
	return RP_WRITE_OK;
}

enum rp_write_result rp_slot_write_fallback(struct rp_write *write)
{
	struct rp_slot *slot = write->slot;
	unsigned int start = (uint32_t)write->thread_flags % RP_FALLBACKS;
	bool too_big = false;

	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		struct rp_fallback *fallback = &slot->fallback[(start + i) % RP_FALLBACKS];
		uint32_t lock = rp_load_relaxed(&fallback->lock);
		enum rp_write_result result = RP_WRITE_NO_RING;
		struct rp_ring *ring;

		if ((lock & 1) || !rp_load_relaxed(&fallback->ring))
			continue;
		if (!rp_cas_seq_cst(&fallback->lock, &lock, lock + 1))	/* [SLOT-LOCK] */
			continue;
		ring = rp_load_relaxed(&fallback->ring);
		if (!wanted(write))
			result = RP_WRITE_GONE;
		else if (ring && write->step > ring->size)
			too_big = true;
		else if (ring)
			result = append(write, ring);
		/* An exchange, not a store: it orders the head before the load of `asleep`. */
		(void)rp_exchange_seq_cst(&fallback->lock, lock + 2);
		if (result != RP_WRITE_NO_RING)
			return result;
	}
	if (too_big)
		return rp_slot_refuse(write);
	if (rp_load_relaxed(&slot->wait_ns) && wanted(write))
		return RP_WRITE_NO_LOCK;
	return account(write, &slot->busy) ? RP_WRITE_BUSY : RP_WRITE_GONE;
}
