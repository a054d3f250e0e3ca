/* SPDX-License-Identifier: MIT */
/*
 * What wakes the server's loop: a datagram socket connected to itself. An eventfd would do, but for
 * one thing: nobody can tell whether its number still means it, and a word written to what the host
 * has there meanwhile would be the host's loss.
 */
#ifndef RP_DIAG_WAKE_H
#define RP_DIAG_WAKE_H

#include <stdbool.h>

/* Makes it; one at a time. Return: the descriptor, not blocking, or -errno. */
int rp_wake_open(void);

/* Makes `fd` readable. Return: false when it is no longer what rp_wake_open() made. */
bool rp_wake(int fd);

/* Whether it still is. */
bool rp_wake_is(int fd);

#endif
