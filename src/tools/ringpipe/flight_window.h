/* SPDX-License-Identifier: MIT */
/* The window of a flight recorder, and the buffer that a longer one needs. */
#ifndef RP_TOOL_FLIGHT_WINDOW_H
#define RP_TOOL_FLIGHT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/ringpipe/target.h"

/* Take a snapshot, and get how long it is complete. Return: 0; -errno, reported. */
int rp_flight_get_window(const struct rp_target *target, uint64_t session, uint64_t *ret_ms);

/* A recorder with a small buffer, which shows how fast it fills. */
struct rp_flight_trial {
	const struct rp_target *target;
	uint64_t session;
	uint32_t buffer_mb;
	uint64_t last_ms;		/* the window that is wanted */
	int signal_fd;			/* of rp_signals_open() */
	bool live;			/* a line of progress is wanted */
};

/*
 * Wait until the recorder has overwritten events, or holds the whole window.
 *
 * `ret_window_ms`: what it holds.
 * Return: the megabytes that the window needs, with a quarter to spare, or `buffer_mb` if that is
 * enough; -EINTR: SIGINT or SIGTERM came; -errno, reported.
 */
int64_t rp_flight_measure(const struct rp_flight_trial *trial, uint64_t *ret_window_ms);

#endif
