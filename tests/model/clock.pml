/* SPDX-License-Identifier: MIT */
/*
 * One clock reading for all sessions that want an event, checked exhaustively for small sizes:
 * rp_slot_try_rseq_multi() in src/lib/ring/write_x86_64.S, write_multi() in src/lib/core/write.c,
 * and the kernel. The kernel clears rseq_cs when it interrupts a thread outside the critical
 * section that rseq_cs points to, and restarts a section only if rseq_cs points to it. The model
 * checks these promises in the rings of each session:
 *
 *  - times rise in each ring, so that the merge finds the earliest in front;
 *  - an event that is not yet in the rings at a sequence point gets a later time than that point.
 *
 * Only times are modelled: rings have space and sessions do not end (see ring.pml). The clock
 * advances when an event is committed and when the drain thread reads the clock. A commit stores
 * record and head in one step, since they leave the processor's store buffer in order.
 */
#define THREADS 2
#ifndef EVENTS
#define EVENTS 2	/* of each thread */
#endif
#ifndef CPUS
#define CPUS 2
#endif
#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef SWITCHES
#define SWITCHES 2	/* preemptions, migrations and signals */
#endif
#ifndef PASSES
#define PASSES 1	/* before the end, which reads the remaining events */
#endif

#define DEPTH 2
#define RINGS (SESSIONS * CPUS)
#define SIZE (THREADS * EVENTS)
#define NOWHERE 7

byte clock = 1;
byte head[RINGS], time[RINGS * SIZE];

byte where[THREADS];
bool points[THREADS];		/* rseq_cs points to the section */
bool in_section[THREADS], aborted[THREADS], done[THREADS];
byte switches;

/* Store buffers of commits, the oldest first. */
byte buffered[CPUS], kept_ring[CPUS * DEPTH], kept_time[CPUS * DEPTH];

/* Ghost variables: the actual history. */
byte newest[RINGS], committed;

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

inline commit(ring, ticks)
{
	d_step {
		assert((ticks) >= newest[ring]);
		newest[ring] = ticks;
		kept_ring[where[me] * DEPTH + buffered[where[me]]] = ring;
		kept_time[where[me] * DEPTH + buffered[where[me]]] = ticks;
		buffered[where[me]]++;
		committed++;
		clock++
	}
}

proctype writer(byte me)
{
	byte left = EVENTS, session, c, ticks, now;

next_event:
	if
	:: atomic { RUNS && left == 0 -> goto over }
	:: atomic { RUNS && left > 0 -> left--; session = 0; ticks = 0 }
	fi;

next_session:
	if
	:: atomic { RUNS && ticks == 0 -> points[me] = true }
#ifdef WRONG_POINTS_RETRIED	/* entered again, as if no interruption could have occurred */
	:: atomic { RUNS && ticks != 0 -> points[me] = true }
#else
	:: atomic { RUNS && ticks != 0 -> skip }
#endif
	fi;
#ifdef WRONG_LOOK_OUTSIDE
	if
	:: atomic { RUNS && !points[me] -> goto failed }
	:: atomic { RUNS && points[me] -> skip }
	fi;
#endif
	atomic { RUNS -> in_section[me] = true; aborted[me] = false };
#if !defined(WRONG_LOOK_OUTSIDE) && !defined(WRONG_NO_LOOK)
	if
	:: atomic { aborted[me] -> goto failed }
	:: atomic { RUNS && !aborted[me] && !points[me] -> goto failed }
	:: atomic { RUNS && !aborted[me] && points[me] -> skip }
	fi;
#endif
	if
	:: atomic { aborted[me] -> goto failed }
	:: atomic { RUNS && !aborted[me] -> c = where[me];
		    now = (ticks -> ticks : clock); ticks = now }
	fi;
	if
	:: atomic { aborted[me] -> now = 0; goto failed }
	:: atomic { SPACE && !aborted[me] ->
		    commit(session * CPUS + c, now);
		    in_section[me] = false; now = 0; c = 0; session++ }
	fi;
	if
	:: atomic { session < SESSIONS -> goto next_session }
	:: atomic { RUNS && session == SESSIONS ->
		    session = 0; ticks = 0; points[me] = false; goto next_event }
	fi;

failed:	/* the abort handler; the general section for this session would behave the same */
	atomic { RUNS -> in_section[me] = false; aborted[me] = false; c = 0 };
	atomic { RUNS -> points[me] = false; ticks = 0; goto next_session };

over:
	done[me] = true
}

/* The effect of any kind of interruption on a thread. */
inline interrupt(t)
{
	if
	:: points[t] && in_section[t] -> aborted[t] = true; points[t] = false
	:: points[t] && !in_section[t] -> points[t] = false
	:: else -> skip
	fi
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
		:: i < THREADS -> interrupt(i); i++
		:: else -> break
		od;
		i = 0
	}
}

proctype drain()
{
	byte position[RINGS];
	byte pass, bound, cut, i, limit;

	do
	:: pass < PASSES ->
		atomic { bound = clock; clock++ };
#ifndef WRONG_NO_FENCE
		fence_heavy();
#endif
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

proctype kernel()
{
	byte t, p;

	do
	:: atomic { switches < SWITCHES ->
		    select(t : 0 .. THREADS - 1);
		    if
		    :: where[t] != NOWHERE && !done[t] ->	/* preempted, perhaps to migrate */
			    flush_all(where[t]);
			    interrupt(t);
			    where[t] = NOWHERE;
			    switches++
		    :: where[t] != NOWHERE && points[t] ->	/* a signal */
			    interrupt(t);
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
		run kernel()
	}
}
