/* SPDX-License-Identifier: MIT */
/*
 * What wakes the server's loop: a pair of sockets. A message into one end calls whoever waits on
 * the other. An eventfd would do, but for two things. Nobody can tell whether its number still
 * means it, and a word written to what the host has there meanwhile would be the host's loss. And
 * nobody hears when the host closes it, while one end of a pair tells when the other was closed.
 */
#ifndef RP_DIAG_WAKE_H
#define RP_DIAG_WAKE_H

#include <stdbool.h>
#include <sys/epoll.h>

/*
 * Makes the pair; one at a time. `ret_fds`: the end to wait on and the end to call by, neither
 * blocks. Return: 0 or -errno.
 */
int rp_wake_open(int ret_fds[2]);

/* Calls by `fd`. Return: false when it is no longer what rp_wake_open() made. */
bool rp_wake(int fd);

/* Whether it still is. */
bool rp_wake_is(int fd);

/*
 * As epoll_wait(2) for a set that `woken_fd` is a member of, and tells when the host closed the end
 * to call by. Return: how many events; -EBADF: that, or the set is gone; -errno of poll(2).
 */
int rp_wake_wait(int woken_fd, int epoll_fd, struct epoll_event *ret_events, int most, int ms);

#endif
