/* SPDX-License-Identifier: MIT */
/*
 * How writers wait for space and are woken, checked exhaustively: src/lib/core/wait.c. No writer
 * may continue to sleep when there is space or its session has ended. Waits have no time limit
 * here, so that would be a deadlock, which spin reports. An event fills one buffer of the pool. The
 * drain thread counts the buffers that it frees in pool_frees. The new count may be in its
 * processor's store buffer; a LOCKed instruction empties the store buffer.
 */
#define WRITERS 2
#define EVENTS 2
#define BUFFERS 1

byte filled, frees, freed;	/* frees: memory; freed: stored by the drain thread */
bool wanted = true, word;
byte wakes;

inline wake()
{
	atomic {
		frees = freed;	/* an exchange */
		word = false;
		wakes++
	}
}

proctype writer()
{
	byte i, seen;

	do
	:: i == EVENTS -> break
	:: else ->
		if
		:: atomic { !wanted -> break }
		:: atomic { wanted && filled - frees < BUFFERS -> filled++; i++; goto next }
		:: atomic { wanted && filled - frees >= BUFFERS -> skip }
		fi;
		atomic { word = true; seen = wakes };
#ifndef WRONG_NO_SECOND_LOOK
		if
		:: atomic { !wanted -> break }
		:: atomic { wanted && filled - frees < BUFFERS -> filled++; i++; goto next }
		:: atomic { wanted && filled - frees >= BUFFERS -> skip }
		fi;
#endif
		if	/* futex_wait() */
#ifdef WRONG_NO_ROUNDS
		:: atomic { word -> seen = wakes }; wakes != seen
		:: atomic { !word -> skip }
#else
		:: atomic { wakes != seen -> skip }
#endif
		fi;
next:		skip
	od
}

proctype processor()
{
end:	do
	:: atomic { frees != freed -> frees = freed }
	od
}

proctype drain()
{
end:	do
	:: atomic { filled > freed -> skip };
#if defined(WRONG_WAKE_FIRST)
		wake();
		freed = filled
#elif defined(WRONG_PLAIN_LOOK)
		freed = filled;
		if
		:: atomic { word -> word = false; wakes++ }
		:: atomic { !word -> skip }
		fi
#else
		freed = filled;
		wake()
#endif
#ifdef STOP
	:: break	/* its sink accepts no more data */
#endif
	od
}

proctype stopper()
{
#ifdef WRONG_STOP_WAKES_FIRST
	wake();
	wanted = false
#else
	wanted = false;
	wake()
#endif
}

init
{
	atomic {
		run writer();
		run writer();
		run processor();
		run drain();
#ifdef STOP
		run stopper()
#endif
	}
}
