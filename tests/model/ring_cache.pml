/* SPDX-License-Identifier: MIT */
/*
 * A thread's ring cache, checked exhaustively for small sizes: both sections of
 * src/lib/ring/regs_x86_64.S, concurrent with sessions that start, end and start again in two slots
 * (src/lib/core/enable.c), each with a different event. The model checks that a commit goes to an
 * existing ring, of the session whose bit was seen, and of the processor on which the thread runs.
 *
 * Only the lookup of the ring is modelled. The thread that starts a session stores in order and
 * sets bits by LOCKed instructions, and x86 loads in order. So memory is sequentially consistent
 * here, and only interruptions between two instructions matter. There is one writer, since the
 * cache is per thread.
 */
#ifndef EVENTS
#define EVENTS 3
#endif
#ifndef STARTS
#define STARTS 3	/* of sessions, in both slots in total */
#endif
#ifndef SWITCHES
#define SWITCHES 2	/* migrations and signals */
#endif

#define CPUS 2
#define SLOTS 2
#define NONE 7

/* A session is identified by its number, from 1; a ring by its session and processor. */
#define RING(session, c) ((session) * CPUS + (c))

bool enable[SLOTS];		/* of the event that the slot's session wants */
byte slot[SLOTS];		/* the session whose rings it has; 0: none */
byte generation;
bool freed[STARTS + 1];

byte where;			/* the processor, and its concurrency id */
bool in_section, aborted, done;
byte switches;

byte cache_bit = NONE, cache_generation, cache_ring, cache_cid;

#ifdef WRONG_NO_ABORT
#define RESTARTED false
#else
#define RESTARTED aborted
#endif

/* One instruction of a section; after an interruption, a restart instead. */
#define STEP(what) if \
	:: atomic { RESTARTED -> in_section = false; goto again } \
	:: atomic { !RESTARTED -> what } \
	fi

inline commit(ring)
{
	assert(!freed[(ring) / CPUS]);
	assert(seen[event] == (ring) / CPUS);
	assert((ring) % CPUS == where);
	in_section = false
}

/* The session whose bit is set there. */
byte owner[SLOTS];

proctype writer()
{
	byte left = EVENTS, event, ring, c, seen[SLOTS];

next_event:
	if
	:: left == 0 -> goto over
	:: atomic { left > 0 -> left--; event = 0 }
	:: atomic { left > 0 -> left--; event = 1 }
	fi;
	/*
	 * The enable word outside the section is only a hint, so the model always enters the
	 * section.
	 */

	atomic { in_section = true; aborted = false };
#ifndef WRONG_NO_BIT
	STEP(if
	     :: !enable[event] || cache_bit != event -> goto miss
	     :: else -> seen[event] = owner[event]
	     fi);
#else
	STEP(if
	     :: !enable[event] || cache_bit == NONE -> goto miss
	     :: else -> seen[event] = owner[event]
	     fi);
#endif
#ifndef WRONG_NO_GENERATION
	STEP(if
	     :: cache_generation != generation -> goto miss
	     :: else -> skip
	     fi);
#endif
#ifndef WRONG_NO_CID
	STEP(if
	     :: cache_cid != where -> goto miss
	     :: else -> skip
	     fi);
#endif
	STEP(ring = cache_ring);
	STEP(commit(ring));
	goto written;

miss:
	atomic { in_section = true; aborted = false };
	STEP(if
	     :: !enable[event] -> in_section = false; goto written
	     :: else -> seen[event] = owner[event]
	     fi);
	STEP(if
	     :: slot[event] == 0 -> in_section = false; goto written
	     :: else -> ring = slot[event]
	     fi);
	STEP(c = where; ring = RING(ring, c));
#ifndef WRONG_HALF
	STEP(cache_bit = NONE);
#endif
	STEP(cache_cid = c);
	STEP(cache_ring = ring);
	STEP(cache_generation = generation);
	STEP(cache_bit = event);
	STEP(commit(ring));
	goto written;

again:	/* the general section, without a cache: ring.pml */
	skip;
written:
	atomic { ring = 0; c = 0; seen[0] = 0; seen[1] = 0; event = 0; goto next_event };
over:
	done = true
}

/* Starts and ends sessions in both slots. */
proctype starter()
{
	byte started, s;

	do
	:: started < STARTS ->
		if
		:: s = 0
		:: s = 1
		fi;
		if	/* an existing session ends first */
		:: slot[s] != 0 ->
			enable[s] = false;
			slot[s] = 0;
#ifndef WRONG_NO_FENCE
			atomic { aborted = aborted || in_section };
#endif
			freed[owner[s]] = true
		:: else -> skip
		fi;
		started++;
		slot[s] = started;
#ifdef WRONG_LATE
		atomic { aborted = aborted || in_section };
		atomic { owner[s] = started; enable[s] = true };
		generation++
#else
		generation++;
		atomic { aborted = aborted || in_section };
		atomic { owner[s] = started; enable[s] = true }
#endif
	:: else -> break
	od
}

proctype kernel()
{
	do
	:: atomic { switches < SWITCHES && !done ->
		    switches++; aborted = in_section; where = 1 - where }
	:: atomic { switches < SWITCHES && !done ->
		    switches++; aborted = in_section }
	:: done -> break
	od
}

init
{
	atomic { run writer(); run starter(); run kernel() }
}
