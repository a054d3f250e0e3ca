/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/clock_watch.h"

#include <string.h>

#define PUT_NS 60000000000ull

/* A smaller shift is no step: NTP shifts the clock by less than this in a second. */
#define STEP_NS 1000000

/* CLOCK_BOOTTIME continues while the machine is suspended, and CLOCK_MONOTONIC does not. */
#define SUSPEND_NS 10000000

#define TRIES 5

static int64_t read_ns(const struct rp_clock_watch *watch, clockid_t clock)
{
	struct timespec time = { 0 };

	watch->read(clock, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* The thread may lose its processor between two readings, so the closest ones of a few count. */
static struct rp_clock_reading read_clocks(const struct rp_clock_watch *watch)
{
	struct rp_clock_reading best = { .uncertainty_ns = UINT64_MAX };

	for (int i = 0; i < TRIES; i++) {
		const int64_t before = read_ns(watch, CLOCK_MONOTONIC);
		const int64_t utc = read_ns(watch, CLOCK_REALTIME);
		const int64_t boottime = read_ns(watch, CLOCK_BOOTTIME);
		const int64_t took = read_ns(watch, CLOCK_MONOTONIC) - before;

		if ((uint64_t)took / 2 < best.uncertainty_ns)
			best = (struct rp_clock_reading){
				.monotonic_ns = (uint64_t)(before + took / 2), .utc_ns = utc,
				.boottime_ns = (uint64_t)boottime,
				.uncertainty_ns = (uint64_t)took / 2,
			};
	}
	return best;
}

static int64_t distance(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

void rp_clock_watch_pass(struct rp_clock_watch *watch, bool is_last,
			 struct rp_clock_changes *ret_changes)
{
	const struct rp_clock_reading last = watch->last, now = read_clocks(watch);
	const int64_t passed = (int64_t)(now.monotonic_ns - last.monotonic_ns);
	const int64_t slept = (int64_t)(now.boottime_ns - last.boottime_ns) - passed;
	const bool has_step = watch->has_last &&
			      distance(now.utc_ns - last.utc_ns, passed) > STEP_NS + passed / 1000;

	memset(ret_changes, 0, sizeof(*ret_changes));
	if (watch->has_last && slept > SUSPEND_NS)
		ret_changes->suspended_ns = (uint64_t)slept;
	if (has_step && watch->put_ns != last.monotonic_ns)
		ret_changes->readings[ret_changes->reading_count++] = last;
	if (!watch->has_last || is_last || has_step ||
	    now.monotonic_ns - watch->put_ns >= PUT_NS) {
		ret_changes->readings[ret_changes->reading_count++] = now;
		watch->put_ns = now.monotonic_ns;
	}
	watch->last = now;
	watch->has_last = true;
}
