/* SPDX-License-Identifier: MIT */
/*
 * A diagnostic port of `ringpipe` itself: a command that `ringpipe` starts finds the port in its
 * environment, connects, identifies itself (ipc-protocol.md in dotnet/diagnostics, "Advertise"),
 * and waits at its start until it is resumed.
 *
 * The first runtime that connects is traced. Others, from child processes or from a second runtime
 * in the process, are resumed immediately and not traced.
 */
#ifndef RP_TOOL_PORT_H
#define RP_TOOL_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RP_PORT_OTHERS_MAX 16u

struct rp_runtime {
	uint8_t cookie[16];		/* identifies the process */
	int fd;				/* the connection that waits for a command; or -1 */
};

struct rp_tool_port {
	char *path;
	int fd;
	pid_t pid;			/* of the runtime to trace; 0: none has connected */
	struct rp_runtime runtime;
	struct rp_runtime others[RP_PORT_OTHERS_MAX];
	size_t next_other;		/* the slot that the next one reuses */
};

/*
 * Listens in a new directory in $TMPDIR or /tmp. Return: 0; -errno, after an error line on stderr.
 */
int rp_tool_port_open(struct rp_tool_port *port);
void rp_tool_port_close(struct rp_tool_port *port);

/*
 * Accepts pending connections, and closes those of processes that are not descendants. Does not
 * wait for connections, but waits up to 250 ms for the message on each.
 */
void rp_tool_port_accept(struct rp_tool_port *port);

/*
 * Take the connection of the runtime to trace, for one command. The caller then owns it. Return:
 * the descriptor; -EAGAIN if the runtime has not connected (again) yet.
 */
int rp_tool_port_take(struct rp_tool_port *port);

#endif
