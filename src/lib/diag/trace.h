/* SPDX-License-Identifier: MIT */
/* The sessions that clients of the DiagnosticServer have running. All calls from its thread. */
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
 * One session and the connection its stream goes to, or that says how long to write to the kernel's
 * user_events; or a flight recorder, which has none. A slot is free when id is 0.
 */
struct rp_trace {
	uint64_t id;
	struct rp_session *session;		/* one of the two */
	struct rp_user_events *user_events;
	int fd;			/* the server's own descriptor of the connection; -1: none */
	struct rp_file_id file;	/* what fd stands for */
	bool has_samples;	/* its first samples come before its end */
	uint64_t finish_ns;	/* asked to finish: then at the latest; 0: not asked */
	bool recorder;		/* overwrites, and outlives the client that began it */
	bool ended;		/* set by the drain thread */
};

struct rp_trace_table {
	size_t max;		/* no more sessions than this at once */
	struct rp_trace slots[RP_SESSIONS_MAX];
};

void rp_trace_table_init(struct rp_trace_table *table);

/*
 * Starts a session whose stream goes to a copy of `fd`, behind the OK reply with its id. After
 * success the trace owns fd; on failure nothing was sent and the caller still does. `peer` is named
 * in listings.
 *
 * Return: RP_HRESULT_OK; INVALID_ARGUMENT: the session refused what was asked; FAIL: too many
 * sessions for this process or its descriptors, no memory.
 */
enum rp_hresult rp_trace_open(struct rp_trace_table *table, const struct rp_collect *collect,
			      int fd, pid_t peer, struct rp_trace **ret_trace);

/*
 * The same for a session whose events go to `events_fd`, a file of the kernel's user_events, which
 * is its own from here on, also after failure. It lasts as long as the connection, on which the
 * caller still has to say OK.
 *
 * Return: as above; NOT_SUPPORTED: that is no such file.
 */
enum rp_hresult rp_trace_open_user_events(struct rp_trace_table *table,
					  const struct rp_collect *collect, int fd, int events_fd,
					  struct rp_trace **ret_trace);

/*
 * Starts a flight recorder: a session without a connection, which runs until a client or the
 * process ends it. There is one at a time. With `recoverable` its rings are files, in the
 * directory that is usual.
 *
 * Return: as above, `ret_error` then is -errno; INVALID_OPERATION: there is one.
 */
enum rp_hresult rp_trace_open_recorder(struct rp_trace_table *table,
				       const struct rp_collect *collect, bool recoverable,
				       struct rp_trace **ret_trace, int *ret_error);

/*
 * The same with a session whose output rolls at the path. Return: also FAIL, with -errno of what is
 * wrong there, or 0.
 */
enum rp_hresult rp_trace_open_rolling(struct rp_trace_table *table,
				      const struct rp_collect *collect, const char *path,
				      uint64_t quota_bytes, struct rp_trace **ret_trace,
				      int *ret_error);

/* The running recorder, or NULL. */
struct rp_trace *rp_trace_find_recorder(struct rp_trace_table *table);

/* The session's figures so far. Return: 0 or -errno. */
int rp_trace_stats(struct rp_trace *trace, struct rp_session_stats *ret_stats);

/* The trace with this id, or NULL. */
struct rp_trace *rp_trace_find(struct rp_trace_table *table, uint64_t id);

/* Asks the session to finish; `ended` is set when it has. */
void rp_trace_finish(struct rp_trace *trace);

/*
 * Ask the session to finish once its first samples are written, or after a second: dotnet-stack
 * stops its session after 10 ms.
 */
void rp_trace_stop(struct rp_trace *trace);

/* Finish the stopped traces that are due. Return: when to call again; UINT64_MAX: never. */
uint64_t rp_trace_finish_stopped(struct rp_trace_table *table, uint64_t now_ns);

/* A trace that has ended and was not yet closed, or NULL. */
struct rp_trace *rp_trace_next_ended(struct rp_trace_table *table);

/* Gives the session back, waiting for it if it has not ended. */
void rp_trace_join(struct rp_trace *trace);

/* After that, ends the connection, which is in no epoll set any more, and frees the slot. */
void rp_trace_close(struct rp_trace *trace);

#endif
