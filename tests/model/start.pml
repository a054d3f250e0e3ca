/* SPDX-License-Identifier: MIT */
/*
 * A session starts in a slot that another session has left, checked exhaustively: put_on() and
 * take_off() of src/lib/core/enable.c, concurrent with a section of the write path. A section that
 * sees the bit of a session writes to that session's ring while the ring exists. A section that
 * sees the starting session's bit finds the ring; one that sees the ending session's bit may find
 * none.
 *
 * The section's loads may execute in any order, as on weakly ordered processors. x86 loads in
 * order, so the fence at the start makes no difference there. A fence (membarrier) restarts the
 * section in progress.
 */
#ifndef EVENTS
#define EVENTS 3
#endif

#define OLD 1			/* a session and its ring; 0: none */
#define NEW 2

byte wanted = OLD;		/* the bit, and the session that owns it */
byte ring = OLD;		/* in the slot */
bool freed[3];
bool in_section, aborted;

#ifdef WRONG_NO_ABORT
#define RESTARTED false
#else
#define RESTARTED aborted
#endif

#define FENCE atomic { if :: in_section -> aborted = true :: else fi }

proctype writer()
{
	byte event, seen_bit, seen_ring;
	bool has_bit, has_ring;

	do
	:: event == EVENTS -> break
	:: else ->
again:		atomic {
			in_section = true;
			aborted = false;
			has_bit = false;
			has_ring = false
		}
		do
		:: atomic { RESTARTED -> in_section = false; goto again }
		:: atomic { !RESTARTED && !has_bit -> seen_bit = wanted; has_bit = true }
		:: atomic { !RESTARTED && !has_ring -> seen_ring = ring; has_ring = true }
		:: atomic { !RESTARTED && has_bit && has_ring ->
			/* the commit; none if the bit is not set */
			assert(seen_bit != NEW || seen_ring == NEW);
			assert(!seen_bit || !seen_ring || seen_bit == seen_ring);
			assert(!seen_bit || !freed[seen_ring]);
			in_section = false;
			break
		   }
		od;
		event++
	od
}

proctype sessions()
{
	/* take_off(), and the drain thread's work after it */
	wanted = 0;
	ring = 0;
#ifndef WRONG_NO_FENCE_AT_END
	FENCE;
#endif
	freed[OLD] = true;
	/* put_on() */
#ifdef WRONG_BIT_FIRST
	wanted = NEW;
	FENCE;
	ring = NEW
#else
	ring = NEW;
#ifndef WRONG_NO_FENCE_AT_START
	FENCE;
#endif
	wanted = NEW
#endif
}

init
{
	atomic {
		run writer();
		run sessions()
	}
}
