/* SPDX-License-Identifier: MIT */
/* Information about a process from /proc. */
#ifndef RP_TOOL_PROC_H
#define RP_TOOL_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rp_proc {
	pid_t pid;
	pid_t inner_pid;		/* its own idea of that, in a pid namespace of its own */
	uid_t uid;			/* the effective one */
	uint64_t start_time;		/* field 22 of /proc/PID/stat */
};

/* Return: 0; -ESRCH: there is no such process. */
int rp_proc_read(pid_t pid, struct rp_proc *ret_proc);
/*
 * Call with the id of each thread that the process has now, as the process itself sees it. Return:
 * 0; what `visit` returned; -ESRCH: the process is gone, or its threads are not for us to see.
 */
int rp_proc_threads(pid_t pid, int (*visit)(uint64_t id, void *data), void *data);
/* The same; 0: it has none in our pid namespace. */
int rp_proc_parent(pid_t pid, pid_t *ret_parent);
/* Calls with each child of the process; returns what a call returned, if not 0. */
int rp_proc_children(pid_t pid, int (*child)(pid_t pid, void *data), void *data);

/*
 * Whether it may name files, and itself, in another way than we do: it has another root, another
 * mount namespace, or a pid namespace below ours. False where we may not know.
 */
bool rp_proc_is_apart(const struct rp_proc *process);

/*
 * Read where its socket lies by the environment it was started with, as it names that: TMPDIR or
 * /tmp. `ret_directory` is for free(). Return: 0; -ENOMEM; what open(2) and read(2) said.
 */
int rp_proc_directory(pid_t pid, char **ret_directory);

/* The code that is mapped in a process. */
enum rp_proc_code {
	RP_PROC_UNKNOWN,		/* not for us to see */
	RP_PROC_NO_MEMORY,		/* nothing is mapped: a kernel thread, or it has ended */
	RP_PROC_TRACEABLE,		/* libringpipe.so or a .NET runtime */
	RP_PROC_OTHER,
};
enum rp_proc_code rp_proc_code(pid_t pid);

/*
 * Call with the absolute path of each socket bound in the network namespace of the process, or in
 * ours for pid 0 and where its own is not for us to see. Return: 0, or the first other return
 * of `visit`.
 */
int rp_proc_sockets(pid_t pid, int (*visit)(const char *path, void *data), void *data);

/* All for free(). NULL: no memory. */
char *rp_proc_command_line(pid_t pid);	/* arguments joined by blanks */
char *rp_proc_name(pid_t pid);		/* of the executable */

#endif
