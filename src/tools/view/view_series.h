/* SPDX-License-Identifier: MIT */
/*
 * Counts of events over time, for many threads. A count belongs to a cell of the time, and only
 * cells with events take memory. Series of one set have cells of equal length, a power of two of
 * nanoseconds; when all of them together have more than RP_VIEW_CELLS_MAX cells, the length
 * doubles.
 */
#ifndef RP_TOOL_VIEW_SERIES_H
#define RP_TOOL_VIEW_SERIES_H

#include <stddef.h>
#include <stdint.h>

/* A cell has 8 bytes, and an array that grows has up to twice as many: at most 384 MB. */
#define RP_VIEW_CELLS_MAX (24u << 20)

struct rp_view_cell {
	uint32_t number;		/* time >> shift */
	uint32_t count;
};

/* Initialise it with zeros. */
struct rp_view_series {
	struct rp_view_cell *cells;	/* in the order of time after rp_view_series_sort() */
	size_t count, capacity;
	struct rp_view_series *next;	/* of the set */
	uint8_t is_listed;
};

/* A time of which only the first events were read. They stand for all of it. */
struct rp_view_stretch {
	int64_t from_ns, to_ns;
	double scale;			/* events for each event that was read */
};

/* Initialise it with zeros. */
struct rp_view_series_set {
	unsigned int shift;		/* a cell has 1 << shift nanoseconds */
	uint64_t cells;			/* of all series */
	struct rp_view_series *first;
	/* By time; NULL: all events were read. */
	const struct rp_view_stretch *stretches;
	size_t stretch_count;
};

/* Count an event. A time before 0 counts as 0. The series must not move. Return: 0; -ENOMEM. */
int rp_view_series_add(struct rp_view_series_set *set, struct rp_view_series *series,
		       int64_t time_ns);

/* Call it after the last event. */
void rp_view_series_sort(struct rp_view_series_set *set);

/* Return: the number of bins of the times from `from_ns` on and before `to_ns`. */
static inline size_t rp_view_bin_count(int64_t from_ns, int64_t to_ns, int64_t bin_ns)
{
	const int64_t length = to_ns - from_ns;

	return (size_t)(length / bin_ns + (length % bin_ns != 0));
}

/*
 * Add the counts from `from_ns` on and before `to_ns` to bins of `bin_ns` each. The count of a cell
 * that is longer than a bin is divided among its bins, as is the estimate for a stretch.
 * Return: the sum of the counts.
 */
uint64_t rp_view_series_bins(const struct rp_view_series_set *set,
			     const struct rp_view_series *series, int64_t from_ns, int64_t to_ns,
			     int64_t bin_ns, uint64_t *counts);

void rp_view_series_fini(struct rp_view_series *series);

#endif
