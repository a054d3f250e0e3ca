/* SPDX-License-Identifier: MIT */
/* Declarations for ringpipe's own providers, in addition to the public headers. */
#ifndef RP_CORE_OWN_H
#define RP_CORE_OWN_H

#include <ringpipe/event.h>

/*
 * As rp_provider_create(), for a provider that is expensive or writes many events: a session gets
 * it only by its name, not by "*".
 */
int rp_provider_create_by_name(const char *name, rp_provider_callback callback, void *data,
			       struct rp_provider **ret_provider);

/*
 * Set the watcher of a provider, a second callback for the library's own use. It is called before
 * the provider's callback. A new watcher runs once with the present state before the function
 * returns. `watcher` may be NULL.
 *
 * Context: as rp_provider_set_callback().
 * Return: 0; -EDEADLK: called by the provider's own callback; -ENOMEM.
 */
int rp_provider_watch(struct rp_provider *provider, rp_provider_callback watcher, void *data);

/* The thread for which an event is written, and its stack. */
struct rp_origin {
	uint32_t thread;
	uint32_t frame_count;		/* up to RP_STACK_MAX */
	const uint64_t *frames;		/* innermost first */
};

/*
 * Write an event in the name of the thread in `origin`, which need not be the calling thread. The
 * event goes to sessions only, not to other tracers. In each session it contains the stack of
 * `origin`, with or without RP_SESSION_STACKS, and no activity ids. The function never waits for
 * space, even in a session with block_ms.
 * Context, Return: as rp_event_write().
 */
int rp_event_write_for(struct rp_event *event, const struct rp_part *parts,
		       unsigned int part_count, const struct rp_origin *origin);

#endif
