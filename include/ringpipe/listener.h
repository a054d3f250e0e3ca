/* SPDX-License-Identifier: MIT */
/*
 * Listeners: a session whose events come back to this process, in time order.
 */
#ifndef RINGPIPE_LISTENER_H
#define RINGPIPE_LISTENER_H

#include <ringpipe/session.h>
#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_listener;

/*
 * An event as a listener sees it. Pointers are valid until the callback or the next call ends.
 * Later versions add members at the end: `size` tells how far the library has filled it.
 */
struct rp_listener_event {
	uint32_t size;
	uint32_t id;
	const char *provider;
	const char *name;
	const struct rp_field *fields;
	uint16_t field_count;
	uint8_t version;
	uint8_t level;
	uint8_t opcode;
	uint8_t reserved;
	uint16_t processor;
	uint64_t keywords;
	uint64_t time_ns;		/* CLOCK_MONOTONIC */
	uint32_t thread;
	uint32_t frame_count;
	const uint64_t *frames;		/* innermost first */
	struct rp_guid activity;	/* zero: none */
	struct rp_guid related_activity;
	const void *payload;		/* laid out as the fields say */
	size_t payload_bytes;
};

typedef void (*rp_listener_callback)(const struct rp_listener_event *event, void *data);

/*
 * Starts a listener. With a callback (push) a thread of its own calls it; without (pull) call
 * rp_listener_next(). output_path and output_fd of the options are not looked at. A slow listener
 * fills its own rings and loses events, counted; nobody else is slowed down.
 *
 * What the thread of a push listener writes itself goes to files, streams and pull listeners, but
 * is not offered to push listeners, its own or another: they would keep themselves busy for ever.
 * No figure counts it there.
 *
 * A callback may start and stop sessions and other listeners, and change what its own hears by
 * rp_listener_set_providers().
 *
 * Context, Return: as rp_session_start().
 */
RP_PUBLIC int rp_listener_start(const struct rp_session_options *options,
				rp_listener_callback callback, void *data,
				struct rp_listener **ret_listener);

/*
 * Waits up to timeout_ms (-1: for ever) for the next event. Set ret_event->size before the call;
 * it is filled up to that, and no event is taken where that is too small.
 *
 * Context: one thread at a time, not a signal handler.
 * Return: 1 with an event; 0 when none came in time; -EPIPE when the listener was closed and all is
 * read; -EINVAL for a push listener, or a size below that of the first version, which ends with
 * payload_bytes.
 */
RP_PUBLIC int rp_listener_next(struct rp_listener *listener, struct rp_listener_event *ret_event,
			       int timeout_ms);

/*
 * What the listener hears from now on, in place of what it heard; with a count of 0 nothing, until
 * the next call. Events written before are still delivered. Everything given is copied.
 *
 * Context: any thread, not a signal handler; a listener's callback, its own too, and a provider's
 * callback are fine. Allocates; runs callbacks of providers.
 * Return: 0; -EINVAL and -ENOMEM as rp_session_start(); -EPIPE when the listener is closed or its
 * session has failed. Unless 0 nothing is changed.
 */
RP_PUBLIC int rp_listener_set_providers(struct rp_listener *listener,
					const struct rp_session_provider *providers,
					size_t provider_count);

/*
 * Turns the events off and delivers what was written: a push listener has seen all of it when this
 * returns; a pull listener reads on until -EPIPE. Call rp_listener_stop() afterwards in any case.
 *
 * Return: 0; -EDEADLK in the listener's own callback, in that of a listener whose end it waits for
 * itself, or in a provider's on the drain thread.
 */
RP_PUBLIC int rp_listener_close(struct rp_listener *listener);

/*
 * Closes if that was not done, discards and counts what was not read, gives everything back. The
 * only call for a listener that a forked child inherited.
 *
 * Return: 0, also for NULL; -EDEADLK as rp_listener_close(), the listener unchanged.
 */
RP_PUBLIC int rp_listener_stop(struct rp_listener *listener, struct rp_session_stats *ret_stats);

/* As rp_session_get_stats(). `lost` counts what never reached the listener. */
RP_PUBLIC int rp_listener_get_stats(struct rp_listener *listener,
				    struct rp_session_stats *ret_stats);

RP_END_DECLS

#endif
