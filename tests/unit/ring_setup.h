/* SPDX-License-Identifier: MIT */
/* The slots and the rings that tests/unit/ring_aborts.c writes to. */
#ifndef RING_SETUP_H
#define RING_SETUP_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/ringpipe.h>

#include "base/clock.h"
#include "core/enable.h"
#include "core/own.h"
#include "ring/regs.h"
#include "ring/ring.h"
#include "ring/slot.h"
#include "ring_paths.h"

#define RINGS_MAX 4096u
#define SLOT 3u
#define BIT (1ull << SLOT)
#define BEFORE (SLOT - 1)	/* slot of the session that is written first */
#define BEFORE_BIT (1ull << BEFORE)

/* Where each ring begins, so that every record wraps around the end. */
#define BEGIN (3u * RING_BYTES - 16u)

enum { MAIN = 7, NESTED = 8 };	/* indexes of the events in records */

static struct rp_event event = { .index = MAIN }, nested_event = { .index = NESTED };
static struct rp_ring *rings[RINGS_MAX], *later_rings[RINGS_MAX];
static struct rp_ring *fallbacks[RP_FALLBACKS], *later_fallbacks[RP_FALLBACKS];
static struct rp_ring *no_rings[RINGS_MAX];	/* no ring exists yet */
/* The table that writers read, and change if there is a pool. */
static struct rp_ring *table[RINGS_MAX];
#define POOL 3u
static struct rp_ring *pool[POOL];
/* With space for all records. */
static struct rp_ring *before_rings[RINGS_MAX], *before_fallbacks[RP_FALLBACKS];
static bool is_multi;
static uint32_t ring_count;
static uint16_t processor;		/* on which this runs */

/* Overwrites the bytes that a path will write, including a handler's event in between. */
static void poison(struct rp_ring *ring, const struct path *path)
{
	size_t size = 1024 + path->frames * 8, rest = RING_BYTES - BEGIN % RING_BYTES;

	for (unsigned int i = 0; i < path->part_count; i++)
		size += 2 * path->parts[i].size_bytes;
	if (size > RING_BYTES)
		size = RING_BYTES;
	memset(ring->data + BEGIN % RING_BYTES, 0xee, rest);
	memset(ring->data, 0xee, size - rest);
}

static void reset_ring(struct rp_ring *ring, bool full, const struct path *path)
{
	ring->head = BEGIN;
	ring->tail = full ? BEGIN - RING_BYTES : BEGIN;
	ring->watermark = RING_BYTES / 4;
	ring->lost_full = 0;
	ring->lost_fallback = 0;
	ring->intent = 0;
	ring->subbuf = 0;
	poison(ring, path);
}

/* Puts the head at the boundary up to which there is space, or before it. */
static void reset_overwriting(struct rp_ring *ring, uint64_t rest)
{
	memset(ring->ends, 0xee, sizeof(ring->ends));
	ring->subbuf = RING_BYTES / RP_RING_SUBBUFS;
	ring->tail = BEGIN + rest - RING_BYTES;
	ring->watermark = RING_BYTES;
}

/* The stats words of a session that has just started, and of the next one in its slot. */
#define GENERATION (5ull << 40)
#define LATER_GENERATION (6ull << 40)

static void reset_before(const struct path *path)
{
	struct rp_slot *slot = &rp_slots[BEFORE];

	for (uint32_t i = 0; i < ring_count; i++)
		reset_ring(before_rings[i], false, path);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		reset_ring(before_fallbacks[i], false, path);
		slot->fallback[i].ring = before_fallbacks[i];
	}
	slot->lock_count = RP_FALLBACKS;
	slot->ring_count = ring_count;
	slot->rings = path->missing_before ? no_rings : before_rings;
	slot->busy = slot->too_big = GENERATION;
}

static void reset_pool(struct rp_slot *slot, const struct path *path)
{
	slot->pool = pool;
	slot->pool_count = path->pooled ? POOL : 0;
	slot->pool_frees++;
	for (unsigned int i = 0; i < POOL; i++) {
		reset_ring(pool[i], false, path);
		pool[i]->stamp = 0;
		slot->owners[i] = rp_pool_next_epoch() | RP_OWNER_FREE;
	}
}

static uint64_t stamp_before;		/* the latest of the thread and the rings */
static uint64_t closed_losses;		/* counted in the session that ended */

static void reset_slot(const struct path *path)
{
	struct rp_slot *slot = &rp_slots[SLOT];

	for (uint32_t i = 0; i < ring_count; i++) {
		reset_ring(rings[i], path->full, path);
		reset_ring(later_rings[i], false, path);
	}
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		reset_ring(fallbacks[i], path->full && !path->full_but_fallback, path);
		slot->fallback[i].ring = path->gone ? NULL : fallbacks[i];
		reset_ring(later_fallbacks[i], false, path);
		slot->fallback[i].lock = path->held;
	}
	for (uint32_t i = 0; i < ring_count && path->overwrites; i++)
		reset_overwriting(rings[i], path->rest);
	for (unsigned int i = 0; i < RP_FALLBACKS && path->overwrites; i++)
		reset_overwriting(fallbacks[i], path->rest);
	slot->lock_count = RP_FALLBACKS;
	slot->ring_count = path->beyond ? 0 : ring_count;
	slot->wanted = 0;
	slot->busy = slot->too_big = GENERATION;
	for (uint32_t i = 0; i < ring_count; i++)
		table[i] = path->missing ? NULL : rings[i];
	slot->rings = path->gone ? NULL : table;
	reset_pool(slot, path);
	closed_losses = 0;
	slot->clock = path->clock;
	stamp_before = rp_thread_ring.stamp + (path->ring_is_ahead ? 1000 : 0);
	rp_clock_coarse = path->clock_went_on ? stamp_before + 1000 : 1;
	for (uint32_t i = 0; i < ring_count; i++)
		rings[i]->stamp = path->ring_is_ahead ? stamp_before : 0;
	reset_before(path);
	event.enable = nested_event.enable = is_multi ? BIT | BEFORE_BIT : BIT;
	rp_regs_slow_mask = ~RP_SESSION_BITS;
}

/* Resets to a session that has just started; the thread's cache belongs to the previous one. */
static void reset(const struct path *path)
{
	(*rp_slots_generation())++;
	if (path->cached) {
		const struct path before = { .clock = path->clock };

		reset_slot(&before);
		(void)rp_event_write_regs(0, 0, 0, 0, &nested_event, 0);
	}
	reset_slot(path);
	if (path->cached) {
		const struct rp_ring *ring = rp_thread_ring.ring;

		/* The limit from a read of the tail. Tails only move forward. */
		rp_thread_ring.limit = path->space_was_freed ? 0 :
				       ring->tail + ring->watermark - (RP_RECORD_HEADER + 32) + 1;
	}
}

static void make_rings(void)
{
	int ret = 0;

	ring_count = rp_slot_ring_count() < RINGS_MAX ? rp_slot_ring_count() : RINGS_MAX;
	for (uint32_t i = 0; i < ring_count && ret == 0; i++) {
		ret = rp_ring_create(RING_BYTES, i, &rings[i]);
		ret = ret ? ret : rp_ring_create(RING_BYTES, i, &later_rings[i]);
		ret = ret ? ret : rp_ring_create(4 * RING_BYTES, i, &before_rings[i]);
	}
	for (unsigned int i = 0; i < RP_FALLBACKS && ret == 0; i++) {
		ret = rp_ring_create(RING_BYTES, i, &fallbacks[i]);
		ret = ret ? ret : rp_ring_create(RING_BYTES, i, &later_fallbacks[i]);
		ret = ret ? ret : rp_ring_create(4 * RING_BYTES, i, &before_fallbacks[i]);
	}
	for (unsigned int i = 0; i < POOL && ret == 0; i++)
		ret = rp_ring_create(RING_BYTES, i, &pool[i]);
	if (ret != 0) {
		printf("Bail out! no rings: %s\n", strerror(-ret));
		exit(1);
	}
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + (i >> 8) + 1);
}

/* Binds to one processor, the last, since a record's default processor number is not that one. */
static void settle_down(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0) {
		for (unsigned int i = 0; i < CPU_SETSIZE; i++)
			processor = CPU_ISSET(i, &set) ? (uint16_t)i : processor;
	}
	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		processor = (uint16_t)sched_getcpu();
}

#endif
