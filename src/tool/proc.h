/* SPDX-License-Identifier: MIT */
/* What /proc tells of a process. */
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
 * Where its socket lies by the environment it was started with, as it names that: TMPDIR or /tmp.
 * Return: for free(); NULL: it may not be read, or no memory.
 */
char *rp_proc_directory(pid_t pid);

/* Whether libringpipe or a .NET runtime is mapped. True, too, where we may not know. */
bool rp_proc_is_traceable(pid_t pid);

/* All for free(). NULL: no memory. */
char *rp_proc_command_line(pid_t pid);	/* arguments joined by blanks */
char *rp_proc_name(pid_t pid);		/* of the executable */

#endif
