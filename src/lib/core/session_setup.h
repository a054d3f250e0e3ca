/* SPDX-License-Identifier: MIT */
/*
 * Sessions, from inside: what the sinks, the DiagnosticServer and the front door need beyond
 * ringpipe/session.h.
 */
#ifndef RP_CORE_SESSION_SETUP_H
#define RP_CORE_SESSION_SETUP_H

#include <stdbool.h>

#include <ringpipe/session.h>

#include "core/sink.h"

/* The most providers that a session names. */
#define RP_SESSION_PROVIDERS_MAX 1000u

/*
 * How long writers wait for room where who wants them to cannot say it: as long as a peer may take
 * nothing at the end.
 */
#define RP_BLOCK_MS 2000u

struct rp_session_setup {
	const struct rp_session_options *options;
	struct rp_sink *sink;		/* owned by the session after success */
	uint64_t id;			/* from rp_session_next_id(), or 0 */
	uint32_t sample_interval_ns;	/* as in the stream */
	uint32_t format;		/* of the stream, for its snapshots */
	bool callbacks_async;		/* callbacks run on their own thread */
	/*
	 * Selects events of the providers; NULL: all that the options select. Called with the
	 * engine's lock held.
	 */
	bool (*wants)(const struct rp_event_def *def, const void *data);
	const void *wants_data;		/* as long as the session */
	/* An event that both get is in this one's rings first; or NULL. */
	const struct rp_session *behind;
	/* Runs once on the drain thread when the session has ended, by request or by itself. Must
	 * not block; the session still has to be given to rp_session_stop(). May be NULL. */
	void (*on_end)(struct rp_session *session, void *data);
	void *data;
};

/*
 * One of the providers that a caller names. The size is the same for all of them, and may differ
 * from the library's own.
 * Return: 0; -EINVAL.
 */
int rp_session_provider_at(const struct rp_session_provider *providers, size_t index,
			   struct rp_session_provider *ret_provider);

/* An id no other session of this process has; never 0. */
uint64_t rp_session_next_id(void);

/* As rp_session_start(), with a sink of the caller's. On failure the caller still owns the sink. */
int rp_session_open(const struct rp_session_setup *setup, struct rp_session **ret_session);

/*
 * Replaces the session's providers; with a count of 0, it has none. Providers' callbacks see the
 * session end and start again.
 *
 * Return: 0; -EINVAL and -ENOMEM as rp_session_open(); -EPIPE for a session that does not run.
 */
int rp_session_set_providers(struct rp_session *session,
			     const struct rp_session_provider *providers, size_t count);

/* The calling thread runs a listener's callback from here on. */
void rp_session_begin_listening(void);

/*
 * Turns the session's events off and asks the drain thread to finish it; does not wait. on_end
 * reports the end; rp_session_stop() then returns immediately. May be called more than once.
 */
void rp_session_finish(struct rp_session *session);

/* As finish, but what was not delivered yet is lost, and counted as the sink's. */
void rp_session_discard(struct rp_session *session);

/*
 * At the end of the process: completes what still runs, so that files and streams have their end.
 * Waits for the drain thread, at most until the last deadline. Sessions of listeners are left
 * alone.
 */
void rp_sessions_finish_all(void);

/* All sessions that ever were. */
struct rp_totals {
	uint64_t delivered, lost;
	uint64_t memory_bytes;		/* of those that run */
	uint64_t lag_ns;		/* since the drain thread last looked; 0: nothing runs */
};

void rp_sessions_total(struct rp_totals *ret_totals);

/*
 * Have `changed` called after a session began, and after the events of one were turned off. One
 * watcher per process; set while the library is loaded. Context of `changed`: any thread, the drain
 * thread included, without a lock; must not block.
 */
void rp_core_watch(void (*changed)(void));

/* The arguments that a running session passes to a provider. */
struct rp_request {
	uint64_t session_id;
	const char *provider;		/* or "*" */
	const char *filter_data;
};

/* All of them, in the order of the sessions; one allocation, for free(). Return: 0 or -ENOMEM. */
int rp_requests_get(struct rp_request **ret_requests, size_t *ret_count);

uint64_t rp_session_id(const struct rp_session *session);

#endif
