/* SPDX-License-Identifier: MIT */
/*
 * In each pass, and at the end of a session, the drain thread waits for the writers that hold a
 * fallback lock. Most of them release it immediately. A thread that left its write by siglongjmp,
 * or ended during it, never does. No thread can return into such a write, so the drain thread
 * releases the lock. A holder that is only late keeps its lock; if the session ends meanwhile, the
 * drain thread gives up the ring of that lock.
 *
 * Nothing shows where a thread is that computes. If it used more CPU time than a write takes, it
 * either left its write, or a signal handler interrupted the write and may return to it. The thread
 * keeps the lock, and the stats of the running session count its event as lost until it returns.
 *
 * For each late holder, whatever the reason, the drain thread adds a lock to those that writers
 * try, so late holders hinder no other writer. The rings of an overwriting session are fixed, so
 * that session gets no more locks. In a pool, late holders keep at most the locks and buffers
 * that leave a quarter of the buffers to others; with less than 43 buffers, no lock is added.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/process_memory.h"
#include "base/thread.h"
#include "core/buffers.h"
#include "core/core.h"
#include "core/holders.h"
#include "core/left_frames.h"
#include "core/session_state.h"
#include "core/session_stats.h"
#include "ring/slot.h"

#define HOLDER_NS 10000000u	/* wait for a lock's holder in a running session */
#define BRIEF_NS 5000000u	/* the first part of that wait */
#define COMPUTING_NS 1000000u	/* CPU time; a write takes microseconds */
#define LEAVER_NS 1000000000u	/* further wait of a finishing session, which then gives up */
#define CHECK_PASSES 8u		/* first passes that check a late holder; then every eighth does */
#define SPARE_DIVISOR 4u	/* part of a pool that late holders may not keep */

/* The largest count of locks of all sessions so far. A forked child keeps it. */
static uint32_t lock_most = RP_FALLBACKS;

static bool wait_for_lock(const struct rp_fallback *fallback, uint64_t lock, uint64_t until_ns)
{
	struct timespec pause = { 0, 20000 };

	while (rp_load_acquire(&fallback->lock) == lock) {
		if (rp_clock_monotonic_ns() > until_ns)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static bool is_marked(const struct rp_holder *holder, const struct rp_fallback *fallback,
		      uint64_t lock)
{
	return holder->lock == lock && holder->fallback == fallback && holder->not_lock == ~lock &&
	       holder->not_thread == ~holder->thread;
}

/* Read the mark of the holder. The kernel reads it: the stack may be unmapped at any time. */
static bool read_holder(uint64_t lock, struct rp_holder *ret_holder)
{
	return rp_process_memory_read(getpid(), lock >> RP_LOCK_COUNT_BITS, ret_holder,
				      sizeof(*ret_holder));
}

/*
 * Whether the holder can never return: its stack is unmapped, its frame was overwritten, or its
 * thread has ended or sleeps outside of that frame. The function works without /proc and after
 * setuid(2), except for a thread that sleeps.
 */
static bool holder_is_gone(const struct rp_fallback *fallback, uint64_t lock)
{
	const uint64_t address = lock >> RP_LOCK_COUNT_BITS;
	struct rp_holder holder;
	uint32_t thread;

	if (address == 0)
		return false;
	if (!read_holder(lock, &holder))
		return errno == EFAULT;
	thread = (uint32_t)holder.thread;
	return !is_marked(&holder, fallback, lock) || rp_thread_has_ended(thread) ||
	       rp_frame_is_left(thread, address);
}

/* Return the CPU time of the holder's thread; 0: unknown. */
static uint64_t holder_cpu_ns(const struct rp_fallback *fallback, uint64_t lock)
{
	struct rp_holder holder;
	uint64_t cpu_ns;

	if (!read_holder(lock, &holder) || !is_marked(&holder, fallback, lock) ||
	    rp_thread_cpu_ns((uint32_t)holder.thread, &cpu_ns) != 0)
		return 0;
	return cpu_ns;
}

/*
 * Read all locks, and the CPU times of the holders that do not release theirs in the first part of
 * the wait, unless an earlier pass has read them.
 */
static void read_locks(const struct rp_session *session, uint64_t *ret_locks)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	uint64_t until_ns;

	for (unsigned int i = 0; i < session->fallback_count; i++)
		ret_locks[i] = rp_load_seq_cst(&slot->fallback[i].lock);	/* [SLOT-LOCK] */
	until_ns = rp_clock_monotonic_ns() + BRIEF_NS;
	for (unsigned int i = 0; i < session->fallback_count; i++) {
		struct rp_fallback *fallback = &slot->fallback[i];
		uint64_t lock = ret_locks[i];

		if ((lock & 1) && lock != fallback->late &&
		    !wait_for_lock(fallback, lock, until_ns))
			fallback->late_cpu_ns = holder_cpu_ns(fallback, lock);
	}
}

/*
 * Whether a record was begun under the lock and not finished. Such an event was offered and is
 * lost.
 */
static bool left_unfinished(const struct rp_session *session, unsigned int index)
{
	for (uint32_t i = 0; i < session->source_count; i++) {
		const struct rp_source *source = &session->sources[i];

		if (source->fallback == index + 1 && rp_load_relaxed(&source->ring->intent) >
						     rp_load_acquire(&source->ring->head))
			return true;
	}
	return false;
}

/* Return the number of events, 0 or 1, that are lost unless the late holder returns. */
static unsigned int lost_presumably(const struct rp_session *session, unsigned int index,
				    uint64_t lock)
{
	struct rp_fallback *fallback = &rp_slots[session->slot].fallback[index];

	if (rp_load_relaxed(&fallback->computing) != lock &&
	    (!fallback->late_cpu_ns ||
	     holder_cpu_ns(fallback, lock) < fallback->late_cpu_ns + COMPUTING_NS))
		return 0;
	if (!left_unfinished(session, index))
		return 0;
	rp_store_relaxed(&fallback->computing, lock);
	return 1;
}

/* Whether this pass checks a late holder. A check may have to read much of the holder's stack. */
static bool is_for_check(const struct rp_fallback *fallback, unsigned int index)
{
	return rp_core.pass - fallback->late_pass < CHECK_PASSES ||
	       (rp_core.pass + index) % CHECK_PASSES == 0;
}

/* Let writers try a lock more for each late holder. */
static void add_locks(struct rp_session *session, uint32_t late)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	uint32_t most = session->pool_count - session->pool_count / SPARE_DIVISOR;
	uint32_t count = RP_FALLBACKS + late;

	if (most > RP_FALLBACKS_MAX)
		most = RP_FALLBACKS_MAX;
	if (count > most)
		count = most;
	if (count <= rp_load_relaxed(&slot->lock_count))
		return;
	if (count > session->fallback_count)
		session->fallback_count = count;
	if (count > rp_load_relaxed(&lock_most))
		rp_store_relaxed(&lock_most, count);
	rp_store_release(&slot->lock_count, (uint64_t)count);
}

void rp_session_watch_locks(struct rp_session *session)
{
	const uint32_t most = rp_load_relaxed(&lock_most);

	if (session->fallback_count < most)
		session->fallback_count = most;
}

static void release_for_holder(struct rp_session *session, unsigned int index, uint64_t lock)
{
	struct rp_fallback *fallback = &rp_slots[session->slot].fallback[index];
	bool unfinished = left_unfinished(session, index);

	rp_store_relaxed(&fallback->left, 0);
	/* The exchange fails if the holder has released the lock itself. [SLOT-LOCK] */
	if (rp_cas_seq_cst(&fallback->lock, &lock, rp_lock_released(lock)))
		rp_session_count_lost(session, RP_LOSS_DAMAGED, unfinished);
}

/*
 * Give up the ring of a holder that may return after the session's end. The ring's memory remains.
 * The lock stays odd, so no other writer takes it.
 */
static void give_up_ring(struct rp_session *session, unsigned int index, uint64_t lock)
{
	rp_store_relaxed(&rp_slots[session->slot].fallback[index].left, lock);
	rp_session_count_lost(session, RP_LOSS_DAMAGED, left_unfinished(session, index));
	for (uint32_t i = 0; i < session->source_count; i++) {
		struct rp_source *source = &session->sources[i];

		if (source->fallback != index + 1)
			continue;
		source->limit = rp_load_acquire(&source->ring->head);
		source->given_up = true;
	}
}

/*
 * A running session waits once for each holder, and later moves the time of a late holder's event.
 * A finishing session gives up the ring of a late holder.
 *
 * All locks are read before the wait. A writer that takes a lock later has a time after the
 * sequence point, or finds its bit cleared. Such a holder needs no wait and is not late.
 */
void rp_session_wait_for_holders(struct rp_session *session, bool finishing)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	uint64_t locks[RP_FALLBACKS_MAX], until;
	unsigned int presumed = 0, late = 0;

	read_locks(session, locks);
	until = rp_clock_monotonic_ns() + HOLDER_NS - BRIEF_NS;
	for (unsigned int i = 0; i < session->fallback_count; i++) {
		struct rp_fallback *fallback = &slot->fallback[i];
		uint64_t lock = locks[i];

		if (!(lock & 1) || (lock != fallback->late && wait_for_lock(fallback, lock, until)))
			continue;
		if (lock != fallback->late)
			fallback->late_pass = rp_core.pass;
		fallback->late = lock;
		rp_session_note_owners(session);
		if ((finishing || is_for_check(fallback, i)) && holder_is_gone(fallback, lock)) {
			release_for_holder(session, i, lock);
		} else if (!finishing) {
			presumed += lost_presumably(session, i, lock);
			late += lock >> RP_LOCK_COUNT_BITS != 0;
		} else if (lock != rp_load_relaxed(&fallback->left) &&
			   !wait_for_lock(fallback, lock, until + LEAVER_NS)) {
			give_up_ring(session, i, lock);
		}
	}
	add_locks(session, late);
	session->counts.presumed = presumed;
}

unsigned int rp_session_await_holders(const struct rp_session *session, uint64_t until_ns)
{
	const struct rp_slot *slot = &rp_slots[session->slot];
	unsigned int late = 0;

	for (unsigned int i = 0; i < session->fallback_count; i++) {
		const struct rp_fallback *fallback = &slot->fallback[i];
		uint64_t lock = rp_load_seq_cst(&fallback->lock);	/* [SLOT-LOCK] */

		/* The drain thread has counted the events of the two other kinds. */
		if ((lock & 1) && lock != rp_load_relaxed(&fallback->left) &&
		    lock != rp_load_relaxed(&fallback->computing))
			late += !wait_for_lock(fallback, lock, until_ns);
	}
	return late;
}
