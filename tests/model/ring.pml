/* SPDX-License-Identifier: MIT */
/*
 * The lock-free core, checked exhaustively for small sizes: writers in rseq sections and under the
 * fallback's lock, the drain thread's sequence points and merger, the end of a session and the
 * start of the next one in the same slot. The model follows src/lib/ring/write_x86_64.S,
 * src/lib/ring/fallback.c, src/lib/core/merge.c and src/lib/core/enable.c step by step.
 *
 * Spin is sequentially consistent and x86 is not, so each processor has a store buffer. Stores wait
 * in it, in order, until any later moment, at the latest a LOCKed instruction, a thread switch, or
 * a membarrier. The processor's own loads see them. The kernel preempts, migrates and signals at
 * any time; each of these, and the membarrier, restarts a section that has not committed.
 *
 * The space of a record returns when the drain thread has read the record. The engine returns the
 * space of a whole buffer, by the same pair of store and load [RING-SPACE]; pool.pml has the buffers.
 *
 * The clock advances when an event is committed and when the drain thread reads the clock. Only the
 * order of two readings matters, and the number of states stays finite.
 *
 * check.py runs the model unchanged, and with one mistake at a time (-DWRONG_…): spin must find
 * each.
 */
#define THREADS 2
#ifndef EVENTS
#define EVENTS 2	/* of each thread */
#endif
#ifndef CPUS
#define CPUS 2
#endif
#ifndef SIZE
#define SIZE 2		/* records in a ring */
#endif
#ifndef SWITCHES
#define SWITCHES 2	/* preemptions, migrations and signals */
#endif
#ifndef PASSES
#define PASSES 1	/* of the drain thread while the session runs */
#endif
#ifndef WAYS
#define WAYS 3		/* bit 0: rseq sections, bit 1: the fallback */
#endif

#define DEPTH 2			/* of a store buffer */
#define FALLBACK CPUS		/* its ring, after those of the processors */
#define RINGS (CPUS + 1)
#define GENERATIONS 3		/* contents of the slot: none, this session, the next */
#define NOWHERE 7

#define RING(g, r) ((g) * RINGS + (r))
#define PLACE(ring, position) ((ring) * SIZE + (position) % SIZE)

/* The memory. A record: thread * EVENTS + serial, from 1, and the clock reading. */
byte head[GENERATIONS * RINGS], tail[GENERATIONS * RINGS], lost[GENERATIONS * RINGS];
byte record[GENERATIONS * RINGS * SIZE], ticks[GENERATIONS * RINGS * SIZE];
bool freed[GENERATIONS];
bool enable = true;
byte slot = 1;			/* the session whose rings are in the slot table */
byte fallback_slot = 1;
byte lock;			/* odd: held */
byte busy = 16;			/* generation * 16 + losses that no ring counts */
byte clock = 1;

/* The processor of each thread. */
byte where[THREADS];
bool in_section[THREADS], aborted[THREADS], done[THREADS];
byte switches;

/* Store buffers, the oldest entry first. */
#define IS_HEAD 1
#define IS_LOST 2
#define IS_RECORD 3
byte buffered[CPUS];
byte kept_kind[CPUS * DEPTH], kept_place[CPUS * DEPTH], kept_value[CPUS * DEPTH], kept_time[CPUS * DEPTH];

/* Ghost variables: the actual history, unknown to any program. */
byte offered, delivered;
byte last_serial[THREADS];
bool over;

inline flush_one(c)
{
	d_step {
		assert(!freed[(kept_kind[(c) * DEPTH] == IS_RECORD -> kept_place[(c) * DEPTH] / SIZE :
			       kept_place[(c) * DEPTH]) / RINGS]);
		if
		:: kept_kind[(c) * DEPTH] == IS_HEAD -> head[kept_place[(c) * DEPTH]] = kept_value[(c) * DEPTH]
		:: kept_kind[(c) * DEPTH] == IS_LOST -> lost[kept_place[(c) * DEPTH]] = kept_value[(c) * DEPTH]
		:: else ->
			record[kept_place[(c) * DEPTH]] = kept_value[(c) * DEPTH];
			ticks[kept_place[(c) * DEPTH]] = kept_time[(c) * DEPTH]
		fi;
		kept_kind[(c) * DEPTH] = kept_kind[(c) * DEPTH + 1];
		kept_place[(c) * DEPTH] = kept_place[(c) * DEPTH + 1];
		kept_value[(c) * DEPTH] = kept_value[(c) * DEPTH + 1];
		kept_time[(c) * DEPTH] = kept_time[(c) * DEPTH + 1];
		kept_kind[(c) * DEPTH + 1] = 0;
		kept_place[(c) * DEPTH + 1] = 0;
		kept_value[(c) * DEPTH + 1] = 0;
		kept_time[(c) * DEPTH + 1] = 0;
		buffered[c]--
	}
}

inline flush_all(c)
{
	do
	:: buffered[c] > 0 -> flush_one(c)
	:: else -> break
	od
}

inline store(c, kind, place, number, time)
{
	kept_kind[(c) * DEPTH + buffered[c]] = kind;
	kept_place[(c) * DEPTH + buffered[c]] = place;
	kept_value[(c) * DEPTH + buffered[c]] = number;
	kept_time[(c) * DEPTH + buffered[c]] = time;
	buffered[c]++
}

/* A load by the processor whose own store buffer may hold the newest value. */
#define OWN(c, kind, place, memory) \
	(buffered[c] > 1 && kept_kind[(c) * DEPTH + 1] == kind && kept_place[(c) * DEPTH + 1] == (place) -> \
	 kept_value[(c) * DEPTH + 1] : \
	 (buffered[c] > 0 && kept_kind[(c) * DEPTH] == kind && kept_place[(c) * DEPTH] == (place) -> \
	  kept_value[(c) * DEPTH] : memory[place]))

#define RUNS (where[me] != NOWHERE)
#define SPACE (where[me] != NOWHERE && buffered[where[me]] < DEPTH)

#ifdef WRONG_NO_ABORT	/* a section continues after an interruption */
#define RESTARTED false
#else
#define RESTARTED aborted[me]
#endif

#ifdef WRONG_SPACE	/* accepts one record too many */
#define FULL(used) ((used) > SIZE + 1)
#else
#define FULL(used) ((used) > SIZE)
#endif

proctype writer(byte me)
{
	byte serial = 1, c, ring, h, now, old;

next_event:	/* the bit read outside the section is only a hint */
	if
	:: atomic { RUNS && !enable -> goto written }
#if WAYS & 1
	:: atomic { RUNS && enable -> goto section }
#endif
#if WAYS & 2
	:: atomic { RUNS && enable -> goto fallback }
#endif
	fi;

section:
	atomic { RUNS -> in_section[me] = true; aborted[me] = false; c = where[me] };
#ifndef WRONG_NO_TEST_INSIDE
	if
	:: atomic { RESTARTED -> in_section[me] = false; goto section }
	:: atomic { RUNS && !RESTARTED && !enable -> in_section[me] = false; goto written }
	:: atomic { RUNS && !RESTARTED && enable -> skip }
	fi;
#endif
	if
	:: atomic { RESTARTED -> in_section[me] = false; goto section }
	:: atomic { RUNS && !RESTARTED && slot == 0 -> in_section[me] = false; goto written }
	:: atomic { RUNS && !RESTARTED && slot != 0 -> ring = RING(slot, c) }
	fi;
	if
	:: atomic { RESTARTED -> in_section[me] = false; ring = 0; goto section }
	:: atomic { RUNS && !RESTARTED -> assert(!freed[ring / RINGS]);
		    h = OWN(c, IS_HEAD, ring, head) }
	fi;
	if
	:: atomic { RESTARTED -> in_section[me] = false; h = 0; ring = 0; goto section }
	:: atomic { RUNS && !RESTARTED && FULL(h - tail[ring] + 1) ->
		    h = 0; goto lose }
	:: atomic { RUNS && !RESTARTED && !FULL(h - tail[ring] + 1) -> skip }
	fi;
	if
	:: atomic { RESTARTED -> in_section[me] = false; h = 0; ring = 0; goto section }
	:: atomic { RUNS && !RESTARTED -> now = clock }
	fi;
#ifdef WRONG_HEAD_FIRST
	if
	:: atomic { RESTARTED -> in_section[me] = false; h = 0; ring = 0; now = 0; goto section }
	:: atomic { SPACE && !RESTARTED -> store(c, IS_HEAD, ring, h + 1, 0); offered++; clock++ }
	fi;
	atomic { SPACE -> in_section[me] = false;
		 store(where[me], IS_RECORD, PLACE(ring, h), me * EVENTS + serial, now) };
#else
	if
	:: atomic { RESTARTED -> in_section[me] = false; h = 0; ring = 0; now = 0; goto section }
	:: atomic { SPACE && !RESTARTED ->
		    store(c, IS_RECORD, PLACE(ring, h), me * EVENTS + serial, now) }
	fi;
	if
	:: atomic { RESTARTED -> in_section[me] = false; h = 0; ring = 0; now = 0; goto section }
	:: atomic { SPACE && !RESTARTED ->	/* the commit, which ends the section */
		    store(c, IS_HEAD, ring, h + 1, 0);
		    in_section[me] = false; offered++; clock++ }
	fi;
#endif
	goto written;

lose:	/* a section with the same tests, entered when the first found no space */
#ifdef WRONG_LOSS_OUTSIDE
	atomic { RUNS -> in_section[me] = false; now = OWN(where[me], IS_LOST, ring, lost);
		 offered++ };
	atomic { SPACE -> store(where[me], IS_LOST, ring, now + 1, 0) };
	goto written;
#else
	if
	:: atomic { RESTARTED -> in_section[me] = false; ring = 0; goto section }
	:: atomic { SPACE && !RESTARTED ->	/* incq, the commit */
		    now = OWN(c, IS_LOST, ring, lost) + 1;
		    store(c, IS_LOST, ring, now, 0);
		    in_section[me] = false; offered++; goto written }
	fi;
#endif

fallback:
	if
	:: atomic { RUNS && lock % 2 == 1 -> goto count_loss }
	:: atomic { RUNS && lock % 2 == 0 -> old = lock }
	fi;
#ifdef WRONG_CLOCK_BEFORE_LOCK
	atomic { RUNS -> now = clock };
#endif
	if
	:: atomic { RUNS && lock != old -> old = 0; goto count_loss }
	:: atomic { RUNS && lock == old -> flush_all(where[me]); lock++ }	/* compare and swap */
	fi;
#ifndef WRONG_NO_TEST_UNDER_LOCK
	if
	:: atomic { RUNS && !enable -> goto unlock }
	:: atomic { RUNS && enable -> skip }
	fi;
#endif
	if
	:: atomic { RUNS && fallback_slot == 0 -> goto unlock }
	:: atomic { RUNS && fallback_slot != 0 -> ring = RING(fallback_slot, FALLBACK) }
	fi;
	atomic { RUNS -> assert(!freed[ring / RINGS]); h = OWN(where[me], IS_HEAD, ring, head) };
	if
	:: atomic { SPACE && FULL(h - tail[ring] + 1) ->
		    now = OWN(where[me], IS_LOST, ring, lost) + 1;
		    store(where[me], IS_LOST, ring, now, 0);
		    offered++; goto unlock }
	:: atomic { RUNS && !FULL(h - tail[ring] + 1) -> skip }
	fi;
#ifndef WRONG_CLOCK_BEFORE_LOCK
	atomic { RUNS -> now = clock };
#endif
	atomic { SPACE -> store(where[me], IS_RECORD, PLACE(ring, h), me * EVENTS + serial, now) };
	atomic { SPACE -> store(where[me], IS_HEAD, ring, h + 1, 0); offered++; clock++ };
unlock:
	atomic { RUNS -> flush_all(where[me]); lock++ };	/* an exchange */
	goto written;

count_loss:	/* no ring is free: generation and count are one word */
	atomic { RUNS -> old = busy };
	if
	:: atomic { RUNS && (!enable || slot == 0) -> goto written }
	:: atomic { RUNS && enable && slot != 0 -> skip }
	fi;
	if
	:: atomic { RUNS && busy != old -> goto count_loss }
	:: atomic { RUNS && busy == old -> flush_all(where[me]); busy++; offered++ }
	fi;

written:
	atomic {
		serial++; c = 0; ring = 0; h = 0; now = 0; old = 0;
		if
		:: serial <= EVENTS -> goto next_event
		:: else -> done[me] = true
		fi
	}
}

/*
 * membarrier(PRIVATE_EXPEDITED_RSEQ) interrupts every processor that runs a thread of the process.
 */
inline fence_heavy()
{
	atomic {
		i = 0;
		do
		:: i < CPUS -> flush_all(i); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < THREADS -> aborted[i] = aborted[i] || in_section[i]; i++
		:: else -> break
		od;
		i = 0
	}
}

/* Waits for each held fallback lock until it changes. */
inline wait_for_holders()
{
	if
	:: atomic { lock % 2 == 1 -> holder = lock };
		atomic { lock != holder -> holder = 0 }
	:: lock % 2 == 0 -> skip
	fi
}

#define READY(r) (position[r] < limit[r] && ticks[PLACE(RING(1, r), position[r])] <= bound)
#define TIME(r) ticks[PLACE(RING(1, r), position[r])]

inline give(r)
{
	d_step {
		/* No record after its time was cut off, none torn, duplicated or out of order. */
		assert(TIME(r) > cut);
		assert(TIME(r) >= newest);
		newest = TIME(r);
		i = record[PLACE(RING(1, r), position[r])];
		assert(i != 0);
		assert((i - 1) % EVENTS + 1 > last_serial[(i - 1) / EVENTS]);
		last_serial[(i - 1) / EVENTS] = (i - 1) % EVENTS + 1;
		i = 0;
		position[r]++;
		delivered++
	}
}

inline merge()
{
	do	/* the heads, one after another */
	:: atomic { r < RINGS -> limit[r] = head[RING(1, r)]; r++ }
	:: else -> break
	od;
	r = 0;
#ifdef WRONG_TAIL_FIRST
	do
	:: atomic { r < RINGS -> tail[RING(1, r)] = limit[r]; r++ }
	:: else -> break
	od;
	r = 0;
#endif
#ifdef WRONG_NO_BOUND
	bound = 255;
#endif
	do	/* the earliest first */
	:: atomic { READY(0) && (!READY(1) || TIME(0) <= TIME(1)) &&
		    (RINGS < 3 || !READY(RINGS - 1) || TIME(0) <= TIME(RINGS - 1)) -> give(0) }
	:: atomic { READY(1) && (!READY(0) || TIME(1) < TIME(0)) &&
		    (RINGS < 3 || !READY(RINGS - 1) || TIME(1) <= TIME(RINGS - 1)) -> give(1) }
#if CPUS > 1
	:: atomic { READY(2) && (!READY(0) || TIME(2) < TIME(0)) &&
		    (!READY(1) || TIME(2) < TIME(1)) -> give(2) }
#endif
	:: else -> break
	od;
#ifndef WRONG_TAIL_FIRST
	do
	:: atomic { r < RINGS -> tail[RING(1, r)] = position[r]; r++ }
	:: else -> break
	od;
	r = 0;
#endif
	skip
}

proctype drain()
{
	byte position[RINGS], limit[RINGS];
	byte pass, bound, cut, newest, i, r, holder;

	do
	:: pass < PASSES ->
		/* A sequence point: every event stamped up to the bound is in its ring. */
		atomic { bound = clock; clock++ };
#ifndef WRONG_NO_FENCE_AT_POINT
		fence_heavy();
#endif
#ifndef WRONG_NO_WAIT_AT_POINT
		wait_for_holders();
#endif
		merge();
		cut = bound;
		pass++
	:: else -> break
	od;

	/* The session ends. */
	enable = false;
	slot = 0;
	fallback_slot = 0;
#ifndef WRONG_NO_FENCE_AT_END
	fence_heavy();
#endif
#ifndef WRONG_NO_WAIT_AT_END
	wait_for_holders();
#endif
	atomic { lost[RING(1, FALLBACK)] = lost[RING(1, FALLBACK)] + busy % 16; busy = 0 };
	bound = 255;
	merge();
	r = 0;
	do
	:: r < RINGS -> i = i + lost[RING(1, r)]; r++
	:: else -> break
	od;
	assert(offered == delivered + i);
	freed[1] = true;

	/* The next session, in the same slot, which does not want the event. */
	busy = 32;
	fallback_slot = 2;
	slot = 2;
	fence_heavy();
	over = true
}

proctype kernel()
{
	byte t, c;

	do
	:: atomic { switches < SWITCHES ->
		    select(t : 0 .. THREADS - 1);
		    if
		    :: where[t] != NOWHERE && !done[t] ->	/* preempted, perhaps to migrate */
			    flush_all(where[t]);
			    aborted[t] = in_section[t];
			    where[t] = NOWHERE;
			    switches++
		    :: in_section[t] && !aborted[t] ->		/* a signal */
			    aborted[t] = true;
			    switches++
		    :: else -> skip
		    fi;
		    t = 0 }
	:: atomic { where[0] == NOWHERE ->
		    select(c : 0 .. CPUS - 1);
		    if
		    :: where[1] != c || done[1] -> where[0] = c
		    :: else -> skip
		    fi;
		    c = 0 }
	:: atomic { where[1] == NOWHERE ->
		    select(c : 0 .. CPUS - 1);
		    if
		    :: where[0] != c || done[0] -> where[1] = c
		    :: else -> skip
		    fi;
		    c = 0 }
	:: atomic { buffered[0] > 0 -> flush_one(0) }
#if CPUS > 1
	:: atomic { buffered[1] > 0 -> flush_one(1) }
#endif
	:: atomic { done[0] && done[1] && over && buffered[0] == 0 &&
		    (CPUS == 1 || buffered[CPUS - 1] == 0) -> break }
	od;
	/* No record of the old session reached the new one. */
	c = 0;
	do
	:: c < RINGS -> assert(head[RING(2, c)] == 0 && lost[RING(2, c)] == 0); c++
	:: else -> break
	od;
	assert(busy == 32)
}

init
{
	atomic {
		where[0] = NOWHERE;
		where[1] = NOWHERE;
		run writer(0);
		run writer(1);
		run drain();
		run kernel()
	}
}
