/* SPDX-License-Identifier: MIT */
/*
 * Sessions in all processes with a diagnostics socket, also in those that start later. A process of
 * its own runs them, because each session waits for its peer. At the end it writes one trace.
 */
#ifndef RP_RECORD_SESSIONS_H
#define RP_RECORD_SESSIONS_H

#include <ringpipe/session.h>

#include "tools/ringpipe/output.h"

struct rp_record_sessions {
	pid_t process;			/* 0: none runs */
	int spool_fd;			/* of the trace; -1: there is none */
};

/*
 * Start the process. The output is where the parts of the trace are stored: in its folder. Return:
 * 0; -errno.
 */
int rp_record_sessions_start(struct rp_record_sessions *sessions,
			     const struct rp_session_provider *providers, size_t provider_count,
			     const struct rp_output *output);

/* Stop all sessions, and wait for their trace. A session that does not end is cut after 20 s. */
void rp_record_sessions_stop(struct rp_record_sessions *sessions);

void rp_record_sessions_fini(struct rp_record_sessions *sessions);

#endif
