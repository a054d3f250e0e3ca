/* SPDX-License-Identifier: MIT */
/* Watches the machine's clocks during a recording. */
#ifndef RP_RECORD_CLOCK_WATCH_H
#define RP_RECORD_CLOCK_WATCH_H

#include <stdbool.h>
#include <time.h>

#include "tools/trace/machine_clock.h"

struct rp_clock_watch {
	int (*read)(clockid_t clock, struct timespec *ret_time);	/* clock_gettime(2) */
	struct rp_clock_reading last;	/* of the last pass */
	uint64_t put_ns;		/* time of the last reading that belongs into the trace */
	bool has_last;
};

/* The result of a pass. */
struct rp_clock_changes {
	struct rp_clock_reading readings[2];	/* they belong into the trace */
	size_t reading_count;
	uint64_t suspended_ns;		/* the machine slept since the last pass; 0: it did not */
};

/*
 * Read the clocks. Readings for the trace are those of the first and the last pass, one for each
 * minute, and those right before and after a step of CLOCK_REALTIME.
 */
void rp_clock_watch_pass(struct rp_clock_watch *watch, bool is_last,
			 struct rp_clock_changes *ret_changes);

#endif
