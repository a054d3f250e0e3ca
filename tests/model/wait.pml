/* SPDX-License-Identifier: MIT */
/*
 * How writers wait for space and are woken, checked exhaustively: src/lib/core/wait.c. No writer
 * may continue to sleep when there is space or its session has ended. Waits have no time limit
 * here, so that would be a deadlock, which spin reports. The drain thread's tail may be in its
 * processor's store buffer; a LOCKed instruction empties the buffer.
 */
#define WRITERS 2
#define EVENTS 2
#define SIZE 1

byte head, tail, freed;		/* tail: memory; freed: stored by the drain thread */
bool wanted = true, word;
byte wakes;

inline wake()
{
	atomic {
		tail = freed;	/* an exchange */
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
		:: atomic { wanted && head - tail < SIZE -> head++; i++; goto next }
		:: atomic { wanted && head - tail >= SIZE -> skip }
		fi;
		atomic { word = true; seen = wakes };
#ifndef WRONG_NO_SECOND_LOOK
		if
		:: atomic { !wanted -> break }
		:: atomic { wanted && head - tail < SIZE -> head++; i++; goto next }
		:: atomic { wanted && head - tail >= SIZE -> skip }
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
	:: atomic { tail != freed -> tail = freed }
	od
}

proctype drain()
{
end:	do
	:: atomic { head > freed -> skip };
#if defined(WRONG_WAKE_FIRST)
		wake();
		freed = head
#elif defined(WRONG_PLAIN_LOOK)
		freed = head;
		if
		:: atomic { word -> word = false; wakes++ }
		:: atomic { !word -> skip }
		fi
#else
		freed = head;
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
