/* SPDX-License-Identifier: MIT */
/*
 * What wakes the server's loop: a pair of sockets. A message into one end calls whoever waits on
 * the other. An eventfd would do, but for two things. Nobody can tell whether its number still
 * means it, and a word written to what the host has there meanwhile would be the host's loss. And
 * nobody hears when the host closes it, while one end of a pair tells when the other was closed.
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

/* Calls. Return: false when nobody can be called by it. Context: any thread. */
bool rp_wake(void);

#endif
