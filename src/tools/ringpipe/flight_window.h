/* SPDX-License-Identifier: MIT */
/* The window of time that a flight recorder holds, and the buffer that a longer window needs. */
#ifndef RP_TOOL_FLIGHT_WINDOW_H
#define RP_TOOL_FLIGHT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/client/target.h"

/* A recorder with a small buffer, by which the command measures the rate of events. */
struct rp_flight_trial {
	const struct rp_target *target;
	uint64_t session;
	uint32_t buffer_mb;
	uint64_t last_ms;		/* the requested window */
	int signal_fd;			/* of rp_signals_open() */
	bool live;			/* draw a progress line */
};

/*
 * Wait until the recorder has overwritten events, or holds the whole window.
 *
 * `ret_window_ms`: how long ago the oldest event that the recorder holds was written.
 * Return: the megabytes that the window needs, with a quarter to spare, or `buffer_mb` if that is
 * enough; -EINTR: SIGINT or SIGTERM arrived; -errno, reported.
 */
int64_t rp_flight_measure(const struct rp_flight_trial *trial, uint64_t *ret_window_ms);

#endif
