/* SPDX-License-Identifier: MIT */
/*
 * Wakes the server's loop by a pair of sockets: a message into one end wakes the thread that waits
 * on the other. An eventfd has two drawbacks. It cannot be identified, so a write could go to a
 * file that the host has under the same number. And a closed eventfd goes unnoticed, while one end
 * of a pair shows that the other was closed.
 *
 * There is one pair. All but rp_wake() is for who holds the server's fd_lock, or is its thread.
 */
#ifndef RP_DIAG_WAKE_H
#define RP_DIAG_WAKE_H

#include <stdbool.h>

/* Makes the pair, whose ends do not block. Return: 0 or -errno. */
int rp_wake_open(void);

/* The end to wait on; -1: none. */
int rp_wake_fd(void);

/* Whether both ends are still what stands behind their numbers. */
bool rp_wake_is_whole(void);

/* Whether the end to wait on is. */
bool rp_wake_is_heard(void);

/*
 * Makes another pair when the host closed one end or both; their numbers are its own by now.
 * Return: 0 or -errno.
 */
int rp_wake_mend(void);

/* Closes what is left of it. */
void rp_wake_close(void);

/* Wakes the loop. Return: false if the pair is invalid. Context: any thread. */
bool rp_wake(void);

#endif
