/* SPDX-License-Identifier: MIT */
/*
 * Providers: named groups of events that a session turns on together.
 */
#ifndef RINGPIPE_PROVIDER_H
#define RINGPIPE_PROVIDER_H

#include <ringpipe/detail/declare.h>
#include <ringpipe/types.h>

/*
 * Declares a provider, in a file or in a header; registered when the object is loaded, taken back
 * by dlclose. `ident_provider()` is its struct rp_provider, for the calls below.
 */
#define RP_PROVIDER(ident, name) RP_PROVIDER_EMIT_(ident, name)

RP_BEGIN_DECLS

struct rp_provider;

/*
 * What a provider is told when somebody starts or stops to listen. Another tracer that our events
 * are handed to, an exporter, enables events one by one: it counts as a session whose keywords and
 * level are those of the events, and is told again when they change.
 */
struct rp_provider_state {
	uint32_t size;
	uint8_t enabled;		/* whether anyone listens, all sessions taken together */
	uint8_t level;			/* the highest any session wants */
	uint16_t reserved;
	uint64_t keywords;		/* what any session wants */
	struct rp_guid source;		/* the session or exporter this call is about */
	uint8_t source_enabled;		/* 1: that session began, 0: it ended */
	uint8_t reserved2[7];
	const char *filter_data;	/* that session's arguments, "k=v;k2=v2", or NULL */
};

/*
 * Context: the thread that starts or stops the session, or the drain thread when a session ends by
 * itself; for sessions of diagnostics clients and for exporters a thread of its own, all signals
 * masked. No lock of ringpipe is held. Calls for one provider come one at a time and in order. May
 * write events, start and stop sessions; must not dlopen or dlclose.
 */
typedef void (*rp_provider_callback)(struct rp_provider *provider,
				     const struct rp_provider_state *state, void *data);

/*
 * Makes a provider at run time. The name is copied; several providers may share one, and a session
 * that names it gets them all. Sessions that already want it enable it before this returns.
 * `callback` may be NULL.
 *
 * Context: any thread, not a signal handler; allocates; runs the callback when already wanted.
 * Return: 0; -EINVAL for a name that is empty, longer than RP_NAME_MAX or not UTF-8; -ENOMEM.
 */
RP_PUBLIC int rp_provider_create(const char *name, rp_provider_callback callback, void *data,
				 struct rp_provider **ret_provider);

/*
 * Takes a provider made by rp_provider_create() back, and its events. No thread may write them any
 * more. Waits for a callback that runs in another thread.
 *
 * Context: any thread, not a signal handler.
 * Return: 0, also for NULL; -EDEADLK inside the provider's own callback, -EINVAL for a declared
 * provider; the provider is then unchanged.
 */
RP_PUBLIC int rp_provider_destroy(struct rp_provider *provider);

/*
 * Sets the callback of a declared provider, or another one than before. When the provider is
 * enabled already the callback is run once for each session, before this returns.
 *
 * Context: any thread, not a signal handler, not the provider's own callback (-EDEADLK).
 */
RP_PUBLIC int rp_provider_set_callback(struct rp_provider *provider, rp_provider_callback callback,
				       void *data);

/* The name; belongs to the provider. */
RP_PUBLIC const char *rp_provider_name(const struct rp_provider *provider);

/* The GUID tools know the provider by: the EventSource hash of its name. Context: any. */
RP_PUBLIC void rp_guid_from_name(const char *name, struct rp_guid *ret_guid);

/*
 * One row of the listing: who enabled what. An exporter has the row of a session, with its name and
 * an id, the keywords and level of the events it enabled; a session's own losses are in its
 * struct rp_session_stats. Strings belong to the row and end with the call.
 */
struct rp_enabled {
	uint32_t size;
	uint32_t event_count;		/* events of the provider that this session gets */
	const char *provider;
	uint64_t session_id;		/* 0: nobody enabled this provider */
	const char *session_name;
	uint64_t keywords;
	uint8_t level;
	uint8_t reserved[7];
	const char *filter_data;	/* or NULL */
	const char *event;		/* one that the kernel counts tracers of, or NULL */
	uint32_t tracers;		/* as it counts: all that use the same probe are one */
	uint32_t reserved2;
	uint64_t lost;			/* events of the provider that an exporter could not take */
};

/*
 * Calls `row` once for each pair of a provider and a session that enabled it; with session_id 0,
 * once for each event with tracers of the kernel's, and once for each provider that has neither.
 * Stops when `row` returns other than 0.
 *
 * Context: any thread, not a signal handler; the rows are a snapshot, `row` runs without a lock.
 * Return: 0, what `row` returned, or -ENOMEM.
 */
RP_PUBLIC int rp_enabled_list(int (*row)(const struct rp_enabled *enabled, void *data), void *data);

/*
 * Looks every `interval_ms` for tracers that the kernel attached to events or took away, on a
 * thread made for that, as long as the process lives. Tracers see events without this, since the
 * kernel itself turns them on. With it providers' callbacks hear of them, as of one session called
 * "tracers", and so does rp_event_enabled() of events made at run time, which tracers see at the
 * probe ringpipe:event. Called again, it changes the interval.
 *
 * Context: any thread, not a signal handler or a callback.
 * Return: 0; -EINVAL for an interval of 0; -ENOSPC, -ENOMEM, -EAGAIN: no room for one more
 * exporter, its list, or its thread.
 */
RP_PUBLIC int rp_tracers_watch(uint32_t interval_ms);

RP_END_DECLS

#endif
