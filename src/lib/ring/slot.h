/* SPDX-License-Identifier: MIT */
/*
 * Slots: the table in which writers find the rings of each session. It is the session list of the
 * write path and is protected by RCU. The read side is a writer's rseq section (or the holding of a
 * fallback lock). The synchronize operation is a membarrier (or the wait for that lock).
 *
 *	start	fill the slot; membarrier; set bits in enable words
 *	stop	clear the bits; NULL the rings; membarrier; wait for each held lock; free
 *
 * The membarrier of a stop is the one in the first pass of the drain thread that finds the session
 * finishing. Nothing before that pass relies on the writers having left their sections.
 *
 * ORDERING of the fallback: a Dekker pair. Either the writer sees the bit cleared, or the stopper
 * sees the writer's lock held and waits.
 *
 *	writer						stopper
 *	------						-------
 *	lock: even -> odd	[SLOT-LOCK] seq_cst	clear the bit	[SLOT-BIT]  seq_cst
 *	test the bit		[SLOT-BIT]  seq_cst	load the lock	[SLOT-LOCK] seq_cst
 *
 * The same pair, with the clock in place of the bit, makes sequence points exact: if the drain
 * thread sees a lock free, the next holder of that lock reads the clock after the drain thread did.
 *
 * THE POOL. A session that does not overwrite divides its memory into buffers (ring.h). A writer
 * whose concurrency id has no buffer, or a full one, claims a free buffer and makes it the ring of
 * that id. A holder of a fallback lock does the same for the ring of the lock. `owners` states who
 * may write to each buffer. It is part of the slot, in memory that outlives the session, because a
 * writer claims a buffer outside of any section. Each word contains an epoch, so no word has the
 * same value twice.
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
 * A writer may disappear after its claim and leave a buffer that is no id's ring. The drain thread
 * then retires the buffer like any buffer that writers have left. The buffer of a fallback lock is
 * written only under that lock. It retires when it is no longer the lock's ring, and the holder
 * that may have claimed it has released the lock. tests/model/pool.pml checks the table.
 *
 * When no buffer is free, the drain thread takes back the rings that it has read completely. The
 * ring of a fallback lock is free as soon as the drain thread has held that lock. The ring of a
 * concurrency id retires after the next membarrier, like any buffer that is no id's ring. Retiring
 * it in the same pass would be wrong: a section that found the ring before may cache it with the
 * new generation, and be aborted before its commit. The thread's cache would then contain a buffer
 * that becomes free without a write. A compare-and-exchange on rings[cid] suffices against the
 * plain stores of writers: only the drain thread changes the owner of a ring, so the same pointer
 * is the same ring. For the same reason, the drain thread does not take back a buffer that is
 * RETIRING and was made a ring meanwhile, until the buffer is TAKEN again.
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
#define RP_FALLBACKS 32u		/* writers that can use the fallback simultaneously */
#define RP_FALLBACKS_MAX 128u	/* … and late holders, each of which adds a lock */
#define RP_FALLBACK_STARTS 4u	/* locks at which threads start their search */
#define RP_POOL_MAX 512u		/* buffers of one session */
#define RP_POOL_STEP_BITS 24u

/*
 * Mask of the count in a word for losses that no ring counts. Above the count, the word contains
 * the generation of the session. A loss is therefore counted in the session whose bit the writer
 * saw, or nowhere.
 */
#define RP_STATS_COUNT ((1ull << 40) - 1)

/*
 * Marks the stack frame of a lock's holder. The mark is intact while the frame exists. After the
 * thread has left the frame by siglongjmp, any later call or signal overwrites the mark.
 */
struct rp_fallback;

struct rp_holder {
	uint64_t lock;			/* the value of the lock while it is held */
	const struct rp_fallback *fallback;
	uint64_t thread;
	uint64_t not_lock, not_thread;	/* the complements */
} __attribute__((aligned(16)));

/*
 * A lock of the fallback, and its ring. The lock is in memory that outlives the session. An odd
 * value means that the lock is held: it contains the address of the holder's struct rp_holder above
 * a count of 16 bits.
 */
struct rp_fallback {
	uint64_t lock;
	uint64_t late;		/* value of `lock` for which a wait of a running session failed */
	uint64_t late_cpu_ns;	/* CPU time of its holder in the middle of that wait */
	uint64_t computing;	/* value of `lock` whose holder has used more since */
	struct rp_ring *ring;	/* NULL: none, or the holder still has to claim a buffer */
	uint64_t space;		/* in `ring`, when a record last found too little */
	uint64_t left;		/* value of `lock` whose holder and ring the drain thread gave up */
	uint64_t late_pass;	/* pass of the drain thread in which that wait failed */
} __attribute__((aligned(64)));

#define RP_LOCK_COUNT_BITS 16u
#define RP_LOCK_COUNT_MASK 0xffffull

static inline uint64_t rp_lock_held_by(uint64_t free_lock, const struct rp_holder *holder)
{
	return (uint64_t)(uintptr_t)holder << RP_LOCK_COUNT_BITS | (free_lock + 1);
}

/* Return the value that releases the lock. */
static inline uint64_t rp_lock_released(uint64_t held_lock)
{
	return (held_lock + 1) & RP_LOCK_COUNT_MASK;
}

/* The owner of a buffer, in the low bits of a word of `owners`. */
enum rp_owner {
	RP_OWNER_NONE = 0,	/* no such buffer */
	RP_OWNER_FREE = 1,
	RP_OWNER_TAKEN = 2,	/* a concurrency id, whose sections write to it */
	RP_OWNER_RETIRING = 3,
	RP_OWNER_FALLBACK = 8,	/* and above: the holder of a fallback lock, plus its index */
};

#define RP_OWNER_MASK 0xffull
#define RP_OWNER_EPOCH 0x100ull		/* increment of the epoch */

/* The clock that timestamps a session's events. */
enum rp_slot_clock {
	RP_SLOT_CLOCK_TICKS = 0,
	RP_SLOT_CLOCK_CAUSAL = 1,	/* after a fence: order between threads is causal */
	/*
	 * The coarse clock, but later than all previous stamps of the thread and of the ring (a
	 * Lamport clock). The merge thus preserves the order of a thread that changes rings between
	 * two steps of the clock.
	 */
	RP_SLOT_CLOCK_COARSE = 2,
};

struct rp_slot {
	struct rp_ring **rings;		/* by concurrency id; NULL: the slot has no session */
	uint64_t ring_count;
	uint64_t wanted;		/* create missing rings below this concurrency id */
	uint64_t busy;			/* losses: generation << 40 | count */
	uint64_t too_big;
	uint64_t blocked;
	uint64_t full;			/* losses under a fallback lock that had no ring */
	uint64_t wait_ns;		/* how long writers wait for space; 0: the event is lost */
	uint32_t space;			/* futex of waiting writers: src/lib/core/wait.c */
	uint32_t clock;			/* enum rp_slot_clock */
	/* Steps up to which sections write large payloads too; 0: the fallback writes them. */
	uint64_t section_step;
	struct rp_fallback fallback[RP_FALLBACKS_MAX];
	uint64_t lock_count;		/* locks that writers try: it never falls in a session */
	/* The pool. A count of 0: the session's rings are fixed. */
	struct rp_ring **pool;
	uint64_t pool_count;
	uint64_t pool_open;		/* locks that leave partly filled rings to others; or 0 */
	uint64_t pool_wake;		/* claims from this index on wake the drain thread */
	uint64_t pool_frees;		/* incremented after buffers became free */
	uint64_t pool_empty;		/* pool_frees + 1 when no buffer was free; or 0 */
	/* The same, shifted above the step of a record for which no lock's ring had space then. */
	uint64_t pool_full;		/* RP_POOL_STEP_BITS for the step */
	uint64_t owners[RP_POOL_MAX];
} __attribute__((aligned(64)));

/*
 * The per-thread ring cache. It is valid while only the cached session wants the event, no session
 * has started since, and the concurrency id is the same. The thread writes it inside sections,
 * where an interruption is an abort: `bit` is RP_NO_BIT until the entry is complete. The cache fits
 * one cache line.
 *
 *	start of a session			a thread's section
 *	------------------			------------------
 *	fill the slot				load the enable word: is it `bit`?  [SLOT-BIT]
 *	generation++		[SLOT-AGE]	load the generation: is it `generation`?  [SLOT-AGE]
 *	a heavy fence				load the concurrency id: is it `cid`?
 *	set bits in enable words [SLOT-BIT]	write to `ring`
 *
 * The end of a session needs no further step. The session's bits are cleared before its rings are
 * freed, with a heavy fence in between, and the next owner of the bit has another generation.
 * tests/model/ring_cache.pml checks all of this.
 */
struct rp_thread_ring {
	uint64_t stamp;			/* coarse clock: the thread's latest stamp, in any ring */
	uint64_t bit;
	uint64_t generation;
	struct rp_ring *ring;
	/*
	 * Valid for heads below `limit`: the record at `head` is at `base` + head, and the ring has
	 * space for a record of the largest size. Tails only move forward, so space that the thread
	 * once found remains free, and the writer need not read the drain thread's line. The range
	 * is less than one round of the ring, whose data is mapped twice.
	 */
	uint64_t limit;
	uint8_t *base;
	uint32_t cid;
	uint32_t clock;			/* enum rp_slot_clock */
	uint32_t thread;
	/* Not part of the cache: the thread has activity ids, so its events need the slow path. */
	uint32_t has_ids;
} __attribute__((aligned(64)));

#define RP_NO_BIT UINT64_MAX

/* The cache of the calling thread. initial-exec, because signal handlers write events. */
extern __thread struct rp_thread_ring rp_thread_ring
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * The table of RP_SLOTS slots, followed by the generation of the sessions. The kernel zeroes both
 * in a forked child, before any handler runs.
 */
extern struct rp_slot *rp_slots __attribute__((visibility("hidden")));

#define RP_SLOTS_GENERATION_AT (RP_SLOTS * sizeof(struct rp_slot))

static inline uint64_t *rp_slots_generation(void)
{
	return (uint64_t *)(void *)(rp_slots + RP_SLOTS);
}

/*
 * The input of one write. The writer builds it once, and sets `bit` and `slot` for each
 * session that wants the event. The record's header is stored as the 64-bit words that the rseq
 * section loads. If the writer stored smaller parts instead, each load would wait for several
 * stores.
 */
struct rp_write {
	const uint64_t *enable;
	uint64_t bit;
	struct rp_slot *slot;
	uint64_t step;			/* bytes that the record takes in the ring */
	uint64_t length_event;		/* bytes 0 to 7 of struct rp_record */
	uint64_t thread_flags;		/* bytes 16 to 23, with processor 0 */
	const void *prefix;
	uint64_t prefix_bytes;
	const struct rp_part *parts;
	uint64_t part_count;
	uint64_t ticks;			/* multi-session: the previous session's time, or 0 */
	uint64_t space;			/* result: bytes in the ring that had too little space */
	uint8_t above;			/* result: the ring is above its watermark */
	uint8_t claimed;		/* result: many or all buffers, or all locks, are in use */
};

enum rp_write_result {
	RP_WRITE_OK = 0,
	RP_WRITE_GONE = 1,	/* the session no longer wants the event: not offered */
	RP_WRITE_NO_RING = 2,	/* no ring for this concurrency id: use the fallback */
	RP_WRITE_FULL = 3,	/* no space, and no buffer is free: counted as lost */
	RP_WRITE_ABORTED = 4,	/* preempted, migrated or signalled: try again */
	RP_WRITE_BUSY = 5,	/* all fallback locks are held: counted as lost */
	RP_WRITE_TOO_BIG = 6,	/* larger than a ring can hold: counted as lost */
	RP_WRITE_BLOCKED = 7,	/* the writer must not wait, or timed out: counted as lost */
	/* Only if wait_ns of the slot is not 0. The loss is not counted yet. */
	RP_WRITE_NO_SPACE = 8,	/* no space: wait, or give up */
	RP_WRITE_NO_LOCK = 9,	/* all fallback locks are held: the same, but no wake-up comes */
};

/* Whether rseq sections work on this machine and in this process; set by rp_slots_init(). */
extern bool rp_rseq_usable __attribute__((visibility("hidden")));

/* Create the slot table, and detect rseq and membarrier. Return: 0; -ENOMEM: no memory. */
int rp_slots_init(void);

/*
 * Try once to write the record in an rseq section. Any result but RP_WRITE_OK has changed nothing
 * visible.
 */
enum rp_write_result rp_slot_try_rseq(struct rp_write *write);

/*
 * The same, for one of several sessions that want the event. With the usual clock, the first call
 * stores the time in `ticks`, and the following calls reuse it. A following call returns
 * RP_WRITE_ABORTED if the thread was interrupted since the previous call.
 *
 * After RP_WRITE_OK, rseq_cs still points to the section: call rp_rseq_leave() after the last
 * session. Set `ticks` to 0 before the next call if this call returned another result, or if the
 * thread made a system call in between.
 */
enum rp_write_result rp_slot_try_rseq_multi(struct rp_write *write);

/*
 * Count the loss after RP_WRITE_FULL. In an overwriting ring, discard a sub-buffer or move the head
 * to the next one instead, and return RP_WRITE_ABORTED: the caller then tries again.
 */
enum rp_write_result rp_slot_lose_or_switch(struct rp_write *write);

/*
 * Make the claimed buffer `index`, whose owner word is `token`, the ring of this concurrency id.
 * Return RP_WRITE_ABORTED if the ring has space, or if the drain thread took the buffer back.
 */
enum rp_write_result rp_slot_install(struct rp_write *write, uint64_t index, uint64_t token);

/*
 * Write the event for one session and count a loss. RP_WRITE_ABORTED and RP_WRITE_NO_RING: nothing
 * was written or counted.
 */
enum rp_write_result rp_slot_write_rseq(struct rp_write *write);

/* Write the event under a fallback lock. Never returns RP_WRITE_ABORTED or RP_WRITE_NO_RING. */
enum rp_write_result rp_slot_write_fallback(struct rp_write *write);

/*
 * Write the event under a fallback lock whose ring has space. For a writer whose own ring is full
 * while no buffer is free. Counts no loss. Return: RP_WRITE_OK, or the reason of the failure.
 */
enum rp_write_result rp_slot_write_elsewhere(struct rp_write *write);

/*
 * Count the loss of an event that is too large for any ring. Return: RP_WRITE_TOO_BIG or
 * RP_WRITE_GONE.
 */
enum rp_write_result rp_slot_refuse(struct rp_write *write);

/*
 * Count the loss of an event whose wait for space has ended. Return: RP_WRITE_BLOCKED or
 * RP_WRITE_GONE.
 */
enum rp_write_result rp_slot_give_up(struct rp_write *write);

/* Return an epoch for owner words that no session of any slot has had before. */
uint64_t rp_pool_next_epoch(void);

/*
 * Claim the lowest free buffer of the slot's pool for `owner`, and set `claimed` if the drain
 * thread should see the claim. Context: any, signal handlers included. Return: its index, with its
 * owner word in *ret_token; -1: no buffer is free, or there is no pool.
 */
int rp_pool_claim(struct rp_write *write, enum rp_owner owner, uint64_t *ret_token);

/* Whether a writer found no free buffer, or no lock's ring with space, since one became free. */
bool rp_pool_is_short(const struct rp_slot *slot);

/*
 * Release a claimed buffer that is still empty. Does nothing if the drain thread already took it
 * back.
 */
void rp_pool_release(struct rp_slot *slot, int index, uint64_t token);

/*
 * Execute the heavy barrier of every ordering in which rseq sections take part. Not for signal
 * handlers.
 */
void rp_fence_heavy(void);

/* Return the number of concurrency ids that may need rings. */
uint32_t rp_slot_ring_count(void);

#endif
