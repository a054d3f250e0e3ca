/* SPDX-License-Identifier: MIT */
#ifndef RP_CORE_RING_SOURCE_H
#define RP_CORE_RING_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

struct rp_ring;

/* The drain thread's state for reading one ring. */
struct rp_source {
	struct rp_ring *ring;
	uint64_t position;	/* the drain thread has consumed the bytes below */
	uint64_t limit;		/* the head, read after the sequence point's membarrier */
	uint64_t ticks;		/* of the record at `position` */
	uint64_t lost_reported;
	uint64_t lost_fallback_reported;
	uint32_t file;		/* its number in the session's directory, if the ring is a file */
	uint32_t fallback;	/* 1 + index of the fallback lock for its writes; 0: none */
	bool given_up;		/* its lock is held by a writer that may return */
	/* For the buffers of a pool. */
	bool is_ring;		/* ring of a concurrency id, as of this pass */
	uint64_t retired;	/* pass in which the buffer began to retire */
	uint64_t retired_head;	/* head of the ring at that time */
	uint64_t seen_lock;	/* value of its lock when no longer that lock's ring; or 0 */
};

#endif
