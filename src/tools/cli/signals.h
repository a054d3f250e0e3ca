/* SPDX-License-Identifier: MIT */
/* Signals and timeouts for poll loops. */
#ifndef RP_TOOL_SIGNALS_H
#define RP_TOOL_SIGNALS_H

#include <stdint.h>
#include <sys/types.h>

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD. Return: a signalfd for them, or -errno. */
int rp_signals_open(void);
/* Discards pending signals, closes the signalfd, and unblocks the signals. */
void rp_signals_close(int fd);

/*
 * In a forked process: get SIGTERM when the parent ends. End here if the parent has ended already,
 * because the kernel then sends no signal.
 * @parent: the id of the process that called fork(2).
 */
void rp_signals_end_with(pid_t parent);

/* Return: CLOCK_MONOTONIC in milliseconds. */
int64_t rp_now_ms(void);

#endif
