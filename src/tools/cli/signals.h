/* SPDX-License-Identifier: MIT */
/* Signals and timeouts for poll loops. */
#ifndef RP_TOOL_SIGNALS_H
#define RP_TOOL_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/types.h>

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD. Return: a signalfd for them, or -errno. */
int rp_signals_open(void);

/* The last signal that requested a stop. Initialise it with zeroes. */
struct rp_stop_signal {
	uint32_t number;
	uint32_t sender;		/* the process that sent it; 0: the terminal */
};

/*
 * timeout(1) sends its signal to the command and then to the command's group, so a signal that the
 * same process repeats once is one request. Ctrl-C counts each time. A command sends its
 * children another signal for a second request than for the first.
 * Return: whether the signal requests a stop.
 */
bool rp_signals_is_request(const struct signalfd_siginfo *info, struct rp_stop_signal *last);

/* Read the pending signals. Return: the number of requests to stop. */
unsigned int rp_signals_count(int fd, struct rp_stop_signal *last);

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
