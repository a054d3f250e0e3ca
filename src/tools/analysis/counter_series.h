/* SPDX-License-Identifier: MIT */
/*
 * The series of all counters in a trace: the values that one counter of a process had, with one
 * set of tags. A distribution has a series for each of its quantiles. A rate is per second where
 * the event states its interval, and otherwise the increase in the interval.
 *
 * The memory is bounded: samples of series beyond RP_COUNTER_SERIES_MAX are ignored and counted. Of
 * all series together, the first RP_COUNTER_POINTS_MAX points are kept; the sums have all of them.
 */
#ifndef RP_TOOL_COUNTER_SERIES_H
#define RP_TOOL_COUNTER_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/trace/text_pool.h"
#include "tools/trace/counter_sample.h"

#define RP_COUNTER_SERIES_MAX 20000u
#define RP_COUNTER_POINTS_MAX (4u << 20)

struct rp_counter_point {
	int64_t time_ns;
	double value;
};

struct rp_counter_series {
	uint64_t process;
	const char *provider, *name, *tags, *unit, *display;	/* "": none */
	double quantile;		/* from 0 to 1; negative: the series is no quantile */
	bool is_rate;
	bool is_instrument;		/* from System.Diagnostics.Metrics */
	uint64_t count;
	int64_t first_ns, last_ns;
	double first, last, min, max, mean;
	struct rp_counter_point *points;
	size_t point_count, point_capacity;
};

/* Initialise it with zeros. */
struct rp_counter_set {
	struct rp_counter_series **series;	/* see rp_counter_set_sort() */
	size_t count, capacity;
	uint64_t ignored;		/* samples of further series */
	uint64_t points;
	void *tree;			/* of the series, by tsearch(3) */
	struct rp_text_pool texts;
};

/* Take an event of a process. Events without counters are ignored. Return: 0; -ENOMEM. */
int rp_counter_set_take(struct rp_counter_set *set, const struct rp_reader_event *event,
			uint64_t process);

/* Sort the series by process, provider, name, tags and quantile. */
void rp_counter_set_sort(struct rp_counter_set *set);

void rp_counter_set_fini(struct rp_counter_set *set);

#endif
