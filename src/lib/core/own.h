/* SPDX-License-Identifier: MIT */
/* Declarations for ringpipe's own providers, in addition to the public headers. */
#ifndef RP_CORE_OWN_H
#define RP_CORE_OWN_H

#include <stdbool.h>

#include <ringpipe/event.h>
#include <urcu/list.h>

/*
 * As rp_provider_create(), for a provider that is expensive or writes many events: a session gets
 * it only by its name, not by "*".
 */
int rp_provider_create_by_name(const char *name, rp_provider_callback callback, void *data,
			       struct rp_provider **ret_provider);

/* A callback of a provider for the library's own use. */
struct rp_watcher {
	struct cds_list_head node;	/* in the provider's list */
	rp_provider_callback callback;
	void *data;
	bool is_listed;
};

/*
 * Add or remove a watcher. Watchers are called before the provider's callback, one after another. A
 * new watcher runs once with the present state before the function returns. The caller owns the
 * memory of the watcher, which must not be the watcher of another provider.
 *
 * Context: as rp_provider_set_callback().
 * Return: 0; -EDEADLK: called by a callback of this provider; of rp_provider_watch(), -ENOMEM.
 */
int rp_provider_watch(struct rp_provider *provider, struct rp_watcher *watcher);
int rp_provider_unwatch(struct rp_provider *provider, struct rp_watcher *watcher);

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
