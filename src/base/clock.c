/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool rp_clock_is_tsc;

#if defined(__x86_64__)
static bool tsc_is_invariant(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

static bool tsc_is_readable(void)
{
	int mode = 0;

	return prctl(PR_GET_TSC, &mode) != 0 || mode == PR_TSC_ENABLE;
}

static bool kernel_uses_tsc(void)
{
	char name[32];
	ssize_t length = rp_file_read("/sys/devices/system/clocksource/clocksource0/"
				      "current_clocksource", name, sizeof(name));

	return length >= 4 && memcmp(name, "tsc\n", 4) == 0;
}
#endif

void rp_clock_init(const char *wanted)
{
	rp_clock_is_tsc = false;
#if defined(__x86_64__)
	if (wanted && strcmp(wanted, "monotonic") == 0)
		return;
	/* kvm-clock and hyperv guests keep an invariant TSC but do not say "tsc": on request. */
	rp_clock_is_tsc = tsc_is_invariant() && tsc_is_readable() &&
			  (kernel_uses_tsc() || (wanted && strcmp(wanted, "tsc") == 0));
#else
	(void)wanted;
#endif
}

/* The tightest of several (ticks, ns, ticks) triples: a preemption between the reads spoils one. */
static void take_point(struct rp_clock_point *point)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = rp_clock_ticks_ordered();
		uint64_t ns = rp_clock_monotonic_ns();
		uint64_t after = rp_clock_ticks_ordered();

		if (after - before >= best)
			continue;
		best = after - before;
		point->ticks = before + (after - before) / 2;
		point->ns = ns;
	}
}

void rp_clock_map_init(struct rp_clock_map *map)
{
	struct timespec pause = { 0, 200000 };
	struct rp_clock_point *first = &map->points[0], *second = &map->points[1];

	map->count = 1;
	map->current = 0;
	take_point(first);
	first->ns_per_tick = 1;
	if (!rp_clock_is_tsc)
		return;
	/* A slope needs two points; 200 us apart it is good to some 100 ppm, until the next. */
	nanosleep(&pause, NULL);
	take_point(second);
	first->ns_per_tick = (double)(second->ns - first->ns) /
			     (double)(second->ticks - first->ticks);
	second->ns_per_tick = first->ns_per_tick;
	map->count = 2;
}

void rp_clock_map_update(struct rp_clock_map *map)
{
	struct rp_clock_point *last = &map->points[(map->count - 1) % RP_CLOCK_POINTS], next;

	if (!rp_clock_is_tsc)
		return;
	take_point(&next);
	if (next.ns < last->ns + 10000000u || next.ticks <= last->ticks)
		return;
	/*
	 * Times already given out past the last point used its extrapolated slope. The new segment
	 * begins where that line ends now, and runs to the true time one segment later: no jump.
	 */
	uint64_t shown = last->ns + (uint64_t)((double)(next.ticks - last->ticks) *
					       last->ns_per_tick);
	double true_slope = (double)(next.ns - last->ns) / (double)(next.ticks - last->ticks);
	double error = (double)next.ns - (double)shown;
	double span = (double)(next.ticks - last->ticks);
	double slope = true_slope + error / span;

	next.ns = shown;
	next.ns_per_tick = slope > 0 ? slope : true_slope / 2;
	map->points[map->count++ % RP_CLOCK_POINTS] = next;
	map->current = map->count - 1;
}

uint64_t rp_clock_map_ns(struct rp_clock_map *map, uint64_t ticks)
{
	unsigned int oldest = map->count > RP_CLOCK_POINTS ? map->count - RP_CLOCK_POINTS : 0;
	unsigned int at = map->current < oldest ? oldest : map->current;
	const struct rp_clock_point *point;

	if (!rp_clock_is_tsc)
		return ticks;
	while (at > oldest && ticks < map->points[at % RP_CLOCK_POINTS].ticks)
		at--;
	while (at + 1 < map->count && ticks >= map->points[(at + 1) % RP_CLOCK_POINTS].ticks)
		at++;
	map->current = at;
	point = &map->points[at % RP_CLOCK_POINTS];
	return point->ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - point->ticks) *
					       point->ns_per_tick);
}
