/* SPDX-License-Identifier: MIT */
/*
 * The clocks of a machine. All times of a trace are those of CLOCK_MONOTONIC, which begins with the
 * machine's boot. Readings of both CLOCK_MONOTONIC and CLOCK_REALTIME relate it to the clocks of
 * other machines. NTP changes the rate of both alike, so their difference changes only when
 * CLOCK_REALTIME is set or the machine is suspended.
 */
#ifndef RP_TOOL_MACHINE_CLOCK_H
#define RP_TOOL_MACHINE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define RP_MACHINE_PROVIDER "Ringpipe-Machine"
#define RP_MACHINE_EVENT_DESCRIPTION "Machine"
#define RP_MACHINE_EVENT_CLOCK "ClockReading"
#define RP_MACHINE_EVENT_GROUPS "Groups"
#define RP_MACHINE_EVENT_LOSS "Loss"
#define RP_MACHINE_EVENT_ATTRIBUTE "ProcessAttribute"

/* The clocks at one moment. */
struct rp_clock_reading {
	uint64_t monotonic_ns;
	int64_t utc_ns;
	uint64_t boottime_ns;
	uint64_t uncertainty_ns;	/* of utc_ns: half of the time that the reading took */
};

/* Converts between the two clocks: a straight line through readings. */
struct rp_machine_clock {
	uint64_t ns;			/* CLOCK_MONOTONIC */
	int64_t utc_ns;			/* at that time */
	double drift;			/* of CLOCK_REALTIME against it: 1e-6 is 1 us per second */
	uint64_t residual_ns;		/* the greatest distance of a reading from the line */
};

/*
 * Find the line: by least squares, but if the readings are too few or too close, or have a step, it
 * has no drift. After a step, which then shows in the residual, the last reading counts.
 */
struct rp_machine_clock rp_machine_clock_find(const struct rp_clock_reading *readings,
					      size_t count);

/* Convert a time of one machine to the clock of another. */
uint64_t rp_machine_clock_convert(const struct rp_machine_clock *from,
				  const struct rp_machine_clock *to, uint64_t ns);

#endif
