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
 * finishing: nobody counts on the writers being out before.
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
 */
#ifndef RP_RING_SLOT_H
#define RP_RING_SLOT_H

#include <stdint.h>

#include "ring/ring.h"

#define RP_SLOTS 40u
#define RP_FALLBACKS 8u

/*
 * A loss no ring can count: session generation and count in one word, so that a loss lands in the
 * session whose bit was seen, or nowhere.
 */
#define RP_ACCOUNT_COUNT ((1ull << 40) - 1)

/* The lock lives here, in memory that outlives the session; odd is held. */
struct rp_fallback {
	uint32_t lock;
	uint32_t late;		/* the value of `lock` that a running session waited for in vain */
	struct rp_ring *ring;	/* NULL: none */
	uint32_t left;		/* the value whose holder was given up, with its ring */
} __attribute__((aligned(64)));

/* What a session's events are stamped with. */
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
	uint64_t wait_ns;		/* writers without room wait this long; 0: they lose */
	uint32_t room;			/* the futex of those that wait: src/core/wait.c */
	uint32_t clock;			/* enum rp_slot_clock */
	struct rp_fallback fallback[RP_FALLBACKS];
} __attribute__((aligned(64)));

/*
 * What a thread found when it last looked for a ring, so that it need not look again: true as long
 * as an event is wanted by that session alone, none has started since, and the concurrency id is
 * the same. Written in sections, where an interruption is an abort: `bit` is RP_NO_BIT until all is
 * there. One line of the cache.
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
 * checked by tests/model/known.pml.
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
 * What one write puts into a ring; built once, used for each session that wants the event. The
 * record's head is kept in the two words that are stored: built from parts in memory, the section's
 * loads would wait for several stores each.
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
	uint64_t ticks;			/* in turn: the time that the session before has, or 0 */
	uint8_t above;			/* result: the ring is above its watermark */
};

enum rp_write_result {
	RP_WRITE_OK = 0,
	RP_WRITE_GONE = 1,	/* the session does not want it any more: not offered */
	RP_WRITE_NO_RING = 2,	/* no ring for this concurrency id: take the fallback */
	RP_WRITE_FULL = 3,	/* counted as lost */
	RP_WRITE_ABORTED = 4,	/* preempted, migrated or signalled: try again */
	RP_WRITE_BUSY = 5,	/* every fallback ring held: counted as lost */
	RP_WRITE_TOO_BIG = 6,	/* larger than a ring takes: counted as lost */
	RP_WRITE_BLOCKED = 7,	/* not waited for, or in vain: counted as lost */
	/* Only where the slot has a wait_ns; nothing is counted yet. */
	RP_WRITE_NO_ROOM = 8,	/* wait, or give up */
	RP_WRITE_NO_LOCK = 9,	/* every fallback ring held: the same, but nobody will wake us */
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
enum rp_write_result rp_slot_try_rseq_in_turn(struct rp_write *write);

/* One session's, and a loss is counted; RP_WRITE_ABORTED and RP_WRITE_NO_RING changed nothing. */
enum rp_write_result rp_slot_write_rseq(struct rp_write *write);

/* Writes under a fallback lock. Never RP_WRITE_ABORTED or RP_WRITE_NO_RING. */
enum rp_write_result rp_slot_write_fallback(struct rp_write *write);

/* Counts a payload that no ring takes. RP_WRITE_TOO_BIG or RP_WRITE_GONE. */
enum rp_write_result rp_slot_refuse(struct rp_write *write);

/* Counts what found no room, when nobody waits for it any longer. RP_WRITE_BLOCKED or _GONE. */
enum rp_write_result rp_slot_give_up(struct rp_write *write);

/* The heavy half of every pair that rseq sections take part in. Not for signal handlers. */
void rp_fence_heavy(void);

/* Concurrency ids that rings may be wanted for. */
uint32_t rp_slot_ring_count(void);

#endif
