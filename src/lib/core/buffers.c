/* SPDX-License-Identifier: MIT */
/*
 * The drain thread's part of a session's pool: it frees buffers that no writer can reach any more.
 * THE POOL in ring/slot.h shows the order of the steps.
 *
 * A ring that is not full remains a ring, even if the drain thread has read all of it. So when no
 * buffer is free, the drain thread takes back rings of which it has read all records: those in
 * which the largest record has no space, and any of them if a writer found no free buffer since the
 * last one became free. It takes the rings of locks first, because these are free immediately.
 * Without this step, all buffers of a small session end up as full rings, and none becomes free.
 */
#include "base/atomic.h"
#include "core/buffers.h"
#include "core/core.h"
#include "core/session_state.h"
#include "core/wait.h"
#include "ring/slot.h"

static bool is_ring_of_fallback(const struct rp_slot *slot, const struct rp_source *source)
{
	unsigned int index = source->fallback - 1;

	return rp_load_acquire(&slot->fallback[index].ring) == source->ring;	/* [POOL-RING] */
}

/* Note which buffers are currently rings of concurrency ids. */
static void note_rings(struct rp_session *session)
{
	for (uint32_t i = 0; i < session->source_count; i++)
		session->sources[i].is_ring = false;
	for (uint32_t cid = 0; cid < session->ring_count; cid++) {
		/* [POOL-RING] */
		const struct rp_ring *ring = rp_load_acquire(&session->rings[cid]);

		if (ring)
			session->sources[ring->id].is_ring = true;
	}
}

/* Start to retire a buffer. Return: whether ring caches of threads may contain it. */
static bool retire(struct rp_session *session, struct rp_source *source, uint64_t *owner,
		   uint64_t word)
{
	/* The exchange fails if the writer released the buffer that it claimed. [POOL-OWNER] */
	if (!rp_cas_seq_cst(owner, &word, (word & ~RP_OWNER_MASK) | RP_OWNER_RETIRING))
		return false;
	source->retired = rp_core.pass;
	source->retired_head = rp_load_acquire(&source->ring->head);	/* [RING-PUB] */
	session->retiring++;
	return true;
}

/*
 * A holder makes a claimed buffer the lock's ring before it releases the lock. So the buffer is
 * unused if it is not that ring and the lock is free or was released since the last check.
 */
static bool is_left_by_fallback(struct rp_slot *slot, struct rp_source *source)
{
	uint64_t lock = rp_load_seq_cst(&slot->fallback[source->fallback - 1].lock);
	uint64_t seen = source->seen_lock;

	if (is_ring_of_fallback(slot, source)) {
		source->seen_lock = 0;
		return false;
	}
	source->seen_lock = lock | 1;
	return !(lock & 1) || (seen && seen != lock);
}

void rp_session_note_owners(struct rp_session *session)
{
	const struct rp_slot *slot = &rp_slots[session->slot];

	for (uint32_t i = 0; i < session->pool_count; i++) {
		unsigned int owner = rp_load_acquire(&slot->owners[i]) & RP_OWNER_MASK;

		session->sources[i].fallback = owner < RP_OWNER_FALLBACK ? 0 :
					       owner - RP_OWNER_FALLBACK + 1;
	}
}

void rp_session_retire_buffers(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	bool remembered = false;

	note_rings(session);
	rp_session_note_owners(session);
	for (uint32_t i = 0; i < session->pool_count; i++) {
		struct rp_source *source = &session->sources[i];
		uint64_t word = rp_load_acquire(&slot->owners[i]);	/* [POOL-OWNER] */

		if ((word & RP_OWNER_MASK) == RP_OWNER_TAKEN && !source->is_ring)
			remembered |= retire(session, source, &slot->owners[i], word);
		else if (source->fallback && is_left_by_fallback(slot, source))
			(void)retire(session, source, &slot->owners[i], word);
	}
	if (remembered)
		rp_add_seq_cst(rp_slots_generation(), 1);	/* [SLOT-AGE] */
}

/* Free a buffer that no writer can reach and of which all records have been read. */
static void make_free(struct rp_source *source, uint64_t *owner)
{
	rp_ring_recycle(source->ring);
	source->position = source->limit = source->ring->head;
	source->seen_lock = 0;
	rp_store_release(owner, rp_pool_next_epoch() | RP_OWNER_FREE);	/* [POOL-OWNER] */
}

/* Handle a buffer that retired in an earlier pass. The fence of this pass came after that. */
static bool settle(struct rp_session *session, struct rp_source *source, uint64_t *owner)
{
	uint64_t word = rp_load_relaxed(owner), head;

	if (source->is_ring) {
		/* Its writer was still in the section that makes the buffer a ring. */
		rp_store_release(owner, (word & ~RP_OWNER_MASK) | RP_OWNER_TAKEN);
		session->retiring--;
		return false;
	}
	head = rp_load_acquire(&source->ring->head);	/* [RING-PUB] */
	if (source->retired_head != head) {
		/* The buffer was a ring in between, and ring caches of threads may contain it. */
		source->retired = rp_core.pass;
		source->retired_head = head;
		rp_add_seq_cst(rp_slots_generation(), 1);	/* [SLOT-AGE] */
		return false;
	}
	if (source->position != head)
		return false;
	make_free(source, owner);
	session->retiring--;
	return true;
}

/* Whether all of a ring has been read, and taking it from its owner is of use to others. */
static bool is_idle(const struct rp_source *source, bool is_short)
{
	const struct rp_ring *ring = source->ring;
	uint64_t head = rp_load_acquire(&ring->head);	/* [RING-PUB] */

	return source->position == head &&
	       (is_short || head - ring->tail + RP_RECORD_MAX > ring->size);
}

/*
 * Free the ring of a lock that no writer holds. While the drain thread holds the lock, no writer
 * can reach the ring, so no wait is needed.
 */
static bool take_from_lock(struct rp_fallback *fallback, struct rp_source *source, uint64_t *owner,
			   bool is_short)
{
	uint64_t lock = rp_load_relaxed(&fallback->lock), held = rp_lock_held_by(lock, NULL);
	bool taken;

	if ((lock & 1) || !rp_cas_seq_cst(&fallback->lock, &lock, held))	/* [SLOT-LOCK] */
		return false;
	taken = rp_load_relaxed(&fallback->ring) == source->ring && is_idle(source, is_short);
	if (taken) {
		rp_store_release(&fallback->ring, NULL);	/* [POOL-RING] */
		make_free(source, owner);
	}
	(void)rp_exchange_seq_cst(&fallback->lock, rp_lock_released(held));
	return taken;
}

static bool take_from_locks(struct rp_session *session, bool is_short)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	bool any = false;

	rp_session_note_owners(session);
	for (uint32_t i = 0; i < session->pool_count; i++) {
		struct rp_source *source = &session->sources[i];

		if (source->fallback && is_idle(source, is_short))
			any |= take_from_lock(&slot->fallback[source->fallback - 1], source,
					      &slot->owners[i], is_short);
	}
	return any;
}

/*
 * Take back rings of concurrency ids. A section may have found such a ring before, so its buffer
 * retires in the next pass, after that pass's fence. Do not take a buffer that is RETIRING and was
 * made a ring since: it would become free in that pass. With the coarse clock, each concurrency id
 * keeps a ring, because the stamps in a new ring continue those of the previous ring.
 */
static bool take_from_ids(struct rp_session *session, bool is_short)
{
	const struct rp_slot *slot = &rp_slots[session->slot];
	bool any = false;

	if (session->flags & RP_SESSION_COARSE)
		return false;
	for (uint32_t cid = 0; cid < session->ring_count; cid++) {
		struct rp_ring *ring = rp_load_acquire(&session->rings[cid]);	/* [POOL-RING] */

		if (ring && is_idle(&session->sources[ring->id], is_short) &&
		    (rp_load_acquire(&slot->owners[ring->id]) & RP_OWNER_MASK) == RP_OWNER_TAKEN)
			any |= rp_cas_seq_cst(&session->rings[cid], &ring, NULL); /* [POOL-RING] */
	}
	return any;
}

/* Search from the end, because writers claim the lowest free buffer. */
static bool has_free_buffer(const struct rp_session *session)
{
	const struct rp_slot *slot = &rp_slots[session->slot];

	for (uint32_t i = session->pool_count; i > 0; i--) {
		if ((rp_load_relaxed(&slot->owners[i - 1]) & RP_OWNER_MASK) == RP_OWNER_FREE)
			return true;
	}
	return session->pool_count == 0;
}

bool rp_session_free_buffers(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	bool any = false, retires_next = false;

	for (uint32_t i = 0; session->retiring && i < session->pool_count; i++) {
		struct rp_source *source = &session->sources[i];

		if ((rp_load_relaxed(&slot->owners[i]) & RP_OWNER_MASK) == RP_OWNER_RETIRING &&
		    source->retired != rp_core.pass)
			any |= settle(session, source, &slot->owners[i]);
	}
	if (!has_free_buffer(session)) {
		bool is_short = rp_pool_is_short(slot);

		any |= take_from_locks(session, is_short);
		retires_next = !any && take_from_ids(session, is_short);
	}
	if (any) {
		rp_add_seq_cst(&slot->pool_frees, 1);	/* [POOL-FREE] */
		if (session->wait_ns)
			rp_wait_wake(slot);
	}
	return session->retiring != 0 || retires_next;
}

void rp_session_open_pool(const struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	slot->pool = session->pool;
	rp_store_relaxed(&slot->pool_open, session->pool_open);
	rp_store_relaxed(&slot->pool_wake, session->pool_wake);
	rp_store_relaxed(&slot->pool_frees, rp_load_relaxed(&slot->pool_frees) + 1);
	for (uint32_t i = 0; i < session->pool_count; i++)
		rp_store_release(&slot->owners[i], rp_pool_next_epoch() | RP_OWNER_FREE);
	rp_store_release(&slot->pool_count, (uint64_t)session->pool_count);
}

/* No writer sees the session's bit any more. A late writer finds no buffer to claim. */
void rp_session_close_pool(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	rp_store_release(&slot->pool_count, 0);
	for (uint32_t i = 0; i < session->pool_count; i++)
		rp_store_release(&slot->owners[i], RP_OWNER_NONE);
}
