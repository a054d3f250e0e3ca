/* SPDX-License-Identifier: MIT */
/* The map from ticks to nanoseconds, with points that the test sets. */
#include <sched.h>

#include <criterion/criterion.h>

#include "base/clock.h"

/* Three lines: the second continues the first without a jump, the third is steeper. */
static struct rp_clock_map three_lines(void)
{
	return (struct rp_clock_map){
		.points = { { 1000, 500, 0.5 }, { 3000, 1500, 0.25 }, { 7000, 2500, 2 } },
		.count = 3,
	};
}

Test(base_clock, a_tick_is_on_its_own_line_whichever_came_before)
{
	static const struct { uint64_t ticks, ns; } pairs[] = {
		{ 800, 400 }, { 1000, 500 }, { 2998, 1499 }, { 3000, 1500 }, { 3004, 1501 },
		{ 6996, 2499 }, { 7000, 2500 }, { 7001, 2502 }, { 1000000, 1988500 },
	};
	struct rp_clock_map map = three_lines();

	rp_clock_is_tsc = true;
	for (unsigned int first = 0; first < sizeof(pairs) / sizeof(pairs[0]); first++) {
		for (unsigned int then = 0; then < sizeof(pairs) / sizeof(pairs[0]); then++) {
			cr_expect_eq(rp_clock_map_ns(&map, pairs[first].ticks), pairs[first].ns);
			cr_expect_eq(rp_clock_map_ns(&map, pairs[then].ticks), pairs[then].ns,
				     "%lu after %lu", pairs[then].ticks, pairs[first].ticks);
		}
	}
}

Test(base_clock, what_follows_a_point_is_on_its_line)
{
	struct rp_clock_map map = { 0 };
	const struct rp_clock_point *newest;

	rp_clock_init(NULL);
	if (!rp_clock_is_tsc)
		cr_skip_test("the kernel's clock is not the processor's");
	rp_clock_map_init(&map);
	(void)rp_clock_map_ns(&map, rp_clock_ticks_ordered());
	/* A new point is taken when the last is 10 ms old. */
	while (map.count == 2)
		rp_clock_map_update(&map);
	newest = &map.points[2];
	cr_expect_eq(rp_clock_map_ns(&map, newest->ticks), newest->ns);
	cr_expect_eq(rp_clock_map_ns(&map, newest->ticks + 1000000000),
		     newest->ns + (uint64_t)(1e9 * newest->ns_per_tick));
}

Test(base_clock, nanoseconds_stay_what_they_are)
{
	static const uint64_t times[] = { 0, 1, 1ull << 49, (1ull << 60) + 1, 5, (1ull << 53) + 1 };
	struct rp_clock_map map = { 0 };

	rp_clock_is_tsc = false;
	for (unsigned int i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		cr_expect_eq(rp_clock_map_ns(&map, times[i]), times[i], "%lu", times[i]);
}

static void expect_own_processor(const char *clock)
{
	cpu_set_t all, one;
	uint64_t last = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	rp_clock_init(clock);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		uint16_t processor = UINT16_MAX;
		uint64_t ticks;

		if (!CPU_ISSET(i, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
		ticks = rp_clock_ticks_processor(&processor);
		cr_expect_eq(processor, i);
		cr_expect_gt(ticks, last);
		last = ticks;
		cr_expect_geq(rp_clock_ticks_ordered(), ticks);
	}
}

Test(base_clock, ticks_come_with_the_processor_that_read_them)
{
	expect_own_processor(NULL);
	cr_expect(!rp_clock_has_processor || rp_clock_is_tsc);
}

Test(base_clock, without_the_tsc_ticks_come_with_the_processor_too)
{
	expect_own_processor("monotonic");
	cr_expect_not(rp_clock_has_processor);
}
