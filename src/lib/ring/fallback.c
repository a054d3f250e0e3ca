/* SPDX-License-Identifier: MIT */
/*
 * The writer in C11 atomics: for machines and threads without rseq, for large payloads, and for
 * writes whose section was aborted too often. See ORDERING in slot.h and ring.h.
 */
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "ring/slot.h"

#define LARGE_STEP 4096u	/* the space that is left for other records matters from here on */

/* Test the session's bit. Call it after the lock was taken. [SLOT-BIT] */
static bool wanted(const struct rp_write *write)
{
	return (rp_load_seq_cst(write->enable) & write->bit) != 0;
}

/*
 * Add one to a count of losses if the session whose generation the word contains wants the event.
 * The word is read before the bit. A bit that is set therefore belongs to that session or to a
 * later one, and the exchange fails if it belongs to a later one.
 */
static bool count_loss(struct rp_write *write, uint64_t *word)
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
	return count_loss(write, &write->slot->too_big) ? RP_WRITE_TOO_BIG : RP_WRITE_GONE;
}

enum rp_write_result rp_slot_give_up(struct rp_write *write)
{
	return count_loss(write, &write->slot->blocked) ? RP_WRITE_BLOCKED : RP_WRITE_GONE;
}

/*
 * Return a stamp that is later than the last stamps of the thread and of the ring, whose lock is
 * held. A signal handler may write an event between the load and the exchange.
 */
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

/* For coarse times too, the clock is read here: its cost does not matter on this path. */
static void copy_record(const struct rp_write *write, struct rp_ring *ring, uint8_t *to)
{
	struct rp_record *record = (struct rp_record *)to;
	uint16_t processor;
	uint64_t ticks = rp_clock_ticks_processor(&processor);

	if (rp_load_relaxed(&write->slot->clock) == RP_SLOT_CLOCK_COARSE)
		ticks = stamp_after(ring, ticks);

	memcpy(to, &write->length_event, 8);
	memcpy(to + 8, &ticks, 8);
	memcpy(to + 16, &write->thread_flags, 8);
	record->processor = processor;
	to += RP_RECORD_HEADER;
	if (write->prefix_bytes)
		memcpy(to, write->prefix, write->prefix_bytes);
	to += write->prefix_bytes;
	for (uint64_t i = 0; i < write->part_count; i++) {
		if (write->parts[i].size_bytes)
			memcpy(to, write->parts[i].base, write->parts[i].size_bytes);
		to += write->parts[i].size_bytes;
	}
}

/*
 * Free space in an overwriting ring by discarding the oldest sub-buffer. The caller holds the lock.
 */
static void switch_subbuf(struct rp_ring *ring)
{
	uint64_t head = rp_load_relaxed(&ring->head), tail = rp_load_relaxed(&ring->tail);
	uint64_t boundary = tail + ring->size;

	if (head != boundary) {
		rp_store_relaxed(&ring->ends[head / ring->subbuf % RP_RING_SUBBUFS], head);
		rp_store_release(&ring->head, boundary);	/* [RING-PUB] */
	}
	rp_store_release(&ring->tail, tail + ring->subbuf);	/* [RING-SUBBUF] */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Return the space in the ring. The caller holds the lock. */
static uint64_t space_in(const struct rp_ring *ring)
{
	/* [RING-SPACE] */
	return ring->size - (rp_load_relaxed(&ring->head) - rp_load_acquire(&ring->tail));
}

/*
 * Return the ring to write to. If the lock has no ring, or a full one, claim another buffer of the
 * pool. The caller holds the lock. Return NULL if there is no ring.
 */
static struct rp_ring *find_ring(struct rp_write *write, uint64_t index)
{
	struct rp_slot *slot = write->slot;
	struct rp_fallback *fallback = &slot->fallback[index];
	struct rp_ring *ring = rp_load_relaxed(&fallback->ring), *before = ring;
	uint64_t token;
	int buffer;

	if (rp_load_relaxed(&slot->pool_count) == 0 || (ring && write->step <= space_in(ring)))
		return ring;
	buffer = rp_pool_claim(write, (enum rp_owner)(RP_OWNER_FALLBACK + index), &token);
	if (buffer < 0)
		return ring;
	ring = slot->pool[buffer];
	/* The new ring must not have an earlier stamp than the previous one (coarse clock). */
	if (before && ring->stamp < before->stamp)
		ring->stamp = before->stamp;
	rp_store_release(&fallback->ring, ring);	/* [POOL-RING] */
	return ring;
}

/*
 * Whether another writer found that no lock's ring has space for the record. A buffer is filled
 * only once, so this remains true until a buffer becomes free.
 */
static bool is_full(const struct rp_write *write)
{
	uint64_t frees = rp_load_acquire(&write->slot->pool_frees);	/* [POOL-FREE] */
	uint64_t full = rp_load_relaxed(&write->slot->pool_full);

	return full >> RP_POOL_STEP_BITS == frees + 1 &&
	       write->step >= (full & ((1u << RP_POOL_STEP_BITS) - 1));
}

/* How try_lock() handles a record for which the lock's ring has no space. */
enum attempt {
	ATTEMPT_RING,		/* return RP_WRITE_NO_RING: the caller tries another lock */
	ATTEMPT_BUFFER,		/* claim a buffer of the pool, else as ATTEMPT_RING */
	ATTEMPT_OR_LOSE,	/* lose the event if the pool is known to be full */
	ATTEMPT_LOSE,		/* lose the event */
};

/*
 * Decide what happens to a record for which the ring has no space. The caller holds the ring's
 * lock. A loss is counted in the ring, not in the slot, because recovery after a crash finds only
 * the counts of rings.
 *
 * Return: RP_WRITE_NO_RING: the ring of another lock may have space; RP_WRITE_NO_SPACE: the writer
 * may wait; RP_WRITE_FULL: the event is lost and counted. Only RP_WRITE_FULL counts a loss.
 */
static __attribute__((noinline, cold)) enum rp_write_result
refuse(struct rp_write *write, struct rp_ring *ring, enum attempt attempt)
{
	bool is_lost = attempt == ATTEMPT_LOSE || (attempt == ATTEMPT_OR_LOSE && is_full(write));

	if (rp_load_relaxed(&write->slot->pool_count) != 0 && !is_lost) {
		write->space = space_in(ring);
		return RP_WRITE_NO_RING;
	}
	if (rp_load_relaxed(&write->slot->wait_ns))
		return RP_WRITE_NO_SPACE;
	rp_store_relaxed(&ring->lost_fallback, ring->lost_fallback + 1);
	return RP_WRITE_FULL;
}

/* Append the record to the ring. The caller holds the lock. */
static enum rp_write_result append(struct rp_write *write, struct rp_ring *ring,
				   enum attempt attempt)
{
	uint64_t head = rp_load_relaxed(&ring->head);
	uint64_t used = head - rp_load_acquire(&ring->tail) + write->step;	/* [RING-SPACE] */

	if (used > ring->size && ring->subbuf) {
		switch_subbuf(ring);
		head = rp_load_relaxed(&ring->head);
		used = head - rp_load_relaxed(&ring->tail) + write->step;
	}
	if (used > ring->size)
		return refuse(write, ring, attempt);
	/*
	 * If a handler leaves this write by siglongjmp, `intent` shows that an offered event is
	 * lost.
	 */
	rp_store_relaxed(&ring->intent, head + write->step);
	rp_compiler_barrier();
	copy_record(write, ring, ring->data + (head & (ring->size - 1)));
	rp_store_release(&ring->head, head + write->step);	/* [RING-PUB] */
	write->above = used > ring->watermark;
	return RP_WRITE_OK;
}

/*
 * Write the mark by which the drain thread recognises that the holder is still in its write. Call
 * it before the lock is taken.
 */
static void mark_holder(struct rp_holder *holder, const struct rp_fallback *fallback,
			uint64_t held_lock)
{
	const uint64_t thread = rp_thread_id();

	rp_store_relaxed(&holder->lock, held_lock);
	rp_store_relaxed(&holder->fallback, fallback);
	rp_store_relaxed(&holder->thread, thread);
	rp_store_relaxed(&holder->not_lock, ~held_lock);
	rp_store_relaxed(&holder->not_thread, ~thread);
}

/* Write under the lock, which is held. Return RP_WRITE_NO_RING if another lock may have space. */
static enum rp_write_result write_locked(struct rp_write *write, uint64_t index,
					 enum attempt attempt)
{
	struct rp_slot *slot = write->slot;
	struct rp_ring *ring;

	if (!wanted(write) || !rp_load_relaxed(&slot->rings))
		return RP_WRITE_GONE;
	ring = attempt == ATTEMPT_BUFFER ? find_ring(write, index) :
					   rp_load_relaxed(&slot->fallback[index].ring);
	if (!ring)
		return RP_WRITE_NO_RING;
	return write->step > ring->size ? RP_WRITE_TOO_BIG : append(write, ring, attempt);
}

/*
 * All locks were held, or no free lock had a ring for the record: count the loss, unless the writer
 * may wait.
 */
static enum rp_write_result lose(struct rp_write *write, enum rp_write_result why)
{
	struct rp_slot *slot = write->slot;

	if (why == RP_WRITE_TOO_BIG)
		return rp_slot_refuse(write);
	/* Wake the drain thread, so that it checks whether the holders still exist. */
	write->claimed |= why == RP_WRITE_BUSY;
	if (rp_load_relaxed(&slot->wait_ns) && wanted(write))
		return why == RP_WRITE_BUSY ? RP_WRITE_NO_LOCK : RP_WRITE_NO_SPACE;
	return count_loss(write, why == RP_WRITE_BUSY ? &slot->busy : &slot->full) ? why :
	       RP_WRITE_GONE;
}

/*
 * Try one lock. The mark must be in the real stack frame, not in AddressSanitizer's copy on the
 * heap. Return: after RP_WRITE_BUSY, RP_WRITE_NO_RING and RP_WRITE_TOO_BIG, nothing was counted
 * yet.
 */
static __attribute__((noinline, no_sanitize("address"))) enum rp_write_result
try_lock(struct rp_write *write, uint64_t index, enum attempt attempt)
{
	struct rp_fallback *fallback = &write->slot->fallback[index];
	uint64_t lock = rp_load_relaxed(&fallback->lock), held;
	enum rp_write_result result;
	struct rp_holder holder;

	/* Clear the mark that an earlier call may have left at the same address. */
	rp_store_relaxed(&holder.lock, 0);
	if (attempt != ATTEMPT_BUFFER && !rp_load_relaxed(&fallback->ring))
		return RP_WRITE_NO_RING;
	if (lock & 1)
		return RP_WRITE_BUSY;
	held = rp_lock_held_by(lock, &holder);
	mark_holder(&holder, fallback, held);
	if (!rp_cas_seq_cst(&fallback->lock, &lock, held))	/* [SLOT-LOCK] */
		return RP_WRITE_BUSY;
	result = write_locked(write, index, attempt);
	/* An exchange, not a store: it orders the store of the head before the load of `asleep`. */
	(void)rp_exchange_seq_cst(&fallback->lock, rp_lock_released(held));
	return result;
}

/*
 * Start at one of a few locks. They suffice for most programs and leave fewer buffers partly
 * filled.
 */
static unsigned int first_lock(const struct rp_write *write)
{
	return (uint32_t)write->thread_flags % RP_FALLBACK_STARTS;
}

static unsigned int lock_count(const struct rp_slot *slot)
{
	return (unsigned int)rp_load_relaxed(&slot->lock_count);
}

/* Whether another lock may return another result. */
static bool is_for_next(enum rp_write_result result)
{
	return result == RP_WRITE_NO_RING || result == RP_WRITE_BUSY || result == RP_WRITE_TOO_BIG;
}

/*
 * Choose the lock that gets a new buffer when no ring has space for the record: the thread's first
 * lock, in a pool of small buffers and for a large record a lock without a ring, or the lock whose
 * ring is fullest if enough locks have one. The other rings keep their space for smaller records.
 */
static unsigned int choose_lock(const struct rp_write *write, unsigned int start)
{
	const struct rp_slot *slot = write->slot;
	uint64_t open = rp_load_relaxed(&slot->pool_open), rings = 0, least = UINT64_MAX;
	unsigned int count = lock_count(slot), unused = start, fullest = start;

	if (open == 0 || write->step < LARGE_STEP)
		return start;
	for (unsigned int i = count; i > 0; i--) {
		unsigned int index = (start + i - 1) % count;
		const struct rp_fallback *fallback = &slot->fallback[index];
		uint64_t space = rp_load_relaxed(&fallback->space);

		if (!rp_load_relaxed(&fallback->ring)) {
			unused = index;
			continue;
		}
		rings++;
		if (space <= least) {
			least = space;
			fullest = index;
		}
	}
	return rings < open ? unused : fullest;
}

/*
 * Try all locks. The end of a buffer may be too short for a large record and still take smaller
 * ones. The writer therefore tries all existing rings before it claims a new buffer. The exception
 * is the thread's first lock, if that has no ring.
 */
static __attribute__((noinline)) enum rp_write_result try_locks(struct rp_write *write)
{
	struct rp_slot *slot = write->slot;
	bool is_pooled = rp_load_relaxed(&slot->pool_count) != 0, is_held = false;
	unsigned int count = lock_count(slot), attempts = is_pooled ? 2 * count : count;
	unsigned int start = first_lock(write);
	uint64_t frees = rp_load_acquire(&slot->pool_frees);	/* [POOL-FREE] */
	enum rp_write_result why = RP_WRITE_BUSY;

	for (unsigned int attempt = 0; attempt < attempts; attempt++) {
		enum rp_write_result result;
		bool has_ring, claims;
		unsigned int index;

		if (attempt == count)
			start = choose_lock(write, start);
		index = (start + attempt) % count;
		has_ring = rp_load_relaxed(&slot->fallback[index].ring) != NULL;
		claims = is_pooled && (attempt >= count || (attempt == 0 && !has_ring));
		if (!has_ring && !claims)
			continue;
		result = try_lock(write, index, claims ? ATTEMPT_BUFFER : ATTEMPT_RING);
		if (result == RP_WRITE_BUSY) {
			is_held = true;
			continue;
		}
		if (!is_for_next(result))
			return result;
		if (result == RP_WRITE_NO_RING && has_ring)
			rp_store_relaxed(&slot->fallback[index].space, write->space);
		why = result;
	}
	if (is_pooled && why == RP_WRITE_NO_RING && !is_held)
		rp_store_relaxed(&slot->pool_full, (frees + 1) << RP_POOL_STEP_BITS |
						  write->step);
	return why;
}

static enum rp_write_result find_space(struct rp_write *write)
{
	return is_full(write) ? RP_WRITE_NO_RING : try_locks(write);
}

/* Count the loss in the ring of the first lock that is free and has a ring. */
static enum rp_write_result lose_in_ring(struct rp_write *write)
{
	unsigned int start = first_lock(write), count = lock_count(write->slot);
	enum rp_write_result result = RP_WRITE_NO_RING;

	for (unsigned int attempt = 0; attempt < count && is_for_next(result); attempt++)
		result = try_lock(write, (start + attempt) % count, ATTEMPT_LOSE);
	return is_for_next(result) ? lose(write, RP_WRITE_FULL) : result;
}

static __attribute__((noinline)) enum rp_write_result
lose_anywhere(struct rp_write *write, enum rp_write_result why)
{
	return why == RP_WRITE_NO_RING ? lose_in_ring(write) : lose(write, why);
}

enum rp_write_result rp_slot_write_fallback(struct rp_write *write)
{
	enum rp_write_result result = try_lock(write, first_lock(write), ATTEMPT_OR_LOSE);

	if (__builtin_expect(result == RP_WRITE_OK, 1))
		return result;
	if (is_for_next(result))
		result = find_space(write);
	return is_for_next(result) ? lose_anywhere(write, result) : result;
}

enum rp_write_result rp_slot_write_elsewhere(struct rp_write *write)
{
	return find_space(write);
}
