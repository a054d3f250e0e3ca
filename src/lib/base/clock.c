/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/atomic.h"
#include "base/file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool rp_clock_is_tsc, rp_clock_has_processor;
uint64_t rp_clock_coarse __attribute__((aligned(64)));	/* every writer reads this line */

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

/*
 * The kernel sets TSC_AUX on each processor for its own getcpu(). A virtual machine monitor may
 * not, so compare both; the thread may move in between. The TSC must be readable.
 */
static bool tsc_has_processor(void)
{
	unsigned int a, b, c, d, aux;
	int before, after;

	if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(d & (1u << 27)))
		return false;
	do {
		before = sched_getcpu();
		(void)__builtin_ia32_rdtscp(&aux);
		after = sched_getcpu();
	} while (before != after);
	return before >= 0 && (aux & RP_CLOCK_PROCESSOR_MASK) == (unsigned int)before;
}
#endif

void rp_clock_init(const char *wanted)
{
	rp_clock_is_tsc = rp_clock_has_processor = false;
#if defined(__x86_64__)
	if (wanted && strcmp(wanted, "monotonic") == 0)
		return;
	/* Guests on kvm-clock or hyperv have an invariant TSC, but use it only on request. */
	rp_clock_is_tsc = tsc_is_invariant() && tsc_is_readable() &&
			  (kernel_uses_tsc() || (wanted && strcmp(wanted, "tsc") == 0));
	rp_clock_has_processor = rp_clock_is_tsc && tsc_has_processor();
#else
	(void)wanted;
#endif
}

void rp_clock_coarse_move(uint64_t ticks)
{
	uint64_t before = rp_load_relaxed(&rp_clock_coarse);

	while (ticks > before && !rp_cas_seq_cst(&rp_clock_coarse, &before, ticks))
		;
}

#define FIRST_TRIES 32

/*
 * Take a point as the tightest of several (ticks, ns, ticks) triples, because a preemption between
 * the reads makes a triple wide. Return: its width in ticks, the accuracy of the point.
 */
static uint64_t take_point(struct rp_clock_point *point)
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
	return best;
}

void rp_clock_map_init(struct rp_clock_map *map)
{
	struct timespec pause = { 0, 200000 };
	struct rp_clock_point *first = &map->points[0], *second = &map->points[1];
	uint64_t width, width_here;

	map->count = 1;
	map->current = 0;
	map->line.span = 0;
	width = take_point(first);
	first->ns_per_tick = 1;
	map->anchors[0] = map->anchors[1] = *first;
	if (!rp_clock_is_tsc)
		return;
	/*
	 * The rate needs two points. If they are 200 us apart, its error is about 100 ppm until
	 * the next update. If reads are slow, as in an emulator, take the second point later, up
	 * to FIRST_TRIES times, so that the error is at most 1,000 ppm.
	 */
	for (int i = 0; i < FIRST_TRIES; i++) {
		nanosleep(&pause, NULL);
		width_here = take_point(second);
		if (second->ticks - first->ticks >= (width + width_here) * 1000)
			break;
	}
	first->ns_per_tick = (double)(second->ns - first->ns) /
			     (double)(second->ticks - first->ticks);
	second->ns_per_tick = first->ns_per_tick;
	map->count = 2;
}

void rp_clock_map_rest(struct rp_clock_map *map)
{
	map->count = 0;
	map->current = 0;
	map->line.span = 0;
}

/* The rate over the last second or more: over 10 ms its error would be some ppm. */
static double measure_rate(struct rp_clock_map *map, const struct rp_clock_point *now)
{
	if (now->ns >= map->anchors[1].ns + 1000000000u) {
		map->anchors[0] = map->anchors[1];
		map->anchors[1] = *now;
	}
	return (double)(now->ns - map->anchors[0].ns) /
	       (double)(now->ticks - map->anchors[0].ticks);
}

void rp_clock_map_update(struct rp_clock_map *map)
{
	struct rp_clock_point *last = &map->points[(map->count - 1) % RP_CLOCK_POINTS], next;
	double rate, error, correction;
	uint64_t shown;

	if (!rp_clock_is_tsc)
		return;
	take_point(&next);
	if (next.ticks <= map->anchors[0].ticks || next.ns <= map->anchors[0].ns)
		return;
	map->line.span = 0;
	if (map->count == 0) {
		next.ns_per_tick = measure_rate(map, &next);
		map->points[map->count++] = next;
		return;
	}
	if (next.ticks <= last->ticks ||
	    (double)(next.ticks - last->ticks) * last->ns_per_tick < 10000000)
		return;
	/*
	 * Times already returned for ticks after the last point used its slope. The new segment
	 * therefore begins on that line, without a jump. Its slope approaches the true time as if
	 * to reach it in 100 ms. That is longer than a segment usually is, so the slope does not
	 * oscillate. The correction is at most 1 in 1,000.
	 */
	rate = measure_rate(map, &next);
	shown = last->ns + (uint64_t)((double)(next.ticks - last->ticks) * last->ns_per_tick);
	error = (double)(int64_t)(next.ns - shown);
	correction = error / 1e8;
	if (correction > 1e-3)
		correction = 1e-3;
	if (correction < -1e-3)
		correction = -1e-3;
	next.ns = shown;
	next.ns_per_tick = rate * (1 + correction);
	map->points[map->count++ % RP_CLOCK_POINTS] = next;
	map->current = map->count - 1;
}

/* Ticks are nanoseconds here. Differences stay exact, because they fit into a double. */
static void seek_around(struct rp_clock_line *line, uint64_t ns)
{
	uint64_t half = 1ull << 50;

	*line = (struct rp_clock_line){
		.from = ns > half ? ns - half : 0,
		.span = 2 * half,
		.ticks = ns,
		.ns = ns,
		.ns_per_tick = 1,
	};
}

void rp_clock_map_seek(struct rp_clock_map *map, uint64_t ticks)
{
	unsigned int oldest = map->count > RP_CLOCK_POINTS ? map->count - RP_CLOCK_POINTS : 0;
	unsigned int at = map->current < oldest ? oldest : map->current;
	const struct rp_clock_point *point;

	if (!rp_clock_is_tsc) {
		seek_around(&map->line, ticks);
		return;
	}
	while (at > oldest && ticks < map->points[at % RP_CLOCK_POINTS].ticks)
		at--;
	while (at + 1 < map->count && ticks >= map->points[(at + 1) % RP_CLOCK_POINTS].ticks)
		at++;
	map->current = at;
	point = &map->points[at % RP_CLOCK_POINTS];
	map->line = (struct rp_clock_line){
		.from = at > oldest ? point->ticks : 0,
		.ticks = point->ticks,
		.ns = point->ns,
		.ns_per_tick = point->ns_per_tick,
	};
	map->line.span = (at + 1 < map->count ? map->points[(at + 1) % RP_CLOCK_POINTS].ticks :
			  UINT64_MAX) - map->line.from;
}
