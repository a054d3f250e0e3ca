/* SPDX-License-Identifier: MIT */
/*
 * Processes that can be traced. Found as .NET's tools find them: by the names of sockets,
 * ${TMPDIR or /tmp}/dotnet-diagnostic-{pid}-{start time}-socket, checked against /proc. Those in
 * other namespaces, or with another root, by the same rule from their point of view, in
 * /proc/{pid}/root; those with another TMPDIR by their environment, and by /proc/net/unix. Where
 * libringpipe left that name to a .NET runtime in its process, its own begins with "ringpipe":
 * there are two targets with one pid then, and ours is what a pid means.
 */
#ifndef RP_TOOL_TARGET_H
#define RP_TOOL_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/ringpipe/tool.h"

struct rp_tool_port;

struct rp_target {
	pid_t pid;
	uid_t uid;
	uint64_t start_time;		/* field 22 of /proc/PID/stat */
	char *path;			/* of the socket */
	bool is_async;			/* libringpipe's, in a process with a .NET runtime */
	struct rp_tool_port *port;	/* our port that it connects to instead; or NULL */
	char *user;			/* or the uid in digits */
	char *name;			/* of the executable */
	char *command_line;		/* arguments joined by blanks */
};

struct rp_target_list {
	struct rp_target *rows;		/* by pid, those aside first */
	size_t count;
};

/* Where the sockets are looked for. */
const char *rp_target_directory(void);

/* Return: 0; what opendir(3) said; -ENOMEM. An empty list is no error. */
int rp_target_list_scan(struct rp_target_list *ret_list);
void rp_target_list_fini(struct rp_target_list *list);

/*
 * The one process that the options name by pid or by name. On failure says why there is none, or
 * why not just one. Return: 0 or -errno.
 */
int rp_target_find(pid_t pid, const char *name, struct rp_target *ret_target);
/* Says nothing. Return: 1 with a target; 0: the process has no socket, or not yet; -ENOMEM. */
int rp_target_look(pid_t pid, struct rp_target *ret_target);
void rp_target_fini(struct rp_target *target);

#endif
