/* SPDX-License-Identifier: MIT */
/*
 * Coarse times, checked exhaustively for small sizes: the label `coarse` in
 * src/lib/ring/write_x86_64.S, stamp_after() in src/lib/ring/fallback.c, the sequence points of
 * src/lib/core/drain.c and src/lib/core/snapshot.c, and the other threads that advance the clock.
 * The model checks these promises:
 *
 *  - times rise in each ring, so that the merge finds the earliest in front;
 *  - an event's time is later than those of all earlier events of its thread, in any ring, so the
 *    merge keeps the order of a thread;
 *  - an event that is not yet in the rings at a sequence point gets a later time than that point.
 *
 * Only times are modelled: rings have space and sessions do not end (see ring.pml). Only a thread
 * itself uses its last stamp, and only the thread that runs on a ring's processor or holds its lock
 * uses the ring's. A thread switch and an unlock make the stamps visible to the next user. So
 * stamps are stored in memory immediately, while commits wait in the processor's store buffer. A
 * commit stores record and head in one step, since they leave the buffer in order.
 *
 * The clock advances when the drain thread or a similar thread reads it, and not with each event.
 * So stamps may run ahead of the clock, unlike those of a real clock.
 */
#define THREADS 2
#ifndef EVENTS
#define EVENTS 2	/* of each thread */
#endif
#ifndef CPUS
#define CPUS 2
#endif
#ifndef SWITCHES
#define SWITCHES 2	/* preemptions, migrations and signals */
#endif
#ifndef PASSES
#define PASSES 1	/* before the end, which reads the remaining events */
#endif
#ifndef WAYS
#define WAYS 3		/* bit 0: rseq sections, bit 1: the fallback */
#endif

#ifndef DEPTH
#define DEPTH 2
#endif
#define FALLBACK CPUS
#define RINGS (CPUS + 1)
#define SIZE (THREADS * EVENTS)
#define NOWHERE 7

#ifdef WRONG_NO_STEP
#define STEP 0
#else
#define STEP 1
#endif

byte clock = 1, coarse = 1;	/* a session has begun and set the clock */
byte ring_stamp[RINGS], thread_stamp[THREADS];
byte head[RINGS], time[RINGS * SIZE];
byte lock;			/* odd: held */

byte where[THREADS];
bool in_section[THREADS], aborted[THREADS], done[THREADS];
byte switches;

/* Store buffers of commits, the oldest first. */
byte buffered[CPUS], kept_ring[CPUS * DEPTH], kept_time[CPUS * DEPTH];

/* Ghost variables: the actual history. */
byte newest[RINGS], latest[THREADS], committed;

inline flush_one(p)
{
	d_step {
		time[kept_ring[(p) * DEPTH] * SIZE + head[kept_ring[(p) * DEPTH]]] =
			kept_time[(p) * DEPTH];
		head[kept_ring[(p) * DEPTH]]++;
		kept_ring[(p) * DEPTH] = kept_ring[(p) * DEPTH + 1];
		kept_time[(p) * DEPTH] = kept_time[(p) * DEPTH + 1];
		kept_ring[(p) * DEPTH + 1] = 0;
		kept_time[(p) * DEPTH + 1] = 0;
		buffered[p]--
	}
}

inline flush_all(p)
{
	do
	:: buffered[p] > 0 -> flush_one(p)
	:: else -> break
	od
}

#define RUNS (where[me] != NOWHERE)
#define SPACE (where[me] != NOWHERE && buffered[where[me]] < DEPTH)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* `since`: the thread's latest event when it began this one; a handler's event comes after. */
inline commit(ring, ticks, since)
{
	d_step {
		assert((ticks) > newest[ring]);
		assert((ticks) > since);
		newest[ring] = ticks;
		latest[me] = MAX(latest[me], ticks);
		kept_ring[where[me] * DEPTH + buffered[where[me]]] = ring;
		kept_time[where[me] * DEPTH + buffered[where[me]]] = ticks;
		buffered[where[me]]++;
		committed++
	}
}

proctype writer(byte me)
{
	byte left = EVENTS, c, now, since;
	byte own, held, before, last;	/* of the fallback, which a handler may interrupt */

next_event:
	if
	:: atomic { RUNS && left == 0 -> goto over }
#if WAYS & 1
	:: atomic { RUNS && left > 0 -> left--; since = latest[me]; goto section }
#endif
#if WAYS & 2
	:: atomic { RUNS && left > 0 && held == 0 -> left--; before = latest[me]; goto fallback }
#endif
	fi;

section:
	atomic {
		RUNS -> in_section[me] = true; aborted[me] = false; c = where[me];
#ifdef WRONG_THREAD
		now = ring_stamp[c] + STEP
#elif defined(WRONG_RING)
		now = thread_stamp[me] + STEP
#else
		now = MAX(thread_stamp[me], ring_stamp[c]) + STEP
#endif
	};
	if
	:: atomic { aborted[me] -> now = 0; goto section }
	:: atomic { RUNS && !aborted[me] -> now = MAX(now, coarse) }
	fi;
	if
	:: atomic { aborted[me] -> now = 0; goto section }
	:: atomic { RUNS && !aborted[me] -> thread_stamp[me] = now }
	fi;
#ifndef WRONG_RING_LATE
	if
	:: atomic { aborted[me] -> now = 0; goto section }
	:: atomic { RUNS && !aborted[me] -> ring_stamp[c] = now }
	fi;
#endif
	if
	:: atomic { aborted[me] -> now = 0; goto section }
	:: atomic { SPACE && !aborted[me] -> commit(c, now, since); in_section[me] = false }
	fi;
#ifdef WRONG_RING_LATE
	atomic { RUNS -> ring_stamp[c] = now };
#endif
	atomic { now = 0; since = 0; c = 0 };
	if
	:: atomic { held == 1 -> goto fallback_takes }
	:: atomic { held == 2 -> goto fallback_raises }
	:: atomic { held == 3 -> goto fallback_commits }
	:: atomic { held == 0 -> goto next_event }
	fi;

	/*
	 * `held`: the step at which a handler interrupts; the handler's events are the thread's
	 * too.
	 */
fallback:
	if
	:: atomic { RUNS && lock % 2 == 1 -> before = 0; goto next_event }	/* lost: busy */
	:: atomic { RUNS && lock % 2 == 0 -> flush_all(where[me]); lock++ }
	fi;
	atomic { RUNS -> own = clock };
	atomic { RUNS -> last = thread_stamp[me]; held = 1 };
fallback_takes:
	if
	:: atomic { RUNS && left > 0 && switches < SWITCHES ->	/* a signal */
		    switches++; left--; since = latest[me]; goto section }
#ifndef WRONG_PLAIN_STAMP
	:: atomic { RUNS && thread_stamp[me] != last -> last = thread_stamp[me];
		    goto fallback_takes }
	:: atomic { RUNS && thread_stamp[me] == last ->
#else
	:: atomic { RUNS ->
#endif
		    flush_all(where[me]);
#ifndef WRONG_CLOCK_ALONE
		    own = MAX(own, last + STEP);
		    own = MAX(own, ring_stamp[FALLBACK] + STEP);
#endif
#ifndef WRONG_FALLBACK_SILENT
		    thread_stamp[me] = own;
#endif
		    last = 0; held = 2 }
	fi;
fallback_raises:
	if
	:: atomic { RUNS && left > 0 && switches < SWITCHES ->
		    switches++; left--; since = latest[me]; goto section }
	:: atomic { RUNS -> ring_stamp[FALLBACK] = own; held = 3 }
	fi;
fallback_commits:
	if
	:: atomic { RUNS && left > 0 && switches < SWITCHES ->
		    switches++; left--; since = latest[me]; goto section }
	:: atomic { SPACE -> commit(FALLBACK, own, before); own = 0; before = 0; held = 0 }
	fi;
	atomic { RUNS -> flush_all(where[me]); lock++ };	/* an exchange */
	goto next_event;

over:
	done[me] = true
}

/* rp_clock_coarse_move(): the clock never moves back. */
inline move_clock(ticks)
{
	atomic {
		if
#ifdef WRONG_BACK
		:: true -> coarse = ticks
#else
		:: coarse < (ticks) -> coarse = ticks
		:: else -> skip
#endif
		fi
	}
}

/* As in ring.pml. */
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

proctype drain()
{
	byte position[RINGS];
	byte pass, bound, cut, i, limit, holder;

	do
	:: pass < PASSES ->
		atomic { bound = clock; clock++ };
#ifdef WRONG_NO_PASS
#elif defined(WRONG_NOT_BEHIND)
		move_clock(bound);
#elif !defined(WRONG_FENCE_FIRST)
		move_clock(bound + 1);
#endif
#ifndef WRONG_NO_FENCE
		fence_heavy();
#endif
#ifdef WRONG_FENCE_FIRST
		move_clock(bound + 1);
#endif
		if
		:: atomic { lock % 2 == 1 -> holder = lock };
			atomic { lock != holder -> holder = 0 }
		:: lock % 2 == 0 -> skip
		fi;
		do	/* each ring's head, then the records that the merge reads */
		:: atomic {
			i < RINGS ->
			limit = head[i];
			do
			:: position[i] < limit && time[i * SIZE + position[i]] <= bound ->
				assert(time[i * SIZE + position[i]] > cut);
				position[i]++
			:: else -> break
			od;
			limit = 0;
			i++ }
		:: else -> break
		od;
		i = 0;
		cut = bound;
		pass++
	:: else -> break
	od;

	/* At the end, the remaining events are later than the last point, and none is missing. */
	atomic { done[0] && done[1] -> fence_heavy() };
	d_step {
		do
		:: i < RINGS ->
			do
			:: position[i] < head[i] ->
				assert(time[i * SIZE + position[i]] > cut);
				position[i]++
			:: else -> break
			od;
			limit = limit + head[i];
			i++
		:: else -> break
		od;
		assert(limit == committed)
	}
}

/* Another thread that advances the clock: one that makes a snapshot or starts a session. */
proctype mover()
{
	byte ticks;

	atomic { ticks = clock; clock++ };
	move_clock(ticks)
}

proctype kernel()
{
	byte t, p;

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
		    select(p : 0 .. CPUS - 1);
		    if
		    :: where[1] != p || done[1] -> where[0] = p
		    :: else -> skip
		    fi;
		    p = 0 }
	:: atomic { where[1] == NOWHERE ->
		    select(p : 0 .. CPUS - 1);
		    if
		    :: where[0] != p || done[0] -> where[1] = p
		    :: else -> skip
		    fi;
		    p = 0 }
	:: atomic { buffered[0] > 0 -> flush_one(0) }
#if CPUS > 1
	:: atomic { buffered[1] > 0 -> flush_one(1) }
#endif
	:: atomic { done[0] && done[1] -> break }
	od
}

init
{
	atomic {
		where[0] = NOWHERE;
		where[1] = NOWHERE;
		run writer(0);
		run writer(1);
		run drain();
#ifdef MOVER
		run mover();
#endif
		run kernel()
	}
}
