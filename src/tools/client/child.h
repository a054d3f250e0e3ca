/* SPDX-License-Identifier: MIT */
/* A command that `ringpipe` starts and traces from its start. */
#ifndef RP_TOOL_CHILD_H
#define RP_TOOL_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "tools/cli/signals.h"
#include "tools/client/port.h"
#include "tools/client/target.h"

struct rp_child {
	struct rp_tool_port port;	/* the command finds it in its environment */
	int signal_fd;
	struct rp_stop_signal last_signal;
	pid_t pid;
	bool ended;
	bool resumed;
	int status;			/* after the end: the exit status, or 128 + signal */
};

/*
 * Starts the command. `prints_to_stderr`: its standard output is that of standard error, because
 * this process writes a trace to its own standard output.
 * Return: 0; -errno, after an error line on stderr.
 */
int rp_child_start(struct rp_child *child, char *const *arguments, bool prints_to_stderr);
/* Releases the child, also after a failed rp_child_start(). */
void rp_child_fini(struct rp_child *child);

/*
 * Waits until the command, or a process that it started, has connected to the port. Meanwhile
 * passes signals on. Return: 0; -ECHILD if the command ended before.
 */
int rp_child_await(struct rp_child *child);

/* Resumes the process that connected and waits for this reply. Later calls do nothing. */
void rp_child_resume(struct rp_child *child, const struct rp_target *target);

/* Waits until the command ends, and passes signals on. */
void rp_child_wait(struct rp_child *child);

/*
 * Reads the pending signals and passes those for the command on. Return: the number of requests to
 * stop that came after the end of the command; these are for `ringpipe` itself.
 */
unsigned int rp_child_signals(struct rp_child *child);

#endif
