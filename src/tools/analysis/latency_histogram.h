/* SPDX-License-Identifier: MIT */
/*
 * Counts durations, and returns their percentiles with a relative error below 0.4 %.
 *
 * Each power of two is divided into 128 equal buckets, as in HdrHistogram. The rows of powers that
 * do not occur take no memory.
 */
#ifndef RP_TOOL_LATENCY_HISTOGRAM_H
#define RP_TOOL_LATENCY_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define RP_LATENCY_ROWS 58

#define RP_LATENCY_BUCKETS 128

/* Initialise it with zeros. The buckets of a row, and the rows, are in ascending order. */
struct rp_latency_histogram {
	uint64_t count, total_ns, max_ns;	/* total: UINT64_MAX if the sum is above it */
	uint64_t *rows[RP_LATENCY_ROWS];	/* of RP_LATENCY_BUCKETS counts; or NULL */
};

/* Return: 0; -ENOMEM. */
int rp_latency_add(struct rp_latency_histogram *histogram, uint64_t ns);

/*
 * Return the smallest duration that `share` of all durations do not exceed, or 0 if there are none.
 * @share: from 0 to 1
 */
uint64_t rp_latency_percentile(const struct rp_latency_histogram *histogram, double share);

#define RP_LATENCY_BARS (8 * RP_LATENCY_ROWS)

/* A bar of a plot. */
struct rp_latency_bar {
	uint64_t low_ns, high_ns;	/* high_ns is exclusive */
	uint64_t count;
};

/*
 * Divide each power of two into eight bars, and return those that have durations, the shortest
 * first.
 * @ret_bars: RP_LATENCY_BARS items.
 * Return: the number of bars.
 */
size_t rp_latency_bars(const struct rp_latency_histogram *histogram,
		       struct rp_latency_bar *ret_bars);

void rp_latency_fini(struct rp_latency_histogram *histogram);

#endif
