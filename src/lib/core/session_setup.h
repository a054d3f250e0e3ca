/* SPDX-License-Identifier: MIT */
/*
 * The internal interface of sessions: what the sinks, the diagnostics server and ringpipe.c need in
 * addition to ringpipe/session.h.
 */
#ifndef RP_CORE_SESSION_SETUP_H
#define RP_CORE_SESSION_SETUP_H

#include <stdbool.h>

#include <ringpipe/session.h>

#include "core/sink.h"

/* Maximum number of providers of a session. */
#define RP_SESSION_PROVIDERS_MAX 1000u

/*
 * The time for which writers wait for space if a request for a blocking session states none, as
 * settings and clients of .NET do. A finishing session waits as long for a peer that reads nothing.
 */
#define RP_BLOCK_MS 2000u

struct rp_session_setup {
	const struct rp_session_options *options;
	struct rp_sink *sink;		/* owned by the session after success */
	uint64_t id;			/* from rp_session_next_id(), or 0 */
	uint32_t sample_interval_ns;	/* reported in the stream */
	uint32_t format;		/* of the stream, for its snapshots */
	bool callbacks_async;		/* providers' callbacks run on a separate thread */
	/*
	 * Selects events of the providers. NULL: all events that the options select. The engine's
	 * lock is held during the call.
	 */
	bool (*wants)(const struct rp_event_def *def, const void *data);
	const void *wants_data;		/* valid as long as the session */
	/* Writers visit this session before the new one; or NULL. */
	const struct rp_session *after;
	/*
	 * Called once on the drain thread when the session has ended, by request or by itself. It
	 * must not block. The session still must be passed to rp_session_stop(). May be NULL.
	 */
	void (*on_end)(struct rp_session *session, void *data);
	void *data;
};

/*
 * Copy one element of a caller's array of providers. The `size` of the first element is the
 * distance between elements. It may differ from the size in this version of the library.
 *
 * Return: 0; -EINVAL: the element's `size` differs from that of the first element, is below the
 * struct's first version, or the element has nonzero bytes that this version does not know.
 */
int rp_session_provider_at(const struct rp_session_provider *providers, size_t index,
			   struct rp_session_provider *ret_provider);

/* Return an id that no other session of this process has. It is never 0. */
uint64_t rp_session_next_id(void);

/* As rp_session_start(), with a sink of the caller. On failure the caller still owns the sink. */
int rp_session_open(const struct rp_session_setup *setup, struct rp_session **ret_session);

/*
 * Replace the session's providers; with a count of 0, the session has none. The callbacks of
 * providers see the session end and start again.
 *
 * Return: 0; -EINVAL, -ENOMEM: as rp_session_open(); -EPIPE: the session is not running.
 */
int rp_session_set_providers(struct rp_session *session,
			     const struct rp_session_provider *providers, size_t count);

/* Mark the calling thread: from now on it runs a listener's callback. */
void rp_session_begin_listening(void);

/*
 * Disable the session's events and request its end from the drain thread, without waiting. on_end
 * reports the end; rp_session_stop() then returns immediately. May be called more than once.
 */
void rp_session_finish(struct rp_session *session);

/* As rp_session_finish(), but events not delivered yet are lost and counted as `sink`. */
void rp_session_discard(struct rp_session *session);

/*
 * Complete all running sessions at the end of the process, so that files and streams have their
 * ends. Waits for the drain thread, until the last deadline at most. Sessions of listeners are left
 * alone.
 */
void rp_sessions_finish_all(void);

/* Totals over all sessions since the start of the process. */
struct rp_totals {
	uint64_t delivered, lost;
	uint64_t memory_bytes;		/* of sessions that exist now */
	uint64_t lag_ns;		/* since the drain thread's last pass; 0: no session runs */
};

void rp_sessions_total(struct rp_totals *ret_totals);

/*
 * Register `changed`, which is called after a session has started, and after the events of a
 * session were disabled. A process has one such function, set while the library is loaded. Context
 * of `changed`: any thread, the drain thread included, without a lock; it must not block.
 */
void rp_core_watch(void (*changed)(void));

/* The arguments that a running session passes to a provider. */
struct rp_request {
	uint64_t session_id;
	const char *provider;		/* or "*" */
	const char *filter_data;
};

/*
 * Return the requests of all running sessions, in the order of the sessions. They are one
 * allocation, which the caller passes to free(3). Return: 0; -ENOMEM: no memory.
 */
int rp_requests_get(struct rp_request **ret_requests, size_t *ret_count);

uint64_t rp_session_id(const struct rp_session *session);

#endif
