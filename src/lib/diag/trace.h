/* SPDX-License-Identifier: MIT */
/* The running sessions of the DiagnosticServer's clients. Context: the server's thread. */
#ifndef RP_DIAG_TRACE_H
#define RP_DIAG_TRACE_H

#include <stdbool.h>
#include <sys/types.h>

#include <ringpipe/session.h>

#include "base/file.h"
#include "diag/collect_command.h"
#include "ipc/message.h"
#include "export/user_events.h"

/*
 * A session and its connection. The connection carries the stream; or, for a session that writes to
 * the kernel's user_events, its end ends the session; a flight recorder has none. A slot is free if
 * id is 0.
 */
struct rp_trace {
	uint64_t id;
	struct rp_session *session;		/* one of the two is set */
	struct rp_user_events *user_events;
	int fd;			/* the server's descriptor of the connection; -1: none */
	struct rp_file_id file;	/* identity of the file behind fd */
	bool has_samples;	/* its first samples must be written before its end */
	uint64_t finish_ns;	/* latest time of a delayed finish; 0: no stop requested */
	bool reports_missing;	/* it reports missing providers, once start-up continues */
	bool recorder;		/* independent of the client that started it: overwrites or rolls */
	bool ended;		/* set by the session's thread or the drain thread */
};

struct rp_trace_table {
	size_t max;		/* maximum number of simultaneous sessions */
	struct rp_trace slots[RP_SESSIONS_MAX];
};

void rp_trace_table_init(struct rp_trace_table *table);

/*
 * Start a session whose stream goes to a copy of `fd`, after the OK reply with its id. After
 * success the trace owns fd; on failure nothing was sent and the caller still owns fd. Listings
 * show `peer`.
 *
 * Return: RP_HRESULT_OK; INVALID_ARGUMENT: the session refused the arguments; FAIL: too many
 * sessions for this process or its descriptors, no memory.
 */
enum rp_hresult rp_trace_open(struct rp_trace_table *table, const struct rp_collect *collect,
			      int fd, pid_t peer, struct rp_trace **ret_trace);

/*
 * As rp_trace_open(), for a session that writes its events to `events_fd`, a file of the kernel's
 * user_events. The function takes ownership of `events_fd`, also on failure. The session lasts as
 * long as the connection, on which the caller still has to send OK.
 *
 * Return: as above; NOT_SUPPORTED: the descriptor is no such file.
 */
enum rp_hresult rp_trace_open_user_events(struct rp_trace_table *table,
					  const struct rp_collect *collect, int fd, int events_fd,
					  struct rp_trace **ret_trace);

/*
 * Start a flight recorder: a session without a connection, which runs until a client or the process
 * ends it. Only one can run at a time. If `recoverable`, its rings are files in the default
 * directory.
 *
 * Return: as above, with -errno in `ret_error`; INVALID_OPERATION: a recorder is running.
 */
enum rp_hresult rp_trace_open_recorder(struct rp_trace_table *table,
				       const struct rp_collect *collect, bool recoverable,
				       struct rp_trace **ret_trace, int *ret_error);

/*
 * As above, for a session that rolls its output at the path. Return: also FAIL, with the -errno of
 * the output in `ret_error`, or 0.
 */
enum rp_hresult rp_trace_open_rolling(struct rp_trace_table *table,
				      const struct rp_collect *collect, const char *path,
				      uint64_t quota_bytes, struct rp_trace **ret_trace,
				      int *ret_error);

/* Return: the running recorder, or NULL. */
struct rp_trace *rp_trace_find_recorder(struct rp_trace_table *table);

/*
 * Start-up continues: make the sessions with `reports_missing` write an event ProviderMissing for
 * each provider that they request and that does not register within a second.
 */
void rp_trace_watch_missing(struct rp_trace_table *table);

/* Get the current statistics of the session. Return: 0 or -errno. */
int rp_trace_stats(struct rp_trace *trace, struct rp_session_stats *ret_stats);

/* Return: the trace with this id, or NULL. */
struct rp_trace *rp_trace_find(struct rp_trace_table *table, uint64_t id);

/* Request the end of the session; `ended` is set when it has ended. */
void rp_trace_finish(struct rp_trace *trace);

/*
 * Finish the session once its first samples are written, or after a second: dotnet-stack stops its
 * session after 10 ms.
 */
void rp_trace_stop(struct rp_trace *trace);

/* Finish the stopped traces that are due. Return: time of the next call; UINT64_MAX: never. */
uint64_t rp_trace_finish_stopped(struct rp_trace_table *table, uint64_t now_ns);

/* Return: a trace that has ended and is not closed yet, or NULL. */
struct rp_trace *rp_trace_next_ended(struct rp_trace_table *table);

/* Stop the session, waiting for its end if necessary. */
void rp_trace_join(struct rp_trace *trace);

/*
 * Call after rp_trace_join(): close the connection, which is in no epoll set any more, and free the
 * slot.
 */
void rp_trace_close(struct rp_trace *trace);

#endif
