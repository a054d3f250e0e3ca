/* SPDX-License-Identifier: MIT */
/* The paths through the writer that tests/unit/ring_aborts.c interrupts. */
#ifndef RING_PATHS_H
#define RING_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "ring/slot.h"

#define RING_BYTES 8192u

static uint8_t bytes[RP_PAYLOAD_MAX + 1];

/* A path: the payload, and the state that the writer finds. */
struct path {
	const char *name;
	struct rp_part parts[5];
	unsigned int part_count;
	unsigned int frames;		/* a prefix of the payload */
	bool ids;			/* the thread has activity ids, also a prefix */
	enum rp_slot_clock clock;
	bool full;			/* no space in any ring */
	bool full_but_fallback;		/* … except in the fallback's */
	bool gone;			/* the slot is empty */
	bool missing;			/* no ring for this concurrency id */
	bool beyond;			/* the concurrency id is beyond the table */
	bool pooled;			/* … but buffers of a pool are free */
	bool held;			/* all fallback locks are */
	bool too_big;
	bool overwrites;		/* no space, but a sub-buffer to give up */
	unsigned int rest;		/* … and this much left of the previous one */
	bool regs;			/* the single part is written by rp_event_write_regs() */
	bool clock_went_on, ring_is_ahead;	/* of the thread, by the coarse clock */
	bool cached;			/* the thread's cache holds the ring */
	bool space_was_freed;		/* … from a time without space */
	bool missing_before;		/* multi-session: the first session has no ring here */
};

#define BYTES(size) { bytes, size }

static const struct path paths[] = {
	{ .name = "no payload" },
	{ .name = "8 bytes", .parts = { BYTES(8) }, .part_count = 1 },
	{ .name = "15 bytes", .parts = { BYTES(15) }, .part_count = 1 },
	{ .name = "44 bytes", .parts = { BYTES(44) }, .part_count = 1 },
	{ .name = "64 bytes", .parts = { BYTES(64) }, .part_count = 1 },
	{ .name = "parts of 1, 2, 0, 4 and 8 bytes", .part_count = 5,
	  .parts = { BYTES(1), BYTES(2), BYTES(0), BYTES(4), BYTES(8) } },
	{ .name = "small and a string of 95 bytes", .parts = { BYTES(12), BYTES(95) },
	  .part_count = 2 },
	{ .name = "a string of 513 bytes and small", .parts = { BYTES(513), BYTES(3) },
	  .part_count = 2 },
	{ .name = "4096 bytes", .parts = { BYTES(4096) }, .part_count = 1 },
	{ .name = "a stack and 8 bytes", .parts = { BYTES(8) }, .part_count = 1, .frames = 5 },
	{ .name = "a stack alone", .frames = 3 },
	{ .name = "activity ids and 8 bytes", .parts = { BYTES(8) }, .part_count = 1, .ids = true },
	{ .name = "activity ids alone", .ids = true },
	{ .name = "causal order", .parts = { BYTES(8) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_CAUSAL },
	{ .name = "coarse time", .parts = { BYTES(8) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_COARSE },
	{ .name = "coarse time in the fallback", .parts = { BYTES(8) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_COARSE, .missing = true },
	{ .name = "coarse time, a millisecond later", .parts = { BYTES(8) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_COARSE, .clock_went_on = true },
	{ .name = "coarse time, behind another thread", .parts = { BYTES(8) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_COARSE, .ring_is_ahead = true },
	{ .name = "no room", .parts = { BYTES(24) }, .part_count = 1, .full = true },
	{ .name = "no room but in the fallback", .parts = { BYTES(24) }, .part_count = 1,
	  .full = true, .full_but_fallback = true },
	{ .name = "a chunk to give up", .parts = { BYTES(24) }, .part_count = 1,
	  .overwrites = true },
	{ .name = "the rest of a chunk to leave", .parts = { BYTES(24) }, .part_count = 1,
	  .overwrites = true, .rest = 40 },
	{ .name = "a chunk to give up in the fallback", .parts = { BYTES(24) }, .part_count = 1,
	  .overwrites = true, .rest = 40, .missing = true },
	{ .name = "no room, and a free buffer", .parts = { BYTES(24) }, .part_count = 1,
	  .full = true, .pooled = true },
	{ .name = "no room, coarse time, and a free buffer", .parts = { BYTES(24) },
	  .part_count = 1, .clock = RP_SLOT_CLOCK_COARSE, .ring_is_ahead = true, .full = true,
	  .pooled = true },
	{ .name = "no ring here, and a free buffer", .parts = { BYTES(8) }, .part_count = 1,
	  .missing = true, .full = true, .pooled = true },
	{ .name = "session gone", .parts = { BYTES(8) }, .part_count = 1, .gone = true },
	{ .name = "no ring here", .parts = { BYTES(8) }, .part_count = 1, .missing = true },
	{ .name = "beyond the rings", .parts = { BYTES(8) }, .part_count = 1, .beyond = true },
	{ .name = "no ring here, and no room", .parts = { BYTES(8) }, .part_count = 1,
	  .missing = true, .full = true },
	{ .name = "no ring here, and all locks held", .parts = { BYTES(8) }, .part_count = 1,
	  .missing = true, .held = true },
	{ .name = "too big", .parts = { BYTES(RP_PAYLOAD_MAX + 1) }, .part_count = 1,
	  .too_big = true },
	{ .name = "too big for the fallback's rings", .parts = { BYTES(RING_BYTES) },
	  .part_count = 1, .too_big = true },
	/* A multi-session write after a preemption: the earlier session is written last. */
	{ .name = "8 bytes, last to the session before", .parts = { BYTES(8) }, .part_count = 1,
	  .missing_before = true },
	{ .name = "coarse time, last to the session before", .parts = { BYTES(8) },
	  .part_count = 1, .clock = RP_SLOT_CLOCK_COARSE, .missing_before = true },
	{ .name = "regs: last to the session before", .regs = true, .parts = { BYTES(32) },
	  .part_count = 1, .missing_before = true },
	{ .name = "regs: none", .regs = true },
	{ .name = "regs: 15 bytes", .regs = true, .parts = { BYTES(15) }, .part_count = 1 },
	{ .name = "regs: 32 bytes", .regs = true, .parts = { BYTES(32) }, .part_count = 1 },
	{ .name = "regs: activity ids and 32 bytes", .regs = true, .ids = true,
	  .parts = { BYTES(32) }, .part_count = 1 },
	{ .name = "regs: causal order", .regs = true, .parts = { BYTES(32) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_CAUSAL },
	{ .name = "regs: coarse time", .regs = true, .parts = { BYTES(32) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_COARSE },
	{ .name = "regs: coarse time, a millisecond later", .regs = true,
	  .parts = { BYTES(32) }, .part_count = 1, .clock = RP_SLOT_CLOCK_COARSE,
	  .clock_went_on = true },
	{ .name = "regs: coarse time, behind another thread", .regs = true,
	  .parts = { BYTES(32) }, .part_count = 1, .clock = RP_SLOT_CLOCK_COARSE,
	  .ring_is_ahead = true },
	{ .name = "regs: no room", .regs = true, .parts = { BYTES(32) }, .part_count = 1,
	  .full = true },
	{ .name = "regs: no room, and a free buffer", .regs = true, .parts = { BYTES(32) },
	  .part_count = 1, .full = true, .pooled = true },
	{ .name = "regs: a chunk to give up", .regs = true, .parts = { BYTES(24) },
	  .part_count = 1, .overwrites = true },
	{ .name = "regs: session gone", .regs = true, .parts = { BYTES(32) }, .part_count = 1,
	  .gone = true },
	{ .name = "regs: no ring here", .regs = true, .parts = { BYTES(32) }, .part_count = 1,
	  .missing = true },
	{ .name = "regs: beyond the rings", .regs = true, .parts = { BYTES(32) },
	  .part_count = 1, .beyond = true },
	{ .name = "regs, cached: none", .regs = true, .cached = true },
	{ .name = "regs, cached: 15 bytes", .regs = true, .cached = true,
	  .parts = { BYTES(15) }, .part_count = 1 },
	{ .name = "regs, cached: 32 bytes", .regs = true, .cached = true,
	  .parts = { BYTES(32) }, .part_count = 1 },
	{ .name = "regs, cached: room that was made since", .regs = true, .cached = true,
	  .parts = { BYTES(32) }, .part_count = 1, .space_was_freed = true },
	{ .name = "regs, cached: activity ids and 32 bytes", .regs = true, .cached = true,
	  .ids = true, .parts = { BYTES(32) }, .part_count = 1 },
	{ .name = "regs, cached: causal order", .regs = true, .cached = true,
	  .parts = { BYTES(32) }, .part_count = 1, .clock = RP_SLOT_CLOCK_CAUSAL },
	{ .name = "regs, cached: coarse time", .regs = true, .cached = true,
	  .parts = { BYTES(32) }, .part_count = 1, .clock = RP_SLOT_CLOCK_COARSE },
	{ .name = "regs, cached: coarse time, a millisecond later", .regs = true, .cached = true,
	  .parts = { BYTES(32) }, .part_count = 1, .clock = RP_SLOT_CLOCK_COARSE,
	  .clock_went_on = true },
	{ .name = "regs, cached: coarse time, behind another thread", .regs = true,
	  .cached = true, .parts = { BYTES(32) }, .part_count = 1,
	  .clock = RP_SLOT_CLOCK_COARSE, .ring_is_ahead = true },
	{ .name = "regs, cached: no room", .regs = true, .cached = true,
	  .parts = { BYTES(32) }, .part_count = 1, .full = true },
	{ .name = "regs, cached: room for all but one", .regs = true, .cached = true,
	  .parts = { BYTES(32) }, .part_count = 1, .overwrites = true, .rest = 48 },
	{ .name = "regs, cached: a chunk to give up", .regs = true, .cached = true,
	  .parts = { BYTES(24) }, .part_count = 1, .overwrites = true },
};
#define PATHS (sizeof(paths) / sizeof(*paths))

#endif
