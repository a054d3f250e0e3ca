/* SPDX-License-Identifier: MIT */
/* A provider is a named group of events that a session enables together. */
#ifndef RINGPIPE_PROVIDER_H
#define RINGPIPE_PROVIDER_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/types.h>

/*
 * Declares a provider, in a source file or in a header. `ident_provider()` returns its
 * struct rp_provider for the functions below. An executable or shared object that calls that
 * function, or uses an event or counter of the provider, registers the provider when it is loaded;
 * dlclose(3) unregisters it.
 */
#define RP_PROVIDER(ident, name) RP_PROVIDER_EMIT_(ident, name)

RP_BEGIN_DECLS

struct rp_provider;

/*
 * The argument of a provider's callback, which runs when a session enables or disables the
 * provider. An exporter, which passes events to another tracer, counts as a session. It enables
 * events one by one, so its keywords and level are those of the events that it has enabled, and
 * each change causes another call.
 */
struct rp_provider_state {
	uint32_t size;
	uint8_t enabled;		/* 1 if any session enabled the provider */
	uint8_t level;			/* the highest level of all sessions */
	uint16_t reserved;
	uint64_t keywords;		/* the keywords of all sessions */
	struct rp_guid source;		/* the session or exporter that caused this call */
	uint8_t source_enabled;		/* 1: it started, 0: it ended */
	uint8_t reserved2[7];
	const char *filter_data;	/* that session's arguments, "k=v;k2=v2", or NULL */
};

#define RP_PROVIDER_STATE_SIZE_V1 RP_SIZE_THROUGH_(struct rp_provider_state, filter_data)

/*
 * Callback of a provider. It may write events and start and stop sessions. It must not call
 * dlopen(3) or dlclose(3).
 *
 * Context: a thread that starts or stops a session, which may be another session than the one that
 * changed; the thread that creates the provider or sets its callback while a session wants the
 * provider; the drain thread, if a session ends by itself; a separate thread with all signals
 * masked, for sessions of diagnostics clients and for exporters. No lock of ringpipe is held. The
 * calls for one provider never overlap, and have the order of the changes.
 */
typedef void (*rp_provider_callback)(struct rp_provider *provider,
				     const struct rp_provider_state *state, void *data);

/*
 * Create a provider. The function copies the name. Several providers may share a name, and a
 * session that names it enables all of them. Running sessions that want the provider enable it
 * before this function returns. `callback` may be NULL.
 * @name: the name that sessions use.
 * @data: an argument for each call of `callback`.
 *
 * Context: any thread, not a signal handler; allocates; runs the callback if a session wants the
 * provider.
 * Return: 0; -EINVAL if the name is empty, longer than RP_NAME_MAX or not UTF-8; -ENOMEM if an
 * allocation fails.
 */
RP_PUBLIC int rp_provider_create(const char *name, rp_provider_callback callback, void *data,
				 struct rp_provider **ret_provider);

/*
 * Destroy a provider that rp_provider_create() created, and its events. No thread may write these
 * events any more. If the provider's callback runs in another thread, the function waits for it. On
 * failure the provider is unchanged.
 *
 * Context: any thread, not a signal handler.
 * Return: 0, also for NULL; -EDEADLK if called by the provider's own callback; -EINVAL if the
 * provider is declared.
 */
RP_PUBLIC int rp_provider_destroy(struct rp_provider *provider);

/*
 * Set or replace the callback of a declared provider. If the old callback runs in another thread,
 * the function first waits for it. The new callback then runs once for each session that has
 * enabled the provider, before this function returns.
 * @callback: the new callback; NULL: none.
 * @data: an argument for each call of it.
 *
 * Context: any thread, not a signal handler, not the provider's own callback.
 * Return: 0; -EINVAL if `provider` is NULL; -EDEADLK if called by the provider's own callback.
 */
RP_PUBLIC int rp_provider_set_callback(struct rp_provider *provider, rp_provider_callback callback,
				       void *data);

/*
 * Return the name of a provider.
 *
 * Context: any.
 * Return: the name, which the provider owns.
 */
RP_PUBLIC const char *rp_provider_name(const struct rp_provider *provider);

/*
 * Compute the GUID by which tools identify a provider. Like EventSource, the function derives the
 * GUID from the name.
 * @name: the provider's name.
 *
 * Context: any.
 */
RP_PUBLIC void rp_guid_from_name(const char *name, struct rp_guid *ret_guid);

/*
 * A row of rp_enabled_list(): a provider and a session that enabled it. An exporter has a row like
 * a session, with its name, an id, and the keywords and level of the events that it enabled. For
 * the lost events of a session, see struct rp_session_stats. The strings are valid until the
 * callback returns.
 */
struct rp_enabled {
	uint32_t size;
	uint32_t event_count;		/* events of the provider that the session enabled */
	const char *provider;
	uint64_t session_id;		/* 0: no session or exporter enabled this provider */
	const char *session_name;	/* NULL if session_id is 0 */
	uint64_t keywords;
	uint8_t level;
	uint8_t reserved[7];
	const char *filter_data;	/* or NULL */
	uint64_t lost;			/* events of the provider that an exporter lost */
};

#define RP_ENABLED_SIZE_V1 RP_SIZE_THROUGH_(struct rp_enabled, lost)

/*
 * List the providers and the sessions that enabled them. The function calls `row` once for each
 * pair of a provider and a session, and once for each provider that no session enabled. The list
 * ends early if `row` returns a value other than 0.
 * @data: an argument for each call of `row`.
 *
 * Context: any thread, not a signal handler. The rows are a snapshot, and `row` runs without a
 * lock.
 * Return: 0; the value other than 0 that `row` returned; -ENOMEM if an allocation fails.
 */
RP_PUBLIC int rp_enabled_list(int (*row)(const struct rp_enabled *enabled, void *data), void *data);

/*
 * An event to which tracers of the kernel are attached. The strings are valid until the callback
 * returns.
 */
struct rp_traced {
	uint32_t size;
	uint32_t tracers;		/* the kernel's count: one for each attached probe */
	const char *provider;
	const char *event;
};

#define RP_TRACED_SIZE_V1 RP_SIZE_THROUGH_(struct rp_traced, event)

/*
 * List the events to which tracers of the kernel are attached.
 * @row: the function to call for each event; the list ends early if it returns other than 0.
 * @data: an argument for each call of it.
 *
 * Context, Return: as rp_enabled_list().
 */
RP_PUBLIC int rp_traced_list(int (*row)(const struct rp_traced *traced, void *data), void *data);

/*
 * Watch for tracers of the kernel. For the lifetime of the process, a separate thread checks every
 * `interval_ms` milliseconds whether the kernel attached or detached a tracer. Tracers receive
 * events without this function, because the kernel enables the events itself. With it, callbacks of
 * providers also report tracers, as one session called "tracers", and rp_event_enabled() includes
 * tracers of dynamic events, which are at the probe ringpipe:event. Another call changes the
 * interval.
 *
 * Context: any thread, not a signal handler or a callback.
 * Return: 0; -EINVAL if the interval is 0; -ENOSPC if there is no space for another exporter;
 * -ENOMEM if an allocation fails; -EAGAIN if a thread cannot be created.
 */
RP_PUBLIC int rp_tracers_watch(uint32_t interval_ms);

RP_END_DECLS

#endif
