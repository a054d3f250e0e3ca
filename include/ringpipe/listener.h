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

#define RP_LISTENER_EVENT_SIZE_V1 RP_SIZE_THROUGH_(struct rp_listener_event, payload_bytes)
#define RP_LISTENER_EVENT_INIT RP_INIT_(struct rp_listener_event)

typedef void (*rp_listener_callback)(const struct rp_listener_event *event, void *data);

/*
 * Start a listener. A callback (push) is called on the listener's own thread; without one (pull),
 * call rp_listener_next(). output_path and output_fd of the options are ignored. A slow listener
 * fills its own rings and loses events, which are counted. It slows down neither writers nor other
 * sessions.
 *
 * Events written by a push listener's thread go to files, streams and pull listeners. They do not
 * go to push listeners, which would otherwise keep each other busy for ever, and are not counted
 * there.
 *
 * A callback may start and stop sessions and other listeners, and change its own providers with
 * rp_listener_set_providers().
 * @callback: the function to call for each event; NULL: the listener is a pull listener.
 * @data: an argument for each call of it.
 *
 * Context, Return: as rp_session_start().
 */
RP_PUBLIC int rp_listener_start(const struct rp_session_options *options,
				rp_listener_callback callback, void *data,
				struct rp_listener **ret_listener);

/*
 * Wait for the next event, up to `timeout_ms` (-1: for ever).
 *
 * Context: one thread at a time, not a signal handler.
 * Return: 1 with an event; 0 when none came in time; -EPIPE when the listener was drained and all
 * events were read; -EINVAL, without taking an event, for a push listener or a size that is too
 * small.
 */
RP_PUBLIC int rp_listener_next(struct rp_listener *listener, struct rp_listener_event *ret_event,
			       int timeout_ms);

/*
 * Replace the listener's providers. With a count of 0, it gets no events until the next call.
 * Events written before are still delivered. The arguments are copied.
 * @providers, @provider_count: as in struct rp_session_options.
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
 * Disable the listener's events and deliver those already written. A push listener has seen all of
 * them when this returns; a pull listener reads on until -EPIPE. Call rp_listener_stop() afterwards
 * in any case.
 *
 * Context: any thread, not a signal handler. Waits for the drain thread and, with a callback, for
 * the listener's thread.
 * Return: 0; -EDEADLK in the listener's own callback, in that of a listener whose end it waits for
 * itself, or in a provider's on the drain thread.
 */
RP_PUBLIC int rp_listener_drain(struct rp_listener *listener);

/*
 * Disable the listener's events and drop those not delivered yet. They count as lost
 * (RP_LOSS_SINK). The callback may still get the events that are on their way to it; after
 * rp_listener_stop() it gets none. Without this call, rp_listener_stop() of a push listener waits
 * until the callback has seen every event.
 *
 * Context: any thread, not a signal handler; a listener's callback, its own too, and a provider's
 * callback are fine. Does not wait for the listener's callback; runs callbacks of providers.
 */
RP_PUBLIC void rp_listener_discard(struct rp_listener *listener);

/*
 * Stop and free a listener. A push listener's callback first gets every event that was written,
 * as by rp_listener_drain(), unless rp_listener_discard() was called. Events that were not read
 * from a pull listener are dropped and counted: call rp_listener_drain() and read them first. The
 * only call for a listener that a forked child inherited.
 *
 * Context: any thread, not a signal handler. Waits as rp_listener_drain().
 * Return: 0, also for NULL; -ENOMEM: the listener ended early, and is freed; -EDEADLK as
 * rp_listener_drain(); -EINVAL: the size of `ret_stats`, which may be NULL, is too small. After
 * -EDEADLK and -EINVAL the listener is unchanged.
 */
RP_PUBLIC int rp_listener_stop(struct rp_listener *listener, struct rp_session_stats *ret_stats);

/*
 * Return the listener's current stats. `lost` counts the events that never reached the listener.
 *
 * Context, Return: as rp_session_get_stats().
 */
RP_PUBLIC int rp_listener_get_stats(struct rp_listener *listener,
				    struct rp_session_stats *ret_stats);

RP_END_DECLS

#endif
