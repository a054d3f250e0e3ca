/* SPDX-License-Identifier: MIT */
/* The clocks of a machine during a recording, and their conversion to those of another machine. */
#include <criterion/criterion.h>

#include "tools/ringpipe-record/clock_watch.h"

#define SECOND 1000000000ll
#define UTC (1700000000 * SECOND)

/* The clocks that the watch reads. A reading takes 100 ns. */
static int64_t monotonic_ns, boottime_ahead_ns, utc_ahead_ns;

static int read_fake(clockid_t clock, struct timespec *ret_time)
{
	int64_t ns = monotonic_ns;

	if (clock == CLOCK_REALTIME)
		ns += utc_ahead_ns;
	else if (clock == CLOCK_BOOTTIME)
		ns += boottime_ahead_ns;
	monotonic_ns += 100;
	*ret_time = (struct timespec){ ns / SECOND, ns % SECOND };
	return 0;
}

static struct rp_clock_watch begin(void)
{
	struct rp_clock_watch watch = { .read = read_fake };
	struct rp_clock_changes changes;

	monotonic_ns = 5000 * SECOND;
	boottime_ahead_ns = 7 * SECOND;
	utc_ahead_ns = UTC;
	rp_clock_watch_pass(&watch, false, &changes);
	cr_expect_eq(changes.reading_count, 1);
	cr_expect_eq(changes.suspended_ns, 0);
	return watch;
}

Test(machine_clock, the_trace_gets_readings_at_the_start_each_minute_and_at_the_end)
{
	struct rp_clock_watch watch = begin();
	struct rp_clock_changes changes;
	size_t readings = 0;

	for (int i = 0; i < 1805; i++) {
		monotonic_ns += SECOND / 10;
		rp_clock_watch_pass(&watch, false, &changes);
		readings += changes.reading_count;
		cr_expect_eq(changes.suspended_ns, 0);
	}
	cr_expect_eq(readings, 3);
	rp_clock_watch_pass(&watch, true, &changes);
	cr_assert_eq(changes.reading_count, 1);
	cr_expect_leq(changes.readings[0].uncertainty_ns, 200);
	cr_expect_lt(llabs(changes.readings[0].utc_ns -
			   (int64_t)changes.readings[0].monotonic_ns - UTC), 400);
}

Test(machine_clock, a_jump_of_boottime_is_a_suspension_of_the_machine)
{
	struct rp_clock_watch watch = begin();
	struct rp_clock_changes changes;

	monotonic_ns += SECOND / 10;
	rp_clock_watch_pass(&watch, false, &changes);
	monotonic_ns += SECOND / 10;
	boottime_ahead_ns += 600 * SECOND;
	/* The time of day goes on as well. */
	utc_ahead_ns += 600 * SECOND;
	rp_clock_watch_pass(&watch, false, &changes);
	cr_expect_lt(llabs((int64_t)changes.suspended_ns - 600 * SECOND), 1000);
	cr_expect_eq(changes.reading_count, 2);
	monotonic_ns += SECOND / 10;
	rp_clock_watch_pass(&watch, false, &changes);
	cr_expect_eq(changes.suspended_ns, 0);
	cr_expect_eq(changes.reading_count, 0);
}

Test(machine_clock, a_step_of_the_time_of_day_gets_a_reading_before_and_after_it)
{
	struct rp_clock_watch watch = begin();
	struct rp_clock_changes changes;

	for (int i = 0; i < 3; i++) {
		monotonic_ns += SECOND / 10;
		rp_clock_watch_pass(&watch, false, &changes);
		cr_expect_eq(changes.reading_count, 0);
	}
	monotonic_ns += SECOND / 10;
	utc_ahead_ns -= 5 * SECOND;
	rp_clock_watch_pass(&watch, false, &changes);
	cr_assert_eq(changes.reading_count, 2);
	cr_expect_eq(changes.suspended_ns, 0);
	cr_expect_lt(llabs((changes.readings[0].utc_ns - changes.readings[1].utc_ns) -
			   (5 * SECOND - SECOND / 10)), 10000);
}

/*
 * The kernel derives all of its clocks from the TSC. Only CLOCK_REALTIME, which NTP sets by the
 * clock of another machine, shows a jump.
 */
Test(machine_clock, a_jump_of_the_tsc_gets_readings_that_show_it_in_the_residual)
{
	for (int64_t jump_ns = -SECOND; jump_ns <= SECOND; jump_ns += 2 * SECOND) {
		struct rp_clock_watch watch = begin();
		struct rp_clock_reading readings[8] = { watch.last };
		struct rp_clock_changes changes;
		struct rp_machine_clock clock;
		size_t count = 1;

		for (int i = 1; i <= 300; i++) {
			monotonic_ns += SECOND / 10;
			if (i == 100) {
				monotonic_ns += jump_ns;
				utc_ahead_ns -= jump_ns;
			}
			rp_clock_watch_pass(&watch, i == 300, &changes);
			cr_expect_eq(changes.suspended_ns, 0);
			for (size_t j = 0; j < changes.reading_count && count < 8; j++)
				readings[count++] = changes.readings[j];
		}
		/* At the start, before and after the jump, and at the end. */
		cr_assert_eq(count, 4);
		clock = rp_machine_clock_find(readings, count);
		cr_expect_eq(clock.drift, 0);
		cr_expect_lt(llabs((int64_t)clock.residual_ns - SECOND), 1000);
		/* Times after the jump have the time of day of the machine. */
		cr_expect_lt(llabs(clock.utc_ns - (int64_t)clock.ns - utc_ahead_ns), 1000);
	}
}

static struct rp_clock_reading reading(int64_t ns, int64_t utc_ns)
{
	return (struct rp_clock_reading){
		.monotonic_ns = (uint64_t)ns, .utc_ns = utc_ns, .uncertainty_ns = 50,
	};
}

Test(machine_clock, times_of_another_machine_are_converted_by_the_time_of_day)
{
	const struct rp_clock_reading here[] = {
		reading(1000 * SECOND, UTC), reading(1060 * SECOND, UTC + 60 * SECOND),
	};
	/* This one was booted earlier, and its clock gains 100 us per second. */
	const struct rp_clock_reading there[] = {
		reading(77000 * SECOND, UTC + 10 * SECOND),
		reading(77060 * SECOND, UTC + 70 * SECOND + 6000000),
		reading(77120 * SECOND, UTC + 130 * SECOND + 12000000),
	};
	const struct rp_machine_clock to = rp_machine_clock_find(here, 2);
	const struct rp_machine_clock from = rp_machine_clock_find(there, 3);
	uint64_t last = 0;

	cr_expect_lt(llabs((int64_t)(from.drift * 1e9) - 100000), 2);
	cr_expect_leq(from.residual_ns, 60);
	for (int64_t s = -100; s < 1000; s += 10) {
		uint64_t ns = rp_machine_clock_convert(&from, &to,
						       (uint64_t)((77000 + s) * SECOND));
		int64_t expected = 1010 * SECOND + s * SECOND + s * 100000;

		cr_expect_lt(llabs((int64_t)ns - expected), 10, "%lld", (long long)s);
		cr_expect_gt(ns, last);
		last = ns;
	}
}

Test(machine_clock, a_step_of_the_time_of_day_leaves_durations_and_shows_in_the_residual)
{
	const struct rp_clock_reading here[] = { reading(1000 * SECOND, UTC) };
	const struct rp_clock_reading there[] = {
		reading(0, UTC), reading(30 * SECOND, UTC + 30 * SECOND),
		reading(31 * SECOND, UTC + 36 * SECOND), reading(60 * SECOND, UTC + 65 * SECOND),
	};
	const struct rp_machine_clock to = rp_machine_clock_find(here, 1);
	const struct rp_machine_clock from = rp_machine_clock_find(there, 4);

	cr_expect_eq(from.drift, 0);
	cr_expect_eq(from.residual_ns, 5 * SECOND + 50);
	cr_expect_eq(rp_machine_clock_convert(&from, &to, 60 * SECOND), 1065 * SECOND);
	cr_expect_eq(rp_machine_clock_convert(&from, &to, 0), 1005 * SECOND);
}

/* A sanitizer reports each overflow. */
Test(machine_clock, readings_of_a_damaged_trace_overflow_nothing)
{
	static const int64_t utcs[] = { INT64_MIN, -1, 1, INT64_MAX };
	static const uint64_t times[] = { 1, INT64_MAX, UINT64_MAX };
	struct rp_machine_clock other = { .ns = UINT64_MAX, .utc_ns = INT64_MIN, .drift = 1e-4 };

	for (size_t i = 0; i < 4 * 4 * 3; i++) {
		const struct rp_clock_reading readings[] = {
			{ .monotonic_ns = 1000, .utc_ns = utcs[i % 4] },
			{ .monotonic_ns = times[i / 16], .utc_ns = utcs[i / 4 % 4],
			  .uncertainty_ns = UINT64_MAX },
		};
		struct rp_machine_clock clock = rp_machine_clock_find(readings, 2);

		for (size_t j = 0; j < 3; j++) {
			(void)rp_machine_clock_convert(&clock, &other, times[j]);
			(void)rp_machine_clock_convert(&other, &clock, times[j]);
		}
		cr_expect_eq(rp_machine_clock_convert(&clock, &clock, clock.ns), clock.ns);
	}
}
