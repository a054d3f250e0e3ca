/* SPDX-License-Identifier: MIT */
/* A listener is a session whose events are delivered to the process itself, in order of time. */
#ifndef RINGPIPE_LISTENER_H
#define RINGPIPE_LISTENER_H

#include <ringpipe/session.h>
#include <ringpipe/types.h>

RP_BEGIN_DECLS

struct rp_listener;

/*
 * An event as a listener receives it. Its pointers are valid until the callback returns, or until
 * the next call of rp_listener_next().
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
	const void *payload;		/* in the layout that the fields define */
	size_t payload_bytes;
};

#define RP_LISTENER_EVENT_SIZE_V1 RP_SIZE_THROUGH_(struct rp_listener_event, payload_bytes)
#define RP_LISTENER_EVENT_INIT RP_INIT_(struct rp_listener_event)

typedef void (*rp_listener_callback)(const struct rp_listener_event *event, void *data);

/*
 * Start a listener. With a callback, it is a push listener, which calls the callback on its own
 * thread. Without one, it is a pull listener, and the program calls rp_listener_next(). The
 * function ignores output_path and output_fd of the options. A slow listener fills its own rings
 * and loses events, which are counted; it does not slow down writers or other sessions.
 *
 * Events that the thread of a push listener writes go to files, streams and pull listeners. They do
 * not go to push listeners and are not counted there, because the callbacks would otherwise keep
 * each other busy forever.
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
 * Wait for the next event, up to `timeout_ms` milliseconds (-1: without a limit).
 *
 * Context: one thread at a time, not a signal handler.
 * Return: 1 with an event; 0 when no event came in time; -EPIPE if all events of a drained
 * listener were read, the listener was discarded, or its session failed; -EINVAL if this is a push
 * listener, `ret_event` is NULL, or its size is too small. With -EINVAL, no event is consumed.
 */
RP_PUBLIC int rp_listener_next(struct rp_listener *listener, struct rp_listener_event *ret_event,
			       int timeout_ms);

/*
 * Replace the listener's providers. With a count of 0, the listener receives no events until the
 * next call. Events written before the call are still delivered. The function copies the arguments.
 * @providers, @provider_count: as in struct rp_session_options.
 *
 * Context: any thread, any callback of a listener (its own too) or a provider; not a signal
 * handler. Allocates; runs callbacks of providers.
 * Return: 0; -EINVAL and -ENOMEM as rp_session_start(); -EPIPE if the listener was drained or
 * discarded, or its session has failed. On failure the listener is unchanged.
 */
RP_PUBLIC int rp_listener_set_providers(struct rp_listener *listener,
					const struct rp_session_provider *providers,
					size_t provider_count);

/*
 * Disable the listener's events and deliver those already written. When the function returns, a
 * push listener has received all of them. From a pull listener, read the rest until -EPIPE. Call
 * rp_listener_stop() afterwards in any case.
 *
 * Context: any thread, not a signal handler. Waits for the drain thread and, with a callback, for
 * the listener's thread.
 * Return: 0; -EDEADLK if called by the listener's own callback, by the callback of a listener for
 * whose end this listener waits, or by a provider's callback on the drain thread.
 */
RP_PUBLIC int rp_listener_drain(struct rp_listener *listener);

/*
 * Disable the listener's events and drop those not delivered yet. The dropped events count as lost
 * (RP_LOSS_SINK). The callback may still receive events that are already on their way to it; after
 * rp_listener_stop() it receives none. Without this call, rp_listener_stop() of a push listener
 * waits until the callback has received every event.
 *
 * Context: any thread, any callback of a listener (its own too) or a provider; not a signal
 * handler. Does not wait for the listener's callback; runs callbacks of providers.
 */
RP_PUBLIC void rp_listener_discard(struct rp_listener *listener);

/*
 * Stop and free a listener. As in rp_listener_drain(), a push listener's callback first receives
 * every event that was written, unless rp_listener_discard() was called. Events that were not read
 * from a pull listener are dropped and counted: to keep them, call rp_listener_drain() and read
 * them first. In a forked child, this is the only function that may be called for an inherited
 * listener.
 *
 * Context: any thread, not a signal handler. Waits as rp_listener_drain().
 * Return: 0, also for NULL; -ENOMEM if the listener ended early for lack of memory, and is freed;
 * -EDEADLK as rp_listener_drain(); -EINVAL if the size of `ret_stats`, which may be NULL, is too
 * small. After -EDEADLK and -EINVAL the listener is unchanged.
 */
RP_PUBLIC int rp_listener_stop(struct rp_listener *listener, struct rp_session_stats *ret_stats);

/*
 * Return the listener's current statistics. `lost` counts the events that never reached the
 * listener.
 *
 * Context, Return: as rp_session_get_stats().
 */
RP_PUBLIC int rp_listener_get_stats(struct rp_listener *listener,
				    struct rp_session_stats *ret_stats);

RP_END_DECLS

#endif
