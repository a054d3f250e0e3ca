/* SPDX-License-Identifier: MIT */
/*
 * The heap's sampler. Each byte that the program allocates is equally likely to be the one at which
 * a sample is taken: the distances between samples, in bytes, are exponentially distributed, and
 * their mean is the interval. A block of `size` bytes is therefore sampled with the probability
 * 1 - exp(-size / interval). To estimate numbers and bytes, a reader divides by this probability.
 *
 * Each thread counts its calls and bytes in thread-local storage. A thread that allocates for the
 * first time enters a list, so that a reader of the counters finds it.
 */
#ifndef RP_INBOX_HEAP_SAMPLER_H
#define RP_INBOX_HEAP_SAMPLER_H

#include <ringpipe/event.h>

#include "modules/inbox/inbox.h"

#define INBOX_HEAP_INTERVAL (512u << 10)	/* bytes, unless a session sets SampleBytes */

/*
 * `id` names a block until it is freed. It is 0 if too many sampled blocks are in use: then the
 * block's end is not reported.
 */
RP_PROVIDER(inbox_heap, "ringpipe-heap");
RP_EVENT(inbox_heap, allocated, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(id), RP_POINTER(address),
	 RP_U64(size), RP_U64(interval));
RP_EVENT_EX(inbox_heap, freed, (RP_ID(2), RP_FLAGS(RP_EVENT_NO_STACK)), RP_U64(id),
	    RP_POINTER(address));

struct inbox_heap_thread {
	uint64_t bytes, calls;		/* allocated since the thread entered */
	uint64_t next_sample;		/* sample the block with which `bytes` reaches it */
	uint32_t generation;		/* that of rp_inbox_heap; 0: take the slow path */
	uint8_t state;			/* enum inbox_heap_state */
	uint64_t interval;		/* with which next_sample was drawn */
	uint64_t random;
	uint64_t next_id, ids_end;	/* ids of samples that the thread may use */
	struct inbox_heap_thread *previous, *next;
};

/* Settings that all threads read, on a cache line that rarely changes. */
struct inbox_heap {
	uint32_t generation;		/* of the interval; never 0 */
	uint32_t is_counting;		/* a client has read the counters */
	uint64_t interval;
};

extern struct inbox_heap rp_inbox_heap __attribute__((visibility("hidden")));
extern __thread struct inbox_heap_thread rp_inbox_heap_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Return: whether no session, tracer or client wants to know of allocations. */
static inline bool rp_inbox_heap_is_off(void)
{
	return __builtin_expect(!inbox_heap_allocated_enabled(), 1) &&
	       __builtin_expect(!__atomic_load_n(&rp_inbox_heap.is_counting, __ATOMIC_RELAXED), 1);
}

/* Other threads read the numbers, and only the own thread writes them. */
static inline void rp_inbox_heap_add(uint64_t *number, uint64_t by)
{
	__atomic_store_n(number, *number + by, __ATOMIC_RELAXED);
}

static inline bool rp_inbox_heap_is_slow(const struct inbox_heap_thread *thread)
{
	return thread->generation !=
	       __atomic_load_n(&rp_inbox_heap.generation, __ATOMIC_RELAXED);
}

/*
 * Count an allocation.
 * Return: false if the block may be a sample: then nothing was counted, and the caller passes the
 * block to rp_inbox_heap_allocated().
 */
static inline bool rp_inbox_heap_count(size_t size)
{
	struct inbox_heap_thread *thread = &rp_inbox_heap_thread;
	uint64_t bytes;

	if (INBOX_UNLIKELY(__builtin_add_overflow(thread->bytes, size, &bytes)) ||
	    INBOX_UNLIKELY(bytes >= thread->next_sample) ||
	    INBOX_UNLIKELY(rp_inbox_heap_is_slow(thread)))
		return false;
	__atomic_store_n(&thread->bytes, bytes, __ATOMIC_RELAXED);
	rp_inbox_heap_add(&thread->calls, 1);
	return true;
}

/*
 * Count an allocation, and write the event if the block is a sample. NULL, from a failed call, is
 * neither. Preserves errno.
 * Context: any thread, after rp_inbox_heap_count() returned false. Return: the block.
 */
void *rp_inbox_heap_allocated(void *block, size_t size);

/* Write the event of a block with an id other than 0. Preserves errno. */
void rp_inbox_heap_freed(const void *block, uint64_t id);

/* Insert a block again whose realloc(3) failed. */
void rp_inbox_heap_restore(const void *block, uint64_t id);

#endif
