/* SPDX-License-Identifier: MIT */
/*
 * Progress of a session's pool: THE POOL of src/lib/ring/slot.h. Writers retry for ever, on
 * concurrency ids and under fallback locks, while the drain thread runs: one of them always succeeds
 * again. Spin looks for a cycle without success in which no process stands still.
 *
 * What sections and locks guarantee is checked by pool.pml and ring.pml, so they are single steps
 * here. A buffer holds two small records or a large one. A large record after a small one has no
 * space, as at the end of a real buffer. A writer that fails has left word that the pool is short.
 */
#ifndef CIDS
#define CIDS 1
#endif
#ifndef LOCKS
#define LOCKS 2
#endif
#ifndef BUFFERS
#define BUFFERS 3
#endif
#define SIZE 2
#define NONE 7
#define RINGS (CIDS + LOCKS)

mtype = { FREE, TAKEN, RETIRING };

mtype owner[BUFFERS] = FREE;
byte used[BUFFERS], read[BUFFERS];
bool waited[BUFFERS];		/* RETIRING since an earlier pass */
byte ring[RINGS] = NONE;	/* of the ids, then of the locks */

#define HAS_SPACE(at) (ring[at] != NONE && used[ring[at]] + step <= SIZE)
#define IS_IDLE(at) (ring[at] != NONE && read[ring[at]] == used[ring[at]])

inline any_free()
{
	b = 0;
	do
	:: b < BUFFERS && owner[b] != FREE -> b++
	:: else -> break
	od
}

/* Each try is at another place: threads migrate, and others hold locks. */
proctype writer()
{
	byte at, step, b;

again:
	atomic {
		if
		:: step = 1; at = 0
		:: step = 1; at = CIDS - 1
		:: step = 1; at = CIDS
		:: step = 2; at = CIDS
		:: step = 2; at = RINGS - 1
		fi;
		any_free();
		if
		:: HAS_SPACE(at)
		:: !HAS_SPACE(at) && b < BUFFERS -> owner[b] = TAKEN; ring[at] = b
		/* Elsewhere: a lock whose ring has space. */
		:: else ->
			at = CIDS;
			do
			:: at < RINGS && !HAS_SPACE(at) -> at++
			:: else -> break
			od
		fi;
		b = 0;
		if
		:: at < RINGS -> used[ring[at]] = used[ring[at]] + step; at = 0; step = 0
		:: else -> at = 0; step = 0; goto again		/* lost */
		fi
	}
progress_stored:
	goto again
}

inline retire()
{
	b = 0;
	do
	:: b < BUFFERS ->
		at = 0;
		do
		:: at < RINGS && ring[at] != b -> at++
		:: else -> break
		od;
		if
		:: owner[b] == RETIRING -> waited[b] = true
		:: owner[b] == TAKEN && at == RINGS -> owner[b] = RETIRING; waited[b] = false
		:: else
		fi;
		b++
	:: else -> break
	od
}

inline merge()
{
	b = 0;
	do
	:: b < BUFFERS -> read[b] = used[b]; b++
	:: else -> break
	od
}

inline make_free(buffer)
{
	used[buffer] = 0;
	read[buffer] = 0;
	owner[buffer] = FREE
}

inline settle()
{
	b = 0;
	do
	:: b < BUFFERS ->
		if
		:: owner[b] == RETIRING && waited[b] && read[b] == used[b] -> make_free(b)
		:: else
		fi;
		b++
	:: else -> break
	od
}

/* When none is free: of locks, and if none was to be had there, of ids. */
inline take()
{
	any_free();
	at = (b < BUFFERS -> RINGS : CIDS);
	do
	:: at < RINGS ->
#ifndef WRONG_KEEP_RINGS_OF_LOCKS
		if
		:: IS_IDLE(at) -> make_free(ring[at]); ring[at] = NONE; b = 0
		:: else
		fi;
#endif
		at++
	:: else -> break
	od;
	at = (b < BUFFERS -> CIDS : 0);
	do
	:: at < CIDS ->
#ifndef KEEP_RINGS_OF_IDS
		if
		:: IS_IDLE(at) && owner[ring[at]] == TAKEN -> ring[at] = NONE
		:: else
		fi;
#endif
		at++
	:: else -> break
	od
}

proctype drain()
{
	byte b, at;

	do
	:: atomic { retire(); b = 0; at = 0 };
	   atomic { merge(); b = 0 };
	   atomic { settle(); b = 0 };
	   atomic { take(); b = 0; at = 0 }
	od
}

init
{
	atomic {
		run writer();
		run writer();
		run drain()
	}
}
