/* SPDX-License-Identifier: MIT */
/*
 * Providers: named groups of events that a session turns on together.
 */
#ifndef RINGPIPE_PROVIDER_H
#define RINGPIPE_PROVIDER_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/types.h>

/*
 * Declares a provider, in a file or in a header; `ident_provider()` is its struct rp_provider, for
 * the calls below. An executable or shared object that calls that, or uses an event or counter of
 * the provider, registers it when it is loaded; dlclose unregisters it.
 */
#define RP_PROVIDER(ident, name) RP_PROVIDER_EMIT_(ident, name)

RP_BEGIN_DECLS

struct rp_provider;

/*
 * The argument of a provider's callback, which is called when a session enables or disables the
 * provider. An exporter, which passes events to another tracer, enables events one by one. It
 * counts as a session with the keywords and level of those events, and each change is another call.
 */
struct rp_provider_state {
	uint32_t size;
	uint8_t enabled;		/* whether any session enabled the provider */
	uint8_t level;			/* the highest level of all sessions */
	uint16_t reserved;
	uint64_t keywords;		/* the keywords of all sessions */
	struct rp_guid source;		/* the session or exporter of this call */
	uint8_t source_enabled;		/* 1: it started, 0: it ended */
	uint8_t reserved2[7];
	const char *filter_data;	/* that session's arguments, "k=v;k2=v2", or NULL */
};

#define RP_PROVIDER_STATE_SIZE_V1 RP_SIZE_THROUGH_(struct rp_provider_state, filter_data)

/*
 * Context: the thread that starts or stops the session, or the drain thread when a session ends by
 * itself; for sessions of diagnostics clients and for exporters a thread of its own, all signals
 * masked. No lock of ringpipe is held. Calls for one provider come one at a time and in order. May
 * write events, start and stop sessions; must not dlopen or dlclose.
 */
typedef void (*rp_provider_callback)(struct rp_provider *provider,
				     const struct rp_provider_state *state, void *data);

/*
 * Create a provider. The name is copied; several providers may share one, and a session
 * that names it gets them all. Sessions that already want it enable it before this returns.
 * `callback` may be NULL.
 * @name: the name that sessions use.
 * @data: an argument for each call of `callback`.
 *
 * Context: any thread, not a signal handler; allocates; runs the callback when already wanted.
 * Return: 0; -EINVAL for a name that is empty, longer than RP_NAME_MAX or not UTF-8; -ENOMEM.
 */
RP_PUBLIC int rp_provider_create(const char *name, rp_provider_callback callback, void *data,
				 struct rp_provider **ret_provider);

/*
 * Destroy a provider made by rp_provider_create(), and its events. No thread may write them any
 * more. The call waits for a callback that runs in another thread.
 *
 * Context: any thread, not a signal handler.
 * Return: 0, also for NULL; -EDEADLK inside the provider's own callback; -EINVAL for a declared
 * provider; the provider is then unchanged.
 */
RP_PUBLIC int rp_provider_destroy(struct rp_provider *provider);

/*
 * Set or replace the callback of a declared provider. If the provider is enabled already, the
 * callback runs once for each session before this function returns.
 * @callback: the new callback; NULL: none.
 * @data: an argument for each call of it.
 *
 * Context: any thread, not a signal handler, not the provider's own callback.
 * Return: 0; -EINVAL: NULL; -EDEADLK in the provider's own callback.
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
 * Compute the GUID by which tools know a provider, from its name as EventSource does.
 * @name: the provider's name.
 *
 * Context: any.
 */
RP_PUBLIC void rp_guid_from_name(const char *name, struct rp_guid *ret_guid);

/*
 * A provider and a session that enabled it. An exporter has a row like a session, with its name and
 * an id, and the keywords and level of the events it enabled; a session's own losses are in its
 * struct rp_session_stats. Strings belong to the row and end with the call.
 */
struct rp_enabled {
	uint32_t size;
	uint32_t event_count;		/* events of the provider that this session gets */
	const char *provider;
	uint64_t session_id;		/* 0: no session or exporter enabled this provider */
	const char *session_name;	/* NULL then */
	uint64_t keywords;
	uint8_t level;
	uint8_t reserved[7];
	const char *filter_data;	/* or NULL */
	uint64_t lost;			/* events of the provider that an exporter could not take */
};

#define RP_ENABLED_SIZE_V1 RP_SIZE_THROUGH_(struct rp_enabled, lost)

/*
 * List the providers and the sessions that enabled them: `row` is called for each pair of them, and
 * once for each provider that no session enabled. The list ends early when `row` returns other than
 * 0.
 * @data: an argument for each call of `row`.
 *
 * Context: any thread, not a signal handler; the rows are a snapshot, `row` runs without a lock.
 * Return: 0; what `row` returned, unless 0; -ENOMEM.
 */
RP_PUBLIC int rp_enabled_list(int (*row)(const struct rp_enabled *enabled, void *data), void *data);

/* An event to which tracers of the kernel are attached. Strings end with the call. */
struct rp_traced {
	uint32_t size;
	uint32_t tracers;		/* the kernel's count: one per probe in use */
	const char *provider;
	const char *event;
};

#define RP_TRACED_SIZE_V1 RP_SIZE_THROUGH_(struct rp_traced, event)

/*
 * List the events with tracers of the kernel.
 * @row: the function to call for each event; the list ends early if it returns other than 0.
 * @data: an argument for each call of it.
 *
 * Context, Return: as rp_enabled_list().
 */
RP_PUBLIC int rp_traced_list(int (*row)(const struct rp_traced *traced, void *data), void *data);

/*
 * Watch for tracers of the kernel. A separate thread checks every `interval_ms` whether the kernel
 * attached or detached one, for the lifetime of the process. Tracers see events without this,
 * because the kernel enables the events itself. With it, providers' callbacks also see tracers, as
 * one session called "tracers", and rp_event_enabled() works for dynamic events, which tracers see
 * at the probe ringpipe:event. Another call changes the interval.
 *
 * Context: any thread, not a signal handler or a callback.
 * Return: 0; -EINVAL for an interval of 0; -ENOSPC, -ENOMEM, -EAGAIN: no space for another
 * exporter, its list, or its thread.
 */
RP_PUBLIC int rp_tracers_watch(uint32_t interval_ms);

RP_END_DECLS

#endif
