/* SPDX-License-Identifier: MIT */
/* Signals and timeouts for poll loops. */
#ifndef RP_TOOL_SIGNALS_H
#define RP_TOOL_SIGNALS_H

#include <stdint.h>

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD. Return: a signalfd for them, or -errno. */
int rp_signals_open(void);
/* Discards pending signals, closes the signalfd, and unblocks the signals. */
void rp_signals_close(int fd);

/* Return: CLOCK_MONOTONIC in milliseconds. */
int64_t rp_now_ms(void);

#endif
