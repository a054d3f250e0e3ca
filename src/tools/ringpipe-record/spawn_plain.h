/* SPDX-License-Identifier: MIT */
/* Starts programs without what the recorder changed for itself. */
#ifndef RP_RECORD_SPAWN_PLAIN_H
#define RP_RECORD_SPAWN_PLAIN_H

#include <sys/types.h>

/*
 * Start a program without the signals that this process blocks and ignores. A program without a
 * slash is searched in PATH. 0; -errno.
 */
int rp_spawn_plain(const char *program, char *const *arguments, pid_t *ret_child);

#endif
