/* SPDX-License-Identifier: MIT */
/*
 * The clock events are stamped with, and its translation to CLOCK_MONOTONIC nanoseconds.
 *
 * Ticks are the TSC where it is invariant, the kernel's own clocksource, and readable in user
 * space; else nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef RP_BASE_CLOCK_H
#define RP_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Set once by rp_clock_init(): whether ticks are the TSC. */
extern bool rp_clock_is_tsc;

/* Finds out which clock this machine allows. RINGPIPE_CLOCK=tsc|monotonic overrides. */
void rp_clock_init(const char *wanted);

/* CLOCK_MONOTONIC now, in nanoseconds. Context: any, signal handlers included. */
static inline uint64_t rp_clock_monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Ticks now, not before any load or store that precedes the call in program order. */
static inline uint64_t rp_clock_ticks_ordered(void)
{
#if defined(__x86_64__)
	if (rp_clock_is_tsc) {
		__builtin_ia32_lfence();
		return __builtin_ia32_rdtsc();
	}
#endif
	return rp_clock_monotonic_ns();
}

/*
 * The coarse clock: a recent tick count. It is 0 until the first session that uses it. From then on
 * the drain thread advances it every millisecond, unless it gets no CPU.
 */
extern uint64_t rp_clock_coarse __attribute__((visibility("hidden")));

/* Between two events of a thread or a ring while the clock stands: a nanosecond, up to 4 GHz. */
#define RP_CLOCK_STEP 4

/* Moves it on to `ticks`, never back. */
void rp_clock_coarse_move(uint64_t ticks);

/* Readers after the next heavy fence get times later than `ticks`, a time before that fence. */
static inline void rp_clock_coarse_pass(uint64_t ticks)
{
	if (__atomic_load_n(&rp_clock_coarse, __ATOMIC_RELAXED))
		rp_clock_coarse_move(ticks + 1);
}

#define RP_CLOCK_POINTS 128u

/* A stretch of time that is straight: `span` ticks, from `from` on. */
struct rp_clock_line {
	uint64_t from, span;
	uint64_t ticks, ns;		/* a point of it */
	double ns_per_tick;
};

/*
 * Pairs of (ticks, ns), taken now and then; between two of them time is a straight line. One thread
 * at a time.
 */
struct rp_clock_map {
	struct rp_clock_point {
		uint64_t ticks, ns;
		double ns_per_tick;	/* up to the next point */
	} points[RP_CLOCK_POINTS];
	unsigned int count;		/* ever taken; the last RP_CLOCK_POINTS are kept */
	unsigned int current;		/* the segment used last */
	struct rp_clock_line line;	/* the same; of no span where it is to be looked up */
	/*
	 * True pairs, the newer at most a second old or the last: the rate is measured from the
	 * older.
	 */
	struct rp_clock_point anchors[2];
};

/* Takes a first pair. */
void rp_clock_map_init(struct rp_clock_map *map);

/* Takes another pair, if the last one is at least 10 ms old, or the map was at rest. */
void rp_clock_map_update(struct rp_clock_map *map);

/*
 * Nobody needs what was given out so far to go on without a jump: the next update begins at the
 * true time, however long from now.
 */
void rp_clock_map_rest(struct rp_clock_map *map);

/* Finds the line that the tick is on. */
void rp_clock_map_seek(struct rp_clock_map *map, uint64_t ticks);

/* The newest point; there is one unless the map is at rest. */
static inline const struct rp_clock_point *rp_clock_map_newest(const struct rp_clock_map *map)
{
	return &map->points[(map->count - 1) % RP_CLOCK_POINTS];
}

/*
 * Nanoseconds of the tick. Monotonic in `ticks` as long as the points are; a tick older than the
 * oldest point kept, or newer than the newest, is extrapolated.
 */
static inline uint64_t rp_clock_map_ns(struct rp_clock_map *map, uint64_t ticks)
{
	const struct rp_clock_line *line = &map->line;

	if (__builtin_expect(ticks - line->from >= line->span, 0))
		rp_clock_map_seek(map, ticks);
	return line->ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - line->ticks) *
					      line->ns_per_tick);
}

#endif
