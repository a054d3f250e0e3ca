/* SPDX-License-Identifier: MIT */
/* Information about a process from /proc. */
#ifndef RP_TOOL_PROC_H
#define RP_TOOL_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rp_proc {
	pid_t pid;
	pid_t inner_pid;		/* its pid in its innermost pid namespace */
	uid_t uid;			/* the effective user id */
	uint64_t start_time;		/* field 22 of /proc/PID/stat */
};

/* Return: 0; -ESRCH if the process does not exist. */
int rp_proc_read(pid_t pid, struct rp_proc *ret_proc);
/* Whether the process with this `start_time` exists. It may be a zombie. */
bool rp_proc_exists(pid_t pid, uint64_t start_time);
/* Whether that process runs a program, which a zombie does not. */
bool rp_proc_runs(pid_t pid, uint64_t start_time);
/*
 * Whether a start time is that of the process, as the process itself sees it: in another time
 * namespace it differs from `start_time`.
 */
bool rp_proc_sees_start(const struct rp_proc *process, uint64_t start_time);
/*
 * Call `visit` for each current thread, with its id as the process itself sees it, and as this
 * process does. Return: 0; the first other result of `visit`; -ESRCH if the process has ended or
 * its threads may not be read.
 */
int rp_proc_threads(pid_t pid, int (*visit)(uint64_t inner, pid_t id, void *data), void *data);
/*
 * Return: 0; -ESRCH if the process does not exist. `ret_parent` is 0 if the parent is outside this
 * pid namespace.
 */
int rp_proc_parent(pid_t pid, pid_t *ret_parent);
/* Calls `child` with each child of the process. Return: 0, or the first other result of `child`. */
int rp_proc_children(pid_t pid, int (*child)(pid_t pid, void *data), void *data);

/*
 * Whether the process may know files, or itself, by other names: it has another root, another mount
 * namespace, or a pid namespace below this one. False if that may not be read.
 */
bool rp_proc_is_apart(const struct rp_proc *process);

/*
 * Read the folder of the process's socket from its initial environment: TMPDIR or /tmp, as the
 * process names it. `ret_directory` is for free(). Return: 0; 1: the environment has no variable
 * left, because a title of the process replaced it, so the folder is only the usual one; -ENOMEM;
 * -errno of open(2) and read(2).
 */
int rp_proc_directory(pid_t pid, char **ret_directory);

/* Processes with their descendants; no process: all processes. */
struct rp_proc_roots {
	const struct rp_proc *processes;
	size_t count;
};

/*
 * Return: whether the process is one of the roots or descends from one. A process with the id of a
 * root that has ended is another one, as its start time shows.
 */
bool rp_proc_descends(pid_t pid, const struct rp_proc_roots *roots);

/* Which processes are wanted; all zeros: all. */
struct rp_proc_filter {
	bool by_user;			/* only those of `user`, by the effective user id */
	uid_t user;
	const char *cgroup;		/* only those in it or below; NULL: all */
};

/*
 * `cgroup` in the filter is a path as in /proc/PID/cgroup, of any hierarchy. Return: 1: the process
 * is wanted; 0: it is not; -ESRCH: it does not exist.
 */
int rp_proc_matches(pid_t pid, const struct rp_proc_filter *filter);

/* The kind of code that a process has mapped. */
enum rp_proc_code {
	RP_PROC_UNKNOWN,		/* no permission to read the mappings */
	RP_PROC_NO_MEMORY,		/* no mapping: a kernel thread, or the process has ended */
	RP_PROC_TRACEABLE,		/* libringpipe.so or a .NET runtime */
	RP_PROC_OTHER,
};
enum rp_proc_code rp_proc_code(pid_t pid);

/*
 * Call `visit` with each absolute path to which a Unix socket in the network namespace of process
 * `pid` is bound. If `pid` is 0 or its namespace cannot be read, use the caller's namespace.
 * Return: 0, or the first nonzero result of `visit`, which ends the calls.
 */
int rp_proc_sockets(pid_t pid, int (*visit)(const char *path, void *data), void *data);

/* The results are for free(). NULL: no memory. */
char *rp_proc_command_line(pid_t pid);	/* arguments joined by blanks */
char *rp_proc_name(pid_t pid);		/* of the executable */

#endif
