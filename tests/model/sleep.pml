/* SPDX-License-Identifier: MIT */
/*
 * How the drain thread goes to sleep and is woken, checked exhaustively: src/lib/core/drain_wake.c.
 * A writer stores its head and reads `asleep` without a fence in between. The drain thread sets
 * `asleep`, issues a membarrier, and reads the heads again. No event may stay unread while it
 * sleeps. Here it sleeps without a timeout, so an unread event is a deadlock, which spin reports.
 *
 * Store buffers work as in ring.pml; a writer stores only one word here, so its buffer is that
 * word.
 */
#define WRITERS 2
#ifdef NO_MEMBARRIER	/* which also excludes rseq */
#define IS_FALLBACK(writer) true
#else
#define IS_FALLBACK(writer) ((writer) == 1)
#endif
#ifndef EVENTS
#define EVENTS 2
#endif

byte head[WRITERS];		/* memory */
byte newest[WRITERS];		/* stored by the writer; in its processor's buffer until then */
bool asleep, work, news;
byte wakes;

#define TAKEN (taken[0] == EVENTS && taken[1] == EVENTS && reported)

/* The thread that clears `asleep` issues the wake; a compare and swap empties its store buffer. */
inline wake(me)
{
	if
	:: atomic { asleep -> head[me] = newest[me]; asleep = false; wakes++ }
	:: atomic { !asleep -> skip }
	fi
}

proctype writer(byte me)
{
	byte i;

	do
	:: atomic { i < EVENTS -> newest[me]++; i++ };
#ifndef WRONG_PLAIN_UNLOCK
		/* The fallback releases its lock by an exchange. */
		if
		:: atomic { IS_FALLBACK(me) -> head[me] = newest[me] }
		:: !IS_FALLBACK(me) -> skip
		fi;
#endif
		wake(me)
	:: i == EVENTS -> break
	od
}

proctype processor(byte me)
{
end:	do
	:: atomic { head[me] != newest[me] -> head[me] = newest[me] }
	od
}

/* A thread that starts or stops a session: the change under a lock, then the word. */
proctype requester()
{
	news = true;
	work = true;
	if
	:: atomic { asleep -> asleep = false; wakes++ }
	:: atomic { !asleep -> skip }
	fi
}

proctype drain()
{
	byte taken[WRITERS];
	bool reported;

	do
	:: TAKEN -> break
	:: else ->
		/* A pass. */
		reported = news;
		taken[0] = head[0];
		taken[1] = head[1];
		/* Goes to sleep. */
		asleep = true;
#if !defined(NO_MEMBARRIER) && !defined(WRONG_NO_FENCE)
		atomic { head[0] = newest[0]; head[1] = newest[1] };
#endif
		if
#ifndef WRONG_WORK_NOT_SEEN
		:: atomic { work -> work = false }
#endif
		:: atomic {
#ifndef WRONG_WORK_NOT_SEEN
			   !work &&
#endif
			   (head[0] != taken[0] || head[1] != taken[1]) -> skip }
		:: atomic {
#ifndef WRONG_WORK_NOT_SEEN
			   !work &&
#endif
			   head[0] == taken[0] && head[1] == taken[1] && !TAKEN -> skip };
			atomic { !asleep -> skip }	/* futex_wait() */
		:: TAKEN -> skip
		fi;
		asleep = false;
		work = false
	od
}

init
{
	atomic {
		run writer(0);
		run writer(1);
		run processor(0);
		run processor(1);
		run requester();
		run drain()
	}
}
