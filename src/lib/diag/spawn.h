/* SPDX-License-Identifier: MIT */
/* Starts programs that are not children of this process. */
#ifndef RP_DIAG_SPAWN_H
#define RP_DIAG_SPAWN_H

#include <sys/types.h>

/*
 * Run the program at `path` with an empty environment and a new session. No signal is blocked or
 * ignored, and the first three descriptors are copies of the given three; -1 stands for /dev/null.
 * The host's waitpid(2) for any child and its SIGCHLD handler do not see the program, whose parent
 * is the process that adopts orphans.
 *
 * Return: 0; -ENOMEM; -errno of clone(2) or posix_spawn(3).
 */
int rp_spawn_detached(const char *path, char *const argv[], const int fds[3], pid_t *ret_pid);

#endif
