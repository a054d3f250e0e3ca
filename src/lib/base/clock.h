/* SPDX-License-Identifier: MIT */
/*
 * The clock of event times, and its conversion to CLOCK_MONOTONIC nanoseconds.
 *
 * Ticks are the TSC if it is invariant, is the kernel's own clocksource, and is readable in user
 * space; otherwise they are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef RP_BASE_CLOCK_H
#define RP_BASE_CLOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Whether ticks are the TSC; rp_clock_init() sets it once. */
extern bool rp_clock_is_tsc;

/* Whether rdtscp returns the TSC and the processor's number; rp_clock_init() sets it once. */
extern bool rp_clock_has_processor;
#define RP_CLOCK_PROCESSOR_MASK 0xfffu	/* of TSC_AUX; the kernel keeps the node above it */

/* Select the clock that this machine allows. RINGPIPE_CLOCK=tsc|monotonic overrides. */
void rp_clock_init(const char *wanted);

/* The current CLOCK_MONOTONIC time in nanoseconds. Context: any, signal handlers included. */
static inline uint64_t rp_clock_monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The current ticks, not read before any load or store that precedes the call in program order. */
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

/* As rp_clock_ticks_ordered(), with the number of a processor on which the thread just ran. */
static inline uint64_t rp_clock_ticks_processor(uint16_t *ret_processor)
{
#if defined(__x86_64__)
	if (rp_clock_has_processor) {
		unsigned int aux;
		uint64_t ticks = __builtin_ia32_rdtscp(&aux);

		*ret_processor = (uint16_t)(aux & RP_CLOCK_PROCESSOR_MASK);
		return ticks;
	}
#endif
	*ret_processor = (uint16_t)sched_getcpu();	/* vDSO or rseq: no system call */
	return rp_clock_ticks_ordered();
}

/*
 * The coarse clock: a recent tick count. It is 0 until the first session that uses it. From then on
 * the drain thread advances it every millisecond, unless that thread gets no CPU time.
 */
extern uint64_t rp_clock_coarse __attribute__((visibility("hidden")));

/* Ticks between two events of a thread or ring at one coarse time: >= 1 ns, up to 4 GHz. */
#define RP_CLOCK_STEP 4

/* Advance the clock to `ticks`, and never move it back. */
void rp_clock_coarse_move(uint64_t ticks);

/* Readers after the next heavy fence get times later than `ticks`, a time before that fence. */
static inline void rp_clock_coarse_pass(uint64_t ticks)
{
	if (__atomic_load_n(&rp_clock_coarse, __ATOMIC_RELAXED))
		rp_clock_coarse_move(ticks + 1);
}

#define RP_CLOCK_POINTS 128u

/* A line segment: `span` ticks, beginning at `from`, with a constant rate. */
struct rp_clock_line {
	uint64_t from, span;
	uint64_t ticks, ns;		/* a point on the line */
	double ns_per_tick;
};

/*
 * Pairs of (ticks, ns), taken at intervals; time is linear between two pairs. Context: one thread
 * at a time.
 */
struct rp_clock_map {
	struct rp_clock_point {
		uint64_t ticks, ns;
		double ns_per_tick;	/* rate up to the next point */
	} points[RP_CLOCK_POINTS];
	unsigned int count;		/* points ever taken; the last RP_CLOCK_POINTS remain */
	unsigned int current;		/* index of the segment used last */
	struct rp_clock_line line;	/* that segment; span 0: call rp_clock_map_seek() */
	/*
	 * True pairs, from the older of which the rate is measured. The newer one is at most a
	 * second old at an update.
	 */
	struct rp_clock_point anchors[2];
};

/* Take the first pairs. */
void rp_clock_map_init(struct rp_clock_map *map);

/* Take another pair, if the last one is at least 10 ms old or the map was at rest. */
void rp_clock_map_update(struct rp_clock_map *map);

/*
 * Put the map at rest: no reader needs times that continue without a jump. The next update begins
 * at the true time, however much later it is.
 */
void rp_clock_map_rest(struct rp_clock_map *map);

/* Find the line that contains the tick. */
void rp_clock_map_seek(struct rp_clock_map *map, uint64_t ticks);

/* The newest point. The map must not be at rest. */
static inline const struct rp_clock_point *rp_clock_map_newest(const struct rp_clock_map *map)
{
	return &map->points[(map->count - 1) % RP_CLOCK_POINTS];
}

/*
 * Convert a tick to nanoseconds. As long as the points increase, the result never decreases for
 * increasing ticks. The function extrapolates before the oldest stored point and after
 * the newest.
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
