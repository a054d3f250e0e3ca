/* SPDX-License-Identifier: MIT */
/*
 * Exporters: other tracers that select ringpipe's events by their own rules. Each owns one bit of
 * enable words, from RP_EXPORTER_BIT on, and decides which events it wants. The library passes an
 * event to it on the writer's thread, without a ring. An exporter cannot be unregistered: it
 * remains until the process ends.
 *
 * Exporters never get the events of the sampler's provider, which are written for other threads.
 */
#ifndef RP_CORE_EXPORTERS_H
#define RP_CORE_EXPORTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "core/event_def.h"

#define RP_EXPORTERS_MAX 7u
#define RP_EXPORTER_BIT 40u		/* of the first exporter */
#define RP_EXPORTER_BITS (((1ull << RP_EXPORTERS_MAX) - 1) << RP_EXPORTER_BIT)

struct rp_event;
struct rp_exporter;

/* One enable word as one exporter sees it, from add() to remove(). */
struct rp_export {
	struct rp_event *event;
	const struct rp_event_def *def;	/* the same pointer for all words of one event */
	uint64_t bit;			/* in event->enable */
	void *data;			/* the exporter's own */
	uint64_t lost;			/* events that the exporter lost, counted atomically */
};

enum rp_exporter_flags {
	/* The kernel sets and clears the bit, and a forked child keeps it. */
	RP_EXPORTER_KERNEL = 1,
};

/* The engine calls these functions without its lock, and never two of them simultaneously. */
struct rp_exporter_ops {
	uint32_t size;
	uint32_t flags;			/* enum rp_exporter_flags */
	const char *name;		/* the name in lists of enabled events */
	/*
	 * Take an event. The writer's thread calls it at any time, also in signal handlers; it must
	 * not wait. `payload_bytes` is the sum of the parts, or more than RP_PAYLOAD_MAX if the sum
	 * is. Only this call may run concurrently with others.
	 */
	void (*write)(struct rp_export *export, const struct rp_part *parts,
		      unsigned int part_count, uint64_t payload_bytes);
	/*
	 * Add enable words. The first call after the registration has the existing words. The event
	 * may be written as soon as add() returns, so add() should enable words that are wanted
	 * already. While the program loads a library, the caller holds the loader's lock.
	 */
	void (*add)(struct rp_export *const *exports, size_t count);
	/*
	 * Remove enable words, which may be unmapped after the call. Their bits are off, and no
	 * thread is in write() with them.
	 */
	void (*remove)(struct rp_export *const *exports, size_t count);
	/*
	 * Called before and after fork(2); may be NULL. In the child no word has the exporter's
	 * bit, unless the kernel sets it.
	 */
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);
};

/*
 * Register an exporter. `ops` must remain valid. Calls add() for all existing words before it
 * returns.
 *
 * Context: any thread, but no callback. Return: 0; -EINVAL: `ops` has no name or too small a size;
 * -ENOSPC: there are RP_EXPORTERS_MAX exporters.
 */
int rp_exporter_register(const struct rp_exporter_ops *ops, struct rp_exporter **ret_exporter);

/*
 * Lock the set of exports. An exporter that gets its rules from elsewhere holds this lock while it
 * visits its exports, so none is added or removed. The engine holds it in add() and remove() and
 * across a fork.
 */
void rp_exporters_lock(void);
void rp_exporters_unlock(void);

/*
 * Set or clear the exporter's bit of one word, if necessary. The caller holds the exporters' lock.
 */
void rp_export_switch(const struct rp_export *export, bool on);

/*
 * Call the providers' callbacks with the current bits, on a new thread. Use it for bits that the
 * kernel changed. Changes by rp_export_switch() are announced when the lock is released. Call it
 * without the lock.
 */
void rp_exporters_announce(void);

#endif
