/* SPDX-License-Identifier: MIT */
/*
 * The pool of a session's buffers, checked exhaustively for small sizes: THE POOL of
 * src/lib/ring/slot.h. Writers on two processors claim buffers (src/lib/ring/pool.c), make them the
 * rings of their concurrency ids in sections (src/lib/ring/write_x86_64.S), cache them, and may
 * abandon the write after a claim. The drain thread retires and frees buffers
 * (src/lib/core/buffers.c), and with -DTAKES takes rings back. The model checks that a section
 * commits only to a buffer that its processor alone owns and that has not been freed.
 *
 * Owner words change by LOCKed instructions, and x86 loads and stores in order, so memory is
 * sequentially consistent here. A buffer holds one record.
 */
#ifndef EVENTS
#define EVENTS 2	/* of each writer */
#endif
#ifndef SWITCHES
#define SWITCHES 1	/* migrations and signals */
#endif
#ifndef PASSES
#define PASSES 3
#endif

#ifndef CPUS
#define CPUS 2
#endif
#ifndef BUFFERS
#define BUFFERS 2
#endif
#define WRITERS 2
#define NONE 7
#define LAST (CPUS - 1)
#define LAST_BUFFER (BUFFERS - 1)

mtype = { FREE, TAKEN, RETIRING };

mtype owner[BUFFERS] = FREE;
byte epoch[BUFFERS];
byte ring[CPUS] = NONE;
byte retired[BUFFERS];
bool stored[BUFFERS];		/* its record, not read yet, or its space not freed yet */
bool held[BUFFERS];		/* the record that it had when it began to retire */
byte generation = 1;

byte user[BUFFERS] = NONE;	/* ghost: the processor whose ring it became */

byte where[WRITERS] = NONE;
bool in_section[WRITERS], aborted[WRITERS];
bool ended[WRITERS];

#ifdef WRONG_NO_ABORT
#define RESTARTED false
#else
#define RESTARTED aborted[me]
#endif

/* One instruction of a section. */
#define STEP(what) if \
	:: atomic { where[me] != NONE && RESTARTED -> in_section[me] = false; goto try } \
	:: atomic { where[me] != NONE && !RESTARTED -> what } \
	fi

inline enter()
{
	atomic { where[me] != NONE -> in_section[me] = true; aborted[me] = false }
}

proctype writer(byte me)
{
	byte left = EVENTS, b, c, token, cache = NONE, cache_cid, cache_generation;

next_event:
	if
	:: left == 0 -> goto done
	:: else -> left--
	fi;
try:
	atomic { b = 0; c = 0; token = 0 };
	/* Uses the thread's cached ring. */
	enter();
#ifndef WRONG_NO_GENERATION
	STEP(if
	     :: cache == NONE || cache_generation != generation || cache_cid != where[me] -> goto look
	     :: else -> b = cache
	     fi);
#else
	STEP(if
	     :: cache == NONE || cache_cid != where[me] -> goto look
	     :: else -> b = cache
	     fi);
#endif
	STEP(if
	     :: stored[b] -> goto look
	     :: else -> skip
	     fi);
	STEP(assert(user[b] == where[me]); stored[b] = true; in_section[me] = false; goto next_event);
look:
	enter();
	STEP(c = where[me]; b = ring[c]);
	STEP(if
	     :: b == NONE || stored[b] -> in_section[me] = false; goto claim
	     :: else -> cache = NONE
	     fi);
	STEP(cache_cid = c; cache_generation = generation);
	STEP(cache = b);
	STEP(assert(user[b] == where[me]); stored[b] = true; in_section[me] = false; goto next_event);
claim:
	if
	:: atomic { owner[0] == FREE -> b = 0; owner[0] = TAKEN; token = epoch[0] }
	:: atomic { owner[1] == FREE -> b = 1; owner[1] = TAKEN; token = epoch[1] }
#if BUFFERS > 2
	:: atomic { owner[2] == FREE -> b = 2; owner[2] = TAKEN; token = epoch[2] }
#endif
	:: atomic { owner[0] != FREE && owner[1] != FREE && owner[LAST_BUFFER] != FREE ->
		    b = 0; goto next_event }	/* the event is lost */
	fi;
	if
	:: true -> skip
	:: left = 0; goto done		/* siglongjmp */
	fi;
	/* The section that makes it the ring; if aborted, the writer gives the buffer back. */
	enter();
	if
	:: atomic { where[me] != NONE && RESTARTED -> goto release }
	:: atomic { where[me] != NONE && !RESTARTED -> c = where[me] }
	fi;
	if
	:: atomic { where[me] != NONE && RESTARTED -> goto release }
	:: atomic { where[me] != NONE && !RESTARTED && ring[c] != NONE && !stored[ring[c]] ->
		    goto release }
	:: atomic { where[me] != NONE && !RESTARTED && (ring[c] == NONE || stored[ring[c]]) -> skip }
	fi;
#ifndef WRONG_NO_TOKEN
	if
	:: atomic { where[me] != NONE && RESTARTED -> goto release }
	:: atomic { where[me] != NONE && !RESTARTED && (owner[b] != TAKEN || epoch[b] != token) ->
		    goto release }
	:: atomic { where[me] != NONE && !RESTARTED && owner[b] == TAKEN && epoch[b] == token ->
		    skip }
	fi;
#endif
	if
	:: atomic { where[me] != NONE && RESTARTED -> goto release }
	:: atomic { where[me] != NONE && !RESTARTED -> ring[c] = b; user[b] = c;
		    in_section[me] = false; goto try }
	fi;
release:
	atomic {
		in_section[me] = false;
		if
		:: owner[b] == TAKEN && epoch[b] == token -> owner[b] = FREE
		:: else -> skip
		fi
	};
	goto try;
done:
	atomic { in_section[me] = false; where[me] = NONE; ended[me] = true }
}

inline fence()
{
	atomic {
		aborted[0] = aborted[0] || in_section[0];
		aborted[1] = aborted[1] || in_section[1]
	}
}

#ifdef WRONG_TAKE_RETIRING
#define MAY_TAKE(cid) (ring[cid] != NONE)
#else
#define MAY_TAKE(cid) (ring[cid] != NONE && owner[ring[cid]] == TAKEN)
#endif

/* Takes a ring back from its concurrency id, read or not. */
inline take()
{
	if
	:: atomic { MAY_TAKE(0) -> ring[0] = NONE }
	:: atomic { MAY_TAKE(LAST) -> ring[LAST] = NONE }
	:: true
	fi
}

proctype drain()
{
	byte pass = 1, b;

	do
	:: pass <= PASSES ->
#ifndef WRONG_NO_FENCE
		fence();
#endif
#ifdef WRONG_TAKE_FIRST
		take();
#endif
		b = 0;
		do
		:: b < BUFFERS ->
			/* The list of rings is read first; owner words change afterwards. */
			if
			:: owner[b] == RETIRING && retired[b] < pass ->
				if
				:: ring[0] == b || ring[LAST] == b -> owner[b] = TAKEN
#ifndef WRONG_NO_SECOND_LOOK
				/* It was a ring meanwhile, and threads may have cached it. */
				:: ring[0] != b && ring[LAST] != b && stored[b] != held[b] ->
					held[b] = stored[b];
					retired[b] = pass;
					generation++
				:: ring[0] != b && ring[LAST] != b && stored[b] == held[b] ->
#else
				:: else ->
#endif
					stored[b] = false;
					user[b] = NONE;
					epoch[b]++;
					owner[b] = FREE
				fi
			:: owner[b] == TAKEN && ring[0] != b && ring[LAST] != b ->
#ifdef WRONG_AT_ONCE
				atomic { stored[b] = false; user[b] = NONE; epoch[b]++; owner[b] = FREE }
#else
				atomic {
					if
					:: owner[b] == TAKEN ->
						owner[b] = RETIRING;
						held[b] = stored[b];
						retired[b] = pass
					:: else -> skip
					fi
				};
				generation++
#endif
			:: else -> skip
			fi;
			b++
		:: else -> break
		od;
#ifdef TAKES
		take();
#endif
		pass++
	:: else -> break
	od
}

/* Preempts or interrupts threads, and schedules them on any free processor. */
proctype kernel()
{
	byte switches;

	do
	:: atomic { switches < SWITCHES && where[0] != NONE ->
		    aborted[0] = in_section[0]; where[0] = NONE; switches++ }
	:: atomic { switches < SWITCHES && where[1] != NONE ->
		    aborted[1] = in_section[1]; where[1] = NONE; switches++ }
	:: atomic { where[0] == NONE && !ended[0] && where[1] != 0 -> where[0] = 0 }
	:: atomic { where[1] == NONE && !ended[1] && where[0] != 0 -> where[1] = 0 }
#if CPUS > 1
	:: atomic { where[0] == NONE && !ended[0] && where[1] != 1 -> where[0] = 1 }
	:: atomic { where[1] == NONE && !ended[1] && where[0] != 1 -> where[1] = 1 }
#endif
	:: ended[0] && ended[1] -> break
	od
}

init
{
	atomic {
		where[0] = 0;
#if CPUS > 1
		where[1] = 1;
#endif
		run writer(0);
		run writer(1);
		run drain();
		run kernel()
	}
}
