/* SPDX-License-Identifier: MIT */
/* The activity ids of a thread, for the write path. */
#ifndef RP_CORE_ACTIVITY_SLOTS_H
#define RP_CORE_ACTIVITY_SLOTS_H

#include <ringpipe/activity.h>

#include "ring/slot.h"

/*
 * The current slot, one slot being filled, and one for each of two handlers that interrupted the
 * call that fills it.
 */
#define RP_ACTIVITY_SLOTS 4u

/*
 * The ids of a request for profilers, of OpenTelemetry's OTEP 4947
 * (oteps/profiles/4947-thread-ctx.md). They read the record only while the thread is stopped.
 */
struct rp_thread_context {
	uint8_t trace_id[16], span_id[8];
	uint8_t is_valid;	/* 1; while the record changes 0 */
	uint8_t flags;		/* of the trace; 0, because an activity has none */
	uint16_t attribute_bytes;	/* of attributes after the record; 0 */
} __attribute__((aligned(8)));

/* The ids of one thread. */
struct rp_activity_block {
	uint32_t owner;		/* kernel id of the thread; 0: never used */
	uint32_t state;		/* modulo RP_ACTIVITY_SLOTS: current slot; above: a generation */
	uint32_t filling;	/* a bit for each slot being filled, also by interrupted calls */
	const void **published;	/* the owner's otel_thread_ctx_v1, whose lookup is a call */
	struct rp_activity slots[RP_ACTIVITY_SLOTS];
	struct rp_thread_context contexts[RP_ACTIVITY_SLOTS];	/* of `slots`, once published */
};

/* Number of blocks that threads have claimed so far, free blocks included. */
extern uint32_t rp_activity_block_count;

/*
 * Seed the ids that rp_activity_generate() returns. A forked child calls this function again; the
 * child's thread keeps the ids that are set in it, although its thread id changes.
 */
void rp_activity_init(void);

/* As rp_activity_get(), for a thread with ids: rp_thread_ring.has_ids is not 0. */
void rp_activity_read(struct rp_activity *ret_activity);

/*
 * From now on, publish the ids that threads set. Context: any thread; a forked child publishes none
 * until it calls the function.
 */
void rp_activity_publish(void);

/* Return a random-looking number that no other call in this process returns. */
uint64_t rp_activity_number(void);

/* The first 8 bytes of each id that rp_activity_generate() makes in this process. Context: any. */
uint64_t rp_activity_own_ids(void);

#endif
