/* SPDX-License-Identifier: MIT */
/*
 * Wakes the server's loop with a pair of sockets: a message into one end wakes the thread that
 * waits on the other. An eventfd has two drawbacks. It cannot be identified, so a write could go to
 * a file that the host has under the same number. And a closed eventfd goes unnoticed, while one
 * end of a pair reports that the other was closed.
 *
 * There is one pair. Except for rp_wake(), the caller holds the server's fd_lock or is its thread.
 */
#ifndef RP_DIAG_WAKE_H
#define RP_DIAG_WAKE_H

#include <stdbool.h>

/* Create the pair, with non-blocking ends. Return: 0 or -errno. */
int rp_wake_open(void);

/* Return: the end to wait on; -1: none. */
int rp_wake_fd(void);

/* Return: whether both numbers still refer to the pair. */
bool rp_wake_is_whole(void);

/* Return: whether the number of the end to wait on still refers to it. */
bool rp_wake_is_heard(void);

/*
 * Create another pair if the host closed an end.
 * Return: 0 or -errno.
 */
int rp_wake_mend(void);

/* Close the ends that are still open. */
void rp_wake_close(void);

/* Wake the loop. Return: false if the pair is invalid. Context: any thread. */
bool rp_wake(void);

#endif
