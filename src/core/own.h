/* SPDX-License-Identifier: MIT */
/* What ringpipe's own providers need beyond the public headers. */
#ifndef RP_CORE_OWN_H
#define RP_CORE_OWN_H

#include <ringpipe/event.h>

/*
 * As rp_provider_create(), for what costs or floods and is not to be had by chance: a session gets
 * it by its name alone, "*" does not mean it.
 */
int rp_provider_create_by_name(const char *name, rp_provider_callback callback, void *data,
			       struct rp_provider **ret_provider);

/* rp_event_write_words() where its short way does not lead: all ways, and what it lost counted. */
int rp_event_write_slowly(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			  size_t bytes) __attribute__((visibility("hidden")));

/*
 * The same for some of the slots that want the event: `rest` has their bits, and above them, from
 * RP_REST_BYTES_AT on, the bytes.
 */
#define RP_REST_BYTES_AT 48
int rp_event_write_rest(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			uint64_t rest) __attribute__((visibility("hidden")));

/* As rp_event_write_words(), where the thread does not know its ring. */
int rp_event_write_anew(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			size_t bytes) __attribute__((visibility("hidden")));

/* As rp_event_write_words(), for several sessions. */
int rp_event_write_in_turn(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct rp_event *event,
			   size_t bytes) __attribute__((visibility("hidden")));

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
