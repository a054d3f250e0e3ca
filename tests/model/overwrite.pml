/* SPDX-License-Identifier: MIT */
/*
 * An overwriting ring, copied while it is written, checked exhaustively: rp_ring_copy() in
 * src/lib/ring/ring.c concurrently with the sections. The copy must contain, at each position, the
 * complete record written there, without a gap in between. Here a sub-buffer is one cell. The
 * writer's stores leave its processor's store buffer in order.
 */
#ifndef EVENTS
#define EVENTS 5
#endif
#ifndef SIZE
#define SIZE 2
#endif
#define BUFFER 4

mtype = { HEAD, TAIL, CELL }

byte head, tail;		/* positions, as seen by other processors */
byte cell[SIZE];		/* the position written there, counted from 1 */
chan buffer = [BUFFER] of { mtype, byte };

proctype processor()
{
	byte value;

end:	do
	:: atomic { buffer?HEAD(value) -> head = value }
	:: atomic { buffer?TAIL(value) -> tail = value }
	:: atomic { buffer?CELL(value) -> cell[(value - 1) % SIZE] = value }
	od
}

proctype writer()
{
	byte at;

	do
	:: at == EVENTS -> break
	:: else ->
#ifdef WRONG_CELL_FIRST
		buffer!CELL(at + 1);
		if
		:: at >= SIZE -> buffer!TAIL(at - SIZE + 1)
		:: else
		fi;
#else
		if
		:: at >= SIZE -> buffer!TAIL(at - SIZE + 1)
		:: else
		fi;
#ifdef WRONG_HEAD_FIRST
		buffer!HEAD(at + 1);
		buffer!CELL(at + 1);
#else
		buffer!CELL(at + 1);
#endif
#endif
		buffer!HEAD(at + 1);
		at++
	od
}

proctype reader()
{
	byte at, first, limit, oldest, copy[EVENTS];

	limit = head;
	first = tail;
	at = first;
	do
	:: at >= limit -> break
	:: else ->
#ifdef WRONG_LOOK_FIRST
		oldest = tail;
		copy[at] = cell[at % SIZE];
#else
		copy[at] = cell[at % SIZE];
#ifndef WRONG_NO_LOOK
		oldest = tail;
#endif
#endif
		if
		:: oldest > at -> first = oldest; at = oldest
		:: else -> at++
		fi
	od;
	at = first;
	do
	:: at >= limit -> break
	:: else ->
		assert(copy[at] == at + 1);
		at++
	od
}

init
{
	atomic {
		run processor();
		run writer();
		run reader()
	}
}
