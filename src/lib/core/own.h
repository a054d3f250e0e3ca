/* SPDX-License-Identifier: MIT */
/* Declarations for ringpipe's own providers, beyond the public headers. */
#ifndef RP_CORE_OWN_H
#define RP_CORE_OWN_H

#include <ringpipe/event.h>

/*
 * As rp_provider_create(), for what costs or floods and is not to be had by chance: a session gets
 * it by its name alone, "*" does not mean it.
 */
int rp_provider_create_by_name(const char *name, rp_provider_callback callback, void *data,
			       struct rp_provider **ret_provider);

/* In whose name an event is written, and where that thread was. */
struct rp_origin {
	uint32_t thread;
	uint32_t frame_count;		/* up to RP_STACK_MAX */
	const uint64_t *frames;		/* innermost first */
};

/*
 * As rp_event_write(), for a thread that may be another one. The event carries the stack in
 * sessions with and without RP_SESSION_STACKS, and no activity. Context and return as there.
 */
int rp_event_write_for(struct rp_event *event, const struct rp_part *parts,
		       unsigned int part_count, const struct rp_origin *origin);

#endif
