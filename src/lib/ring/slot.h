/* SPDX-License-Identifier: MIT */
/*
 * Slots: where a writer finds a session's rings. The slot table is the session list of the write
 * path; a writer's rseq section (or the fallback's lock) is the read side of its RCU, membarrier
 * (or the wait for the lock) its synchronize.
 *
 *	start	fill the slot; membarrier; set bits in enable words
 *	stop	clear the bits; NULL the rings; membarrier; wait for each held fallback lock; free
 *
 * The membarrier at the end is that of the drain thread's first pass that finds the session
 * finishing. Nothing before that pass relies on the writers having left their sections.
 *
 * ORDERING of the fallback: a Dekker pair. Either the writer sees the bit cleared, or the stopper
 * sees its lock held and waits.
 *
 *	writer						stopper
 *	------						-------
 *	lock: even -> odd	[SLOT-LOCK] seq_cst	clear the bit	[SLOT-BIT]  seq_cst
 *	test the bit		[SLOT-BIT]  seq_cst	load the lock	[SLOT-LOCK] seq_cst
 *
 * and the same pair with the clock in place of the bit gives exact sequence points: a writer whose
 * lock the drain thread did not see had not read the clock yet.
 *
 * THE POOL. A session that does not overwrite divides its memory into buffers (ring.h). A writer
 * whose concurrency id has no buffer, or a full one, claims a free buffer and makes it the ring of
 * that id; a holder of a fallback lock does the same for the lock's ring. `owners` says who may
 * write to each buffer. It lives in the slot, in memory that outlives the session, since a writer
 * claims outside of any section; each word has an epoch, so that no word has a value twice.
 *
 *	writer						drain thread, each pass
 *	------						-----------------------
 *	owner: FREE -> TAKEN	[POOL-OWNER] seq_cst	membarrier
 *	a section, on one concurrency id:		buffers that are TAKEN, but no id's ring:
 *	  is the owner still that? [POOL-OWNER]		  owner: TAKEN -> RETIRING [POOL-OWNER]
 *	  rings[cid] = buffer	commit	[POOL-RING]	  generation++		   [SLOT-AGE]
 *	generation++			[SLOT-AGE]	next pass: membarrier
 *							buffers that are RETIRING:
 *							  a ring meanwhile? [POOL-RING] -> TAKEN
 *							  written to meanwhile? retire again
 *							  else no writer can reach them; when read:
 *							  recycle, owner: FREE [POOL-OWNER]
 *
 * A writer that disappears after its claim leaves a buffer that is no id's ring. The drain thread
 * treats it as a buffer that was used and left, with the same result. A buffer of a fallback
 * lock is written under the lock alone: it retires when it is not the lock's ring and the holder
 * that may have claimed it has released the lock. tests/model/pool.pml checks the table.
 *
 * When no buffer is free, the drain thread takes rings back of which all has been read. One of a
 * lock is free as soon as the drain thread has held that lock. One of a concurrency id retires
 * after the next fence, like any that is no id's ring. Retiring it in the same pass would be wrong:
 * a section that found the ring before may note it together with the generation after, and be
 * aborted before its commit. Then the thread would remember a buffer that becomes free unwritten.
 * An exchange on rings[cid] against the writers' plain store needs no more: only the drain thread
 * changes the owner of a ring, so the same pointer is the same ring. For the same reason a buffer
 * that is RETIRING, and was made a ring meanwhile, is not taken before it is TAKEN again.
 *
 *	writer						drain thread
 *	------						-----------
 *	a section: ring = rings[cid]			pass 1: rings[cid]: ring -> NULL [POOL-RING]
 *	rings[cid] = another buffer	[POOL-RING]	pass 2: membarrier; TAKEN -> RETIRING ...
 *
 * tests/model/pool_progress.pml checks that a writer that retries gets a buffer in the end.
 */
#ifndef RP_RING_SLOT_H
#define RP_RING_SLOT_H

#include <stdint.h>

#include "ring/ring.h"

#define RP_SLOTS 40u
#define RP_FALLBACKS 32u		/* so many may write without a sequence simultaneously */
#define RP_FALLBACK_STARTS 4u	/* where threads begin to look for a free lock */
#define RP_POOL_MAX 512u		/* buffers of one session */
#define RP_POOL_STEP_BITS 24u

/*
 * A loss no ring can count: session generation and count in one word, so that a loss lands in the
 * session whose bit was seen, or nowhere.
 */
#define RP_STATS_COUNT ((1ull << 40) - 1)

/*
 * Marks the stack frame of a lock's holder. While the frame lives, its words are there; after the
 * thread left the frame by siglongjmp, any later call or signal overwrites them.
 */
struct rp_fallback;

struct rp_holder {
	uint64_t lock;			/* as it is held */
	const struct rp_fallback *fallback;
	uint64_t thread;
	uint64_t not_lock, not_thread;	/* the complements */
} __attribute__((aligned(16)));

/*
 * A lock of the fallback and its ring. The lock lives here, in memory that outlives the session.
 * Odd is held: the address of the holder's struct rp_holder above 16 bits, which count.
 */
struct rp_fallback {
	uint64_t lock;
	uint64_t late;		/* the value of `lock` that a running session waited for in vain */
	struct rp_ring *ring;	/* NULL: none, or a buffer is still to be claimed */
	uint64_t left;		/* the value whose holder was given up, with its ring */
} __attribute__((aligned(64)));

#define RP_LOCK_COUNT_BITS 16u
#define RP_LOCK_COUNT_MASK 0xffffull

static inline uint64_t rp_lock_held_by(uint64_t free_lock, const struct rp_holder *holder)
{
	return (uint64_t)(uintptr_t)holder << RP_LOCK_COUNT_BITS | (free_lock + 1);
}

/* The value that releases it. */
static inline uint64_t rp_lock_released(uint64_t held_lock)
{
	return (held_lock + 1) & RP_LOCK_COUNT_MASK;
}

/* The owner of a buffer: the low bits of a word of `owners`. */
enum rp_owner {
	RP_OWNER_NONE = 0,	/* no such buffer */
	RP_OWNER_FREE = 1,
	RP_OWNER_TAKEN = 2,	/* the concurrency id whose ring it is, by sections */
	RP_OWNER_RETIRING = 3,
	RP_OWNER_FALLBACK = 8,	/* and above: the holder of a fallback lock, by its index */
};

#define RP_OWNER_MASK 0xffull
#define RP_OWNER_EPOCH 0x100ull		/* one more */

/* The clock that timestamps a session's events. */
enum rp_slot_clock {
	RP_SLOT_CLOCK_TICKS = 0,
	RP_SLOT_CLOCK_CAUSAL = 1,	/* … behind a fence: order between threads is causal */
	/*
	 * The coarse clock; but later than all that the thread and the ring were stamped with, as
	 * in Lamport's clocks: a thread that goes from one ring to another in the meantime keeps
	 * its order in the merge.
	 */
	RP_SLOT_CLOCK_COARSE = 2,
};

struct rp_slot {
	struct rp_ring **rings;		/* by concurrency id; NULL: no session here */
	uint64_t ring_count;
	uint64_t wanted;		/* rings up to this concurrency id are missing */
	uint64_t busy;			/* accounts: generation << 40 | count */
	uint64_t too_big;
	uint64_t blocked;
	uint64_t full;			/* under a fallback lock that had no ring */
	uint64_t wait_ns;		/* writers without room wait this long; 0: they lose */
	uint32_t space;			/* the futex of those that wait: src/lib/core/wait.c */
	uint32_t clock;			/* enum rp_slot_clock */
	struct rp_fallback fallback[RP_FALLBACKS];
	/* The pool; a count of 0: the session's rings are fixed. */
	struct rp_ring **pool;
	uint64_t pool_count;
	uint64_t pool_wake;		/* claims from here on wake the drain thread */
	uint64_t pool_frees;		/* buffers that became free, counted */
	uint64_t pool_empty;		/* pool_frees + 1, as it was when none was free; or 0 */
	/* The same, above the step of a record that no lock's ring had space for then. */
	uint64_t pool_full;		/* RP_POOL_STEP_BITS for the step */
	uint64_t owners[RP_POOL_MAX];
} __attribute__((aligned(64)));

/*
 * The per-thread ring cache. It is valid as long as only that session wants the event, no session
 * has started since, and the concurrency id is the same. It is written inside sections, where an
 * interruption is an abort: `bit` is RP_NO_BIT until the entry is complete. It fits one cache line.
 *
 *	who starts a session			a thread's section
 *	--------------------			------------------
 *	fill the slot				load the enable word: is it `bit`?  [SLOT-BIT]
 *	generation++		[SLOT-AGE]	load the generation: is it `generation`?  [SLOT-AGE]
 *	a heavy fence				load the concurrency id: is it `cid`?
 *	set bits in enable words [SLOT-BIT]	write to `ring`
 *
 * A session that ends needs no more than before: its bits are gone before its rings, a heavy fence
 * in between, and whoever gets the same bit afterwards has another generation. All of this is
 * checked by tests/model/ring_cache.pml.
 */
struct rp_thread_ring {
	uint64_t stamp;			/* the thread's latest by the coarse clock, in any ring */
	uint64_t bit;
	uint64_t generation;
	struct rp_ring *ring;
	/*
	 * Heads below `limit` lie so far behind `base`, and have room for all the words: tails only
	 * go forward, so what was room when the thread looked is room now, and the reader's line is
	 * left alone. That is less than once round the ring, whose data is mapped twice.
	 */
	uint64_t limit;
	uint8_t *base;
	uint32_t cid;
	uint32_t clock;			/* enum rp_slot_clock */
	uint32_t thread;
	/* Not of the cache: the thread has activity ids, so its events need the slow path. */
	uint32_t has_ids;
} __attribute__((aligned(64)));

#define RP_NO_BIT UINT64_MAX

/* The calling thread's. initial-exec: signal handlers write. */
extern __thread struct rp_thread_ring rp_thread_ring
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * The table: RP_SLOTS of them, wiped in a forked child before any handler runs; and behind them the
 * generation of the session that started last, which a child begins without.
 */
extern struct rp_slot *rp_slots __attribute__((visibility("hidden")));

#define RP_SLOTS_GENERATION_AT (RP_SLOTS * sizeof(struct rp_slot))

static inline uint64_t *rp_slots_generation(void)
{
	return (uint64_t *)(void *)(rp_slots + RP_SLOTS);
}

/*
 * The input of one write, built once and used for each session that wants the event. The record's
 * header is stored as the same words that the section loads. If it were assembled in memory from
 * smaller parts, each load would wait for several stores.
 */
struct rp_write {
	const uint64_t *enable;
	uint64_t bit;
	struct rp_slot *slot;
	uint64_t step;			/* bytes of ring it takes */
	uint64_t length_event;		/* bytes 0 to 7 of struct rp_record */
	uint64_t thread_flags;		/* bytes 16 to 23, the processor still 0 */
	const void *prefix;
	uint64_t prefix_bytes;
	const struct rp_part *parts;
	uint64_t part_count;
	uint64_t ticks;			/* multi-session: the previous session's time, or 0 */
	uint8_t above;			/* result: the ring is above its watermark */
	uint8_t claimed;		/* result: many or all buffers, or all locks, are in use */
};

enum rp_write_result {
	RP_WRITE_OK = 0,
	RP_WRITE_GONE = 1,	/* the session does not want it any more: not offered */
	RP_WRITE_NO_RING = 2,	/* no ring for this concurrency id: take the fallback */
	RP_WRITE_FULL = 3,	/* no space, and no buffer is free: counted as lost */
	RP_WRITE_ABORTED = 4,	/* preempted, migrated or signalled: try again */
	RP_WRITE_BUSY = 5,	/* every fallback ring held: counted as lost */
	RP_WRITE_TOO_BIG = 6,	/* larger than a ring takes: counted as lost */
	RP_WRITE_BLOCKED = 7,	/* not waited for, or in vain: counted as lost */
	/* Only if the slot has a wait_ns; the loss is not counted yet. */
	RP_WRITE_NO_SPACE = 8,	/* wait, or give up */
	RP_WRITE_NO_LOCK = 9,	/* all fallback locks are held: the same, without a wake-up */
};

/* Whether this machine and process can use rseq sections; set by rp_rseq_init(). */
extern bool rp_rseq_usable __attribute__((visibility("hidden")));

/* Makes the slot table and finds out about rseq and membarrier. Return: 0 or -ENOMEM. */
int rp_slots_init(void);

/* One try to write by rseq: what is not RP_WRITE_OK has changed nothing. */
enum rp_write_result rp_slot_try_rseq(struct rp_write *write);

/*
 * The same for one session after another: what is stamped by the usual clock keeps its time in
 * `ticks`, and the next takes it, or is RP_WRITE_ABORTED if anything came between. After
 * RP_WRITE_OK the thread still points into the section: rp_rseq_leave() when all are through. Who
 * makes a system call in between, or had another result, begins anew with a `ticks` of 0.
 */
enum rp_write_result rp_slot_try_rseq_multi(struct rp_write *write);

/*
 * After RP_WRITE_FULL: counts the loss. In a ring that overwrites, it frees space or moves the head
 * to the next sub-buffer instead, and returns RP_WRITE_ABORTED: try again.
 */
enum rp_write_result rp_slot_lose_or_switch(struct rp_write *write);

/*
 * Makes the claimed buffer `index`, whose owner word is `token`, the ring of this concurrency id.
 * RP_WRITE_ABORTED: the ring has space, or the buffer was taken back.
 */
enum rp_write_result rp_slot_install(struct rp_write *write, uint64_t index, uint64_t token);

/* One session's, and a loss is counted; RP_WRITE_ABORTED and RP_WRITE_NO_RING changed nothing. */
enum rp_write_result rp_slot_write_rseq(struct rp_write *write);

/* Writes under a fallback lock. Never RP_WRITE_ABORTED or RP_WRITE_NO_RING. */
enum rp_write_result rp_slot_write_fallback(struct rp_write *write);

/*
 * Writes under a fallback lock whose ring has space, for a writer whose own ring is full when no
 * buffer is free. Counts nothing. RP_WRITE_OK, or why not.
 */
enum rp_write_result rp_slot_write_elsewhere(struct rp_write *write);

/* Counts a payload that no ring takes. RP_WRITE_TOO_BIG or RP_WRITE_GONE. */
enum rp_write_result rp_slot_refuse(struct rp_write *write);

/* Counts an event whose wait for space has ended. Return: RP_WRITE_BLOCKED or _GONE. */
enum rp_write_result rp_slot_give_up(struct rp_write *write);

/* Owner words and other numbers that no session of any slot has had before. */
uint64_t rp_pool_next_epoch(void);

/*
 * Claims the lowest free buffer of the slot's pool for `owner`, and sets `claimed` where the drain
 * thread should see to it. Context: any, signal handlers included. Return: its index, *ret_token
 * its owner word; -1: none is free, or there is no pool.
 */
int rp_pool_claim(struct rp_write *write, enum rp_owner owner, uint64_t *ret_token);

/* Whether a writer found no free buffer, or no lock's ring with space, since one became free. */
bool rp_pool_is_short(const struct rp_slot *slot);

/* Releases a claimed buffer that is still empty; does nothing if it was taken back already. */
void rp_pool_release(struct rp_slot *slot, int index, uint64_t token);

/* The heavy half of every pair that rseq sections take part in. Not for signal handlers. */
void rp_fence_heavy(void);

/* Concurrency ids that rings may be wanted for. */
uint32_t rp_slot_ring_count(void);

#endif
