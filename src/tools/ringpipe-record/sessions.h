/* SPDX-License-Identifier: MIT */
/*
 * Sessions in all processes with a diagnostics socket, also in those that start later. A process of
 * its own runs them, because each session waits for its peer. It merges their streams with the
 * machine's trace, and writes the output.
 */
#ifndef RP_RECORD_SESSIONS_H
#define RP_RECORD_SESSIONS_H

#include <ringpipe/session.h>

#include "tools/trace/event_expression.h"
#include "tools/trace/output.h"
#include "tools/client/proc.h"
#include "tools/client/recording.h"
#include "tools/ringpipe-record/stop_requests.h"

/* The providers to record, for processes of each kind; for free(). */
struct rp_record_providers {
	struct rp_session_provider *own, *dotnet;	/* with libringpipe; of .NET */
	size_t own_count, dotnet_count;
	struct rp_provider_search *search;		/* for those of `own`; or NULL */
};

/*
 * Parse --providers, or the default, and create the search for providers that no process has.
 * Return: 0; -errno, reported.
 */
int rp_record_providers_parse(const struct rp_tool_options *options,
			      struct rp_record_providers *ret_providers);
void rp_record_providers_fini(struct rp_record_providers *providers);

/* The processes that get sessions. */
struct rp_record_scope {
	struct rp_proc_roots roots;
	struct rp_proc_filter filter;
	struct rp_expression *until;		/* of an event to report; or NULL */
};

/* The report of the sessions' process, in memory that it shares with the recorder. */
struct rp_record_sessions_report {
	struct rp_recording_progress progress;
	uint64_t events, lost;		/* at the end */
	struct rp_loss_worst losses;	/* of `lost`, the largest with a reason */
	bool has_ended;			/* so `events` and `lost` are known */
	bool is_written;		/* the trace has its end */
};

struct rp_record_sessions {
	pid_t process;			/* 0: none runs */
	int begin_fd;			/* the process waits for a byte from it; or -1 */
	bool is_cut;			/* a request came not to wait for the streams' ends */
	struct rp_record_sessions_report *report;	/* NULL: none was started */
};

/*
 * Start the process, which waits for rp_record_sessions_begin(). It must not inherit what the
 * recorder opens, because BPF programs stay attached as long as a process has their descriptors.
 * `machine_fd`: a file into which the caller writes the machine's trace; the
 * process writes it, with the events of all sessions, into the output. Return: 0; -errno.
 */
int rp_record_sessions_start(struct rp_record_sessions *sessions,
			     const struct rp_record_providers *providers,
			     const struct rp_record_scope *scope,
			     int machine_fd, struct rp_output *output);

/* Open the sessions. */
void rp_record_sessions_begin(struct rp_record_sessions *sessions);

/* Whether the process ended by itself, for example without memory; that was reported. */
bool rp_record_sessions_failed(struct rp_record_sessions *sessions);

/* Return: -errno of a failed write to the output, which the caller reports; 0: none failed. */
int rp_record_sessions_error(const struct rp_record_sessions *sessions);

/* Whether the losses of all sessions are known: none was started, or the process counted them. */
bool rp_record_sessions_has_losses(const struct rp_record_sessions *sessions);

/*
 * Stop all sessions, and wait until the output is complete. A session that does not end is cut
 * after 20 s, at the second request, or at a request after the message that says so. Return: 0;
 * rp_record_sessions_error(); -ECANCELED: the output lacks its end, which the process reported.
 */
int rp_record_sessions_stop(struct rp_record_sessions *sessions,
			    struct rp_stop_requests *requests);

void rp_record_sessions_fini(struct rp_record_sessions *sessions,
			     struct rp_stop_requests *requests);

#endif
