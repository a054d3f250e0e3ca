/* SPDX-License-Identifier: MIT */
/*
 * Finds processes that can be traced, as .NET's tools find them: by the names of sockets, ${TMPDIR
 * or /tmp}/dotnet-diagnostic-{pid}-{start time}-socket, checked against /proc.
 *
 * * A process in another namespace or with another root is found by the same rule from its own
 *   point of view, in /proc/{pid}/root.
 * * A process with another TMPDIR is found by its environment, and by /proc/net/unix.
 * * If libringpipe left that name to a .NET runtime in its process, its own socket's name begins
 *   with "ringpipe". The pid then has two targets, and a pid on the command line means
 *   libringpipe's.
 */
#ifndef RP_TOOL_TARGET_H
#define RP_TOOL_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/cli/tool.h"

struct rp_tool_port;

struct rp_target {
	pid_t pid;
	uid_t uid;
	uint64_t start_time;		/* field 22 of /proc/PID/stat */
	char *path;			/* of the socket */
	bool is_async;			/* libringpipe's, in a process with a .NET runtime */
	struct rp_tool_port *port;	/* the port to which the target connects instead; or NULL */
	char *user;			/* or the uid in digits */
	char *name;			/* of the executable */
	char *command_line;		/* arguments joined by blanks */
};

struct rp_target_list {
	struct rp_target *rows;		/* sorted by pid, libringpipe next to .NET first */
	size_t count;
};

/* Return: the folder that is searched for sockets. */
const char *rp_target_directory(void);

/* Return: 0; -errno of opendir(3); -ENOMEM. An empty list is no error. */
int rp_target_list_scan(struct rp_target_list *ret_list);
void rp_target_list_fini(struct rp_target_list *list);

/*
 * Find the one process that the options name by pid or by name. Prints the cause of a failure: no
 * such process, or more than one. Return: 0 or -errno.
 */
int rp_target_find(pid_t pid, const char *name, struct rp_target *ret_target);
/*
 * Return: the process whose diagnostics socket has this name in its folder; 0: no such name.
 * @ret_is_async: as in struct rp_target.
 */
pid_t rp_target_socket_pid(const char *name, bool *ret_is_async);
/* Prints nothing. Return: 1 with a target; 0: the process has no socket, or not yet; -ENOMEM. */
int rp_target_look(pid_t pid, struct rp_target *ret_target);
/* The same for one kind of socket. `is_async`: as in struct rp_target. */
int rp_target_look_kind(pid_t pid, bool is_async, struct rp_target *ret_target);
void rp_target_fini(struct rp_target *target);

#endif
