/* SPDX-License-Identifier: MIT */
#include "tools/analysis/latency_histogram.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKET_BITS 7
#define BUCKETS (1u << BUCKET_BITS)

/* Row 0 has the durations below BUCKETS, one in each bucket. */
static unsigned int row_of(uint64_t ns)
{
	return ns < BUCKETS ? 0 : (unsigned int)(64 - __builtin_clzll(ns)) - BUCKET_BITS;
}

static unsigned int bucket_of(uint64_t ns, unsigned int row)
{
	return row == 0 ? (unsigned int)ns : (unsigned int)(ns >> (row - 1)) & (BUCKETS - 1);
}

/* Return: the middle of the bucket. */
static uint64_t value_of(unsigned int row, unsigned int bucket)
{
	const uint64_t start = row == 0 ? bucket : (uint64_t)(BUCKETS | bucket) << (row - 1);

	return row < 2 ? start : start + (1ull << (row - 2));
}

int rp_latency_add(struct rp_latency_histogram *histogram, uint64_t ns)
{
	const unsigned int row = row_of(ns);
	uint64_t **counts = &histogram->rows[row];

	if (!*counts)
		*counts = calloc(BUCKETS, sizeof(**counts));
	if (!*counts)
		return -ENOMEM;
	(*counts)[bucket_of(ns, row)]++;
	histogram->count++;
	if (__builtin_add_overflow(histogram->total_ns, ns, &histogram->total_ns))
		histogram->total_ns = UINT64_MAX;
	if (ns > histogram->max_ns)
		histogram->max_ns = ns;
	return 0;
}

uint64_t rp_latency_percentile(const struct rp_latency_histogram *histogram, double share)
{
	const double wanted = share * (double)histogram->count;
	uint64_t seen = 0;

	for (unsigned int row = 0; row < RP_LATENCY_ROWS; row++) {
		for (unsigned int i = 0; histogram->rows[row] && i < BUCKETS; i++) {
			seen += histogram->rows[row][i];
			if (histogram->rows[row][i] && (double)seen >= wanted) {
				const uint64_t ns = value_of(row, i);

				return ns < histogram->max_ns ? ns : histogram->max_ns;
			}
		}
	}
	return histogram->max_ns;
}

size_t rp_latency_bars(const struct rp_latency_histogram *histogram,
		       struct rp_latency_bar *ret_bars)
{
	const unsigned int step = BUCKETS / 8;
	size_t count = 0;

	for (unsigned int row = 0; row < RP_LATENCY_ROWS; row++) {
		const unsigned int shift = row ? row - 1 : 0;
		const uint64_t first = row ? BUCKETS : 0;

		for (unsigned int i = 0; histogram->rows[row] && i < BUCKETS; i += step) {
			struct rp_latency_bar bar = {
				.low_ns = (first + i) << shift,
				.high_ns = (first + i + step) << shift,
			};

			for (unsigned int j = i; j < i + step; j++)
				bar.count += histogram->rows[row][j];
			/* The last bar ends at 2^64, which has no number. */
			if (bar.high_ns < bar.low_ns)
				bar.high_ns = UINT64_MAX;
			if (bar.count)
				ret_bars[count++] = bar;
		}
	}
	return count;
}

void rp_latency_fini(struct rp_latency_histogram *histogram)
{
	for (unsigned int row = 0; row < RP_LATENCY_ROWS; row++)
		free(histogram->rows[row]);
	*histogram = (struct rp_latency_histogram){ 0 };
}
