/* SPDX-License-Identifier: MIT */
/*
 * Exporters: other tracers that see our events under their own rules. Each owns one bit of enable
 * words, RP_EXPORTER_BIT and up, and says itself which events it wants; an event is handed to it on
 * the writer's thread, past all rings. There is no way back: an exporter stays as long as the
 * process.
 *
 * Exporters never get the sampler's provider, whose events are written on behalf of other threads.
 */
#ifndef RP_CORE_EXPORTERS_H
#define RP_CORE_EXPORTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "core/sink.h"

#define RP_EXPORTERS_MAX 7u
#define RP_EXPORTER_BIT 40u		/* of the first */
#define RP_EXPORTER_BITS (((1ull << RP_EXPORTERS_MAX) - 1) << RP_EXPORTER_BIT)

struct rp_event;
struct rp_exporter;

/* One enable word, as one exporter knows it. From add() to remove(). */
struct rp_export {
	struct rp_event *event;
	const struct rp_event_def *def;	/* the same pointer for all words of one event */
	uint64_t bit;			/* in event->enable */
	void *data;			/* the exporter's own */
	uint64_t lost;			/* it counts here what it could not take, atomically */
};

enum rp_exporter_flags {
	/* The kernel sets and clears the bit; a forked child keeps it. */
	RP_EXPORTER_KERNEL = 1,
};

/* Called by the engine, without its lock and never two of them simultaneously. */
struct rp_exporter_ops {
	uint32_t size;
	uint32_t flags;			/* enum rp_exporter_flags */
	const char *name;		/* as the listing of who enabled what has it */
	/*
	 * An event, on the thread that writes it, at any moment and in any signal handler; may not
	 * wait. `payload_bytes` is the sum of the parts, or more than RP_PAYLOAD_MAX if the sum is.
	 * The only call that may run concurrently with others.
	 */
	void (*write)(struct rp_export *export, const struct rp_part *parts,
		      unsigned int part_count, uint64_t payload_bytes);
	/*
	 * Words that came, those that are there when the exporter registers included. The event may
	 * be fired as soon as this returns, so what is enabled already should be on by then. While
	 * the program loads a library, the loader's lock is held.
	 */
	void (*add)(struct rp_export *const *exports, size_t count);
	/*
	 * Words that go: they may be unmapped once this returns. Their bit is off, and no thread
	 * is in write() with them.
	 */
	void (*remove)(struct rp_export *const *exports, size_t count);
	/* Around fork(2); may be NULL. In the child no word has the bit, but for a kernel's. */
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);
};

/*
 * `ops` has to stay. Tells of all words there are before it returns.
 *
 * Context: any thread, not a callback. Return: 0; -EINVAL; -ENOSPC with RP_EXPORTERS_MAX of them;
 * -ENOMEM.
 */
int rp_exporter_register(const struct rp_exporter_ops *ops, struct rp_exporter **ret_exporter);

/*
 * An exporter that learns elsewhere what is wanted holds this lock while it goes through its
 * exports: none comes or goes meanwhile. It is held in add() and remove() and across a fork.
 */
void rp_exporters_lock(void);
void rp_exporters_unlock(void);

/* With that lock held: turns one word's bit on or off; nothing if it is so. */
void rp_export_switch(const struct rp_export *export, bool on);

/*
 * Calls the providers' callbacks with the current bits, on a new thread. For bits that the kernel
 * changed; changes by rp_export_switch() are announced when the lock is released. Without the lock.
 */
void rp_exporters_announce(void);

#endif
