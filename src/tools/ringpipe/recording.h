/* SPDX-License-Identifier: MIT */
/* A session in another process, streamed into a file. */
#ifndef RP_TOOL_RECORDING_H
#define RP_TOOL_RECORDING_H

#include <ringpipe/session.h>

#include "tools/ringpipe/child.h"
#include "tools/ringpipe/output.h"
#include "tools/ringpipe/target.h"
#include "ipc/message.h"

/*
 * The providers in the options, or all; for free(). Return: 0; -errno, reported as wrong usage of
 * the command.
 */
int rp_recording_providers(const struct rp_tool_options *options, const char *command,
			   struct rp_session_provider **ret_providers, size_t *ret_count);

/*
 * Check that the process has each of them, unless the options allow it not to. Return: 0; -ENOENT,
 * after an error line with the providers that exist.
 */
int rp_recording_check_providers(const struct rp_tool_options *options,
				 const struct rp_target *target,
				 const struct rp_session_provider *providers, size_t count);

struct rp_recording_plan {
	const struct rp_target *target;
	struct rp_child *child;		/* the command that led to the target; or NULL */
	int signal_fd;			/* of rp_signals_open(), the caller's; 0: none */
	const struct rp_session_provider *providers;
	size_t provider_count;
	uint32_t buffer_mb;
	uint32_t block_ms;		/* writers wait for room; 0: they do not */
	bool coarse;			/* times of a clock that moves now and then */
	bool stacks;
	bool rundown;			/* names of what stacks hold, at the end */
	bool live;			/* show a line that counts */
	bool tree;			/* for rp_tree_run() */
	int begun_fd;			/* gets a 'b' when the session has begun; 0: none */
	uint64_t duration_ms;		/* 0: until a signal */
};

/* How it ended. Everything but FAILED leaves a file to look at. */
enum rp_recording_end {
	RP_RECORDING_FAILED,		/* before the first byte; said on stderr */
	RP_RECORDING_STOPPED,		/* by us, and drained */
	RP_RECORDING_PEER_ENDED,	/* the stream ended by itself: process gone, or session */
	RP_RECORDING_OUTPUT_FAILED,	/* disk full: said */
	RP_RECORDING_STREAM_FAILED,	/* the connection broke, or stop led to nothing: said */
	RP_RECORDING_GAVE_UP,		/* second Ctrl-C: said */
};

struct rp_recording_result {
	enum rp_recording_end end;
	uint64_t bytes;
	int64_t elapsed_ms;
	bool cut;			/* of a tree: a part stops before its end, which was said */
};

/*
 * Runs a session to its end. The first SIGINT, SIGTERM or SIGHUP stops it. After a second one the
 * function returns immediately, and the trace may be incomplete. With a command (plan->child), the
 * function lets the command start when the session has begun; while the command runs, signals are
 * passed on to it and do not stop the session.
 */
void rp_recording_run(const struct rp_recording_plan *plan, struct rp_output *output,
		      struct rp_recording_result *ret_result);

#endif
