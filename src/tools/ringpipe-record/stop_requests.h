/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP. The first one ends the recording, or has no effect if the recording
 * has already ended. After the second one, the recorder waits for nothing: functions that are not
 * found yet have no names, and streams of processes lack their ends. A command after `--` gets the
 * signals while it runs; these are no requests.
 */
#ifndef RP_RECORD_STOP_REQUESTS_H
#define RP_RECORD_STOP_REQUESTS_H

#include <stdbool.h>

#include "tools/cli/signals.h"

struct rp_stop_requests {
	int signal_fd;			/* of rp_signals_open() */
	unsigned int count;		/* of requests so far */
	struct rp_stop_signal last;
};

/*
 * Take the pending signals, and count the requests.
 * Context: any thread, but not two at the same time.
 * Return: whether there were two or more requests so far.
 */
bool rp_stop_requests_take(struct rp_stop_requests *requests);

#endif
