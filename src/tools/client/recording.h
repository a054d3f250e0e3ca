/* SPDX-License-Identifier: MIT */
/* A session in another process, streamed into a file. */
#ifndef RP_TOOL_RECORDING_H
#define RP_TOOL_RECORDING_H

#include <ringpipe/session.h>

#include "tools/client/child.h"
#include "tools/trace/loss_table.h"
#include "tools/trace/output.h"
#include "tools/client/proc.h"
#include "tools/client/provider_search.h"
#include "tools/client/target.h"
#include "ipc/message.h"

/*
 * Parse a list of providers, in the form of the option --providers. `ret_providers` is for free().
 * Return: 0; -errno, reported as wrong usage of the command.
 */
int rp_recording_providers_parse(const char *list, const char *command,
				 struct rp_session_provider **ret_providers, size_t *ret_count);

/*
 * Parse the providers in the options; the default is all. `ret_providers` is for free(). Return: 0;
 * -errno, reported as wrong usage of the command.
 */
int rp_recording_providers(const struct rp_tool_options *options, const char *command,
			   struct rp_session_provider **ret_providers, size_t *ret_count);

/*
 * Check that the process has each of the providers, unless the options permit missing ones. Return:
 * 0; -ENOENT, after an error line with the providers that exist.
 */
int rp_recording_check_providers(const struct rp_tool_options *options,
				 const struct rp_target *target,
				 const struct rp_session_provider *providers, size_t count);
/* The same: each provider must be in one of several processes. `pid`: for the error line. */
int rp_recording_check_any(const struct rp_tool_options *options, const struct rp_target *targets,
			   size_t target_count, pid_t pid,
			   const struct rp_session_provider *providers, size_t count);

/*
 * Create a search for the providers that the options name, unless the options permit missing ones;
 * then, and with the default, *ret_search becomes NULL. Return: 0; -errno, after an error line.
 */
int rp_recording_search_providers(const struct rp_tool_options *options, const char *command,
				  const struct rp_session_provider *providers, size_t count,
				  struct rp_provider_search **ret_search);

/* The name of a provider of an array `data`, for rp_providers_check(). */
const char *rp_recording_provider_name(size_t i, void *data);

/* Whether one of the providers samples stacks, even if the options request none. */
bool rp_recording_has_sampler(const struct rp_session_provider *providers, size_t count);

/* The progress of a recording of the machine, in memory that processes share. */
struct rp_recording_progress {
	volatile uint64_t events;	/* of processes, written so far */
	volatile uint64_t lost;		/* likewise: counted so far */
	volatile uint64_t cpu_ns;	/* used by this process and those that it started */
	volatile bool has_until;	/* an event fulfilled the plan's condition */
	volatile int error;		/* -errno of a write; the caller reports it, and stops */
	volatile bool has_request;	/* set by the caller: a signal caused the stop */
};

struct rp_recording_plan {
	const struct rp_target *target;
	struct rp_child *child;		/* the started command; NULL: the target already ran */
	int signal_fd;			/* of rp_signals_open(), the caller's; 0: none */
	const struct rp_session_provider *providers;
	size_t provider_count;
	const struct rp_session_provider *dotnet_providers;	/* of a tree, for .NET's runtimes */
	size_t dotnet_provider_count;	/* 0: the same as for the others */
	uint32_t buffer_mb;
	uint32_t format;		/* version of nettrace: 6; otherwise 4 */
	uint32_t block_ms;		/* how long writers wait for space; 0: they do not */
	bool coarse;			/* times of a clock that advances in steps */
	bool stacks;
	bool rundown;			/* names for the addresses in stacks, at the end */
	bool live;			/* draw a progress line */
	bool tree;			/* for rp_tree_run() */
	bool machine;			/* likewise: all processes, and no target */
	struct rp_proc_roots roots;	/* of `machine`: only these and their descendants */
	struct rp_proc_filter filter;	/* likewise */
	int machine_fd;			/* of a file that gets the machine's own trace */
	struct rp_expression *until;		/* likewise: to watch for; or NULL */
	struct rp_recording_progress *progress;	/* likewise: what to keep up to date */
	bool report_missing;		/* of a command: providers that it lacks */
	struct rp_provider_search *search;	/* of a command for many processes; or NULL */
	int begun_fd;			/* gets a 'b' when the session has begun; 0: none */
	uint64_t duration_ms;		/* 0: until a signal */
};

/* How the recording ended. All but FAILED leave a file with data. */
enum rp_recording_end {
	RP_RECORDING_FAILED,		/* before the first byte; reported on stderr */
	RP_RECORDING_STOPPED,		/* by this command, and complete */
	RP_RECORDING_PEER_ENDED,	/* the process or the session ended */
	RP_RECORDING_OUTPUT_FAILED,	/* for example a full disk; reported */
	RP_RECORDING_STREAM_FAILED,	/* the connection failed, or stop had no effect; reported */
	RP_RECORDING_GAVE_UP,		/* second Ctrl-C; reported */
	RP_RECORDING_CANCELLED,		/* the output's reader left, or stopped reading; reported */
};

struct rp_recording_result {
	enum rp_recording_end end;
	uint64_t bytes;
	int64_t elapsed_ms;
	bool missing;			/* the command lacks a provider, which was reported */
	bool cut;			/* of a tree: a part is incomplete, which was reported */
	uint64_t events, lost;		/* of a tree */
	struct rp_loss_worst losses;	/* of `lost`, the largest with a reason */
};

/*
 * Runs a session to its end. The first SIGINT, SIGTERM or SIGHUP stops it, and then a reader of the
 * output that reads nothing for two seconds ends it, too. After a second signal the function
 * returns immediately, and the trace may be incomplete. With a command (plan->child), the
 * function resumes the command when the session has begun. While the command runs, the function
 * passes signals on to it, and they do not stop the session.
 */
void rp_recording_run(const struct rp_recording_plan *plan, struct rp_output *output,
		      struct rp_recording_result *ret_result);

#endif
