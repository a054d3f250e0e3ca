/* SPDX-License-Identifier: MIT */
/* A command that is traced from its start. */
#ifndef RP_TOOL_CHILD_H
#define RP_TOOL_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "tools/ringpipe/port.h"
#include "tools/ringpipe/target.h"

struct rp_child {
	struct rp_tool_port port;	/* that it finds in its environment */
	int signal_fd;
	pid_t pid;
	bool ended;
	bool resumed;
	int status;			/* once it ended: its exit status, or 128 + signal */
};

/* Starts the command. Return: 0; -errno, said on stderr. */
int rp_child_start(struct rp_child *child, char *const *arguments);
/* After a failed start, too. */
void rp_child_fini(struct rp_child *child);

/*
 * Waits until it, or what it has started, connected to the port, passing on signals.
 * Return: 0; -ECHILD: it ended before.
 */
int rp_child_await(struct rp_child *child);

/* Lets what connected go on with its start; once. */
void rp_child_resume(struct rp_child *child, const struct rp_target *target);

/* Waits until it ends, passing on signals. */
void rp_child_wait(struct rp_child *child);

/*
 * Takes the signals that came. Those for the command are passed on; Return: how many came when it
 * had ended already, which are for us.
 */
unsigned int rp_child_signals(struct rp_child *child);

#endif
