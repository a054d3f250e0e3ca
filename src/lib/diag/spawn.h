/* SPDX-License-Identifier: MIT */
/* Starts programs that are no children of this process. */
#ifndef RP_DIAG_SPAWN_H
#define RP_DIAG_SPAWN_H

#include <sys/types.h>

/*
 * Runs the program at `path` with an empty environment, a session of its own, no signal blocked or
 * ignored, and copies of the three descriptors as its first three; -1 stands for /dev/null. The
 * host's waitpid(2) for any child does not see it, nor does its SIGCHLD handler: the program
 * belongs to whoever takes in orphans.
 *
 * Return: 0; -ENOMEM; what clone(2) and posix_spawn(3) say.
 */
int rp_spawn_detached(const char *path, char *const argv[], const int fds[3], pid_t *ret_pid);

#endif
