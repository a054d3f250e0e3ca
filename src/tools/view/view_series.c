/* SPDX-License-Identifier: MIT */
#include "tools/view/view_series.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

static int compare_cells(const void *left, const void *right)
{
	const struct rp_view_cell *a = left, *b = right;

	return (a->number > b->number) - (a->number < b->number);
}

/* Make one cell of equal ones. */
static void merge_cells(struct rp_view_series *series)
{
	size_t kept = 0;

	for (size_t i = 0; i < series->count; i++) {
		const struct rp_view_cell cell = series->cells[i];

		if (kept && series->cells[kept - 1].number == cell.number)
			series->cells[kept - 1].count += cell.count;
		else
			series->cells[kept++] = cell;
	}
	series->count = kept;
}

static void coarsen(struct rp_view_series_set *set, unsigned int steps)
{
	set->shift += steps;
	set->cells = 0;
	for (struct rp_view_series *series = set->first; series; series = series->next) {
		for (size_t i = 0; i < series->count; i++)
			series->cells[i].number = steps < 32 ? series->cells[i].number >> steps : 0;
		merge_cells(series);
		set->cells += series->count;
	}
}

int rp_view_series_add(struct rp_view_series_set *set, struct rp_view_series *series,
		       int64_t time_ns)
{
	const uint64_t time = time_ns > 0 ? (uint64_t)time_ns : 0;
	struct rp_view_cell *cells = series->cells;
	unsigned int steps = 0;

	while (time >> set->shift >> steps > UINT32_MAX)
		steps++;
	if (set->cells >= RP_VIEW_CELLS_MAX)
		steps++;
	while (steps) {
		coarsen(set, steps);
		steps = set->cells >= RP_VIEW_CELLS_MAX / 2 && set->shift < 63;
	}
	if (series->count && cells[series->count - 1].number == time >> set->shift) {
		cells[series->count - 1].count++;
		return 0;
	}
	cells = rp_array_reserve(cells, series->count, &series->capacity, 1, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	series->cells = cells;
	cells[series->count++] = (struct rp_view_cell){ (uint32_t)(time >> set->shift), 1 };
	set->cells++;
	if (!series->is_listed) {
		series->is_listed = 1;
		series->next = set->first;
		set->first = series;
	}
	return 0;
}

void rp_view_series_sort(struct rp_view_series_set *set)
{
	set->cells = 0;
	for (struct rp_view_series *series = set->first; series; series = series->next) {
		struct rp_view_cell *cells;

		qsort(series->cells, series->count, sizeof(*series->cells), compare_cells);
		merge_cells(series);
		set->cells += series->count;
		cells = realloc(series->cells, series->count * sizeof(*cells));
		if (!cells)
			continue;
		series->cells = cells;
		series->capacity = series->count;
	}
}

static size_t find_cell(const struct rp_view_series *series, uint64_t number)
{
	return RP_PARTITION_POINT(i, series->count, series->cells[i].number < number);
}

/* Divide a count of the time from `start_ns` on among the bins that it covers. */
static uint64_t spread(uint64_t count, int64_t start_ns, double length, int64_t from_ns,
		       int64_t bin_ns, size_t bins, uint64_t *counts)
{
	uint64_t given = 0, sum = 0;
	size_t i = start_ns > from_ns ? (size_t)((start_ns - from_ns) / bin_ns) : 0;

	/* The part of the time before the first bin is outside of the range. */
	if (start_ns < from_ns)
		given = (uint64_t)((double)(from_ns - start_ns) / length * (double)count + 0.5);
	/* Rounding the running total keeps the sum of a time that the range contains. */
	for (; i < bins; i++) {
		const int64_t end = from_ns + (int64_t)(i + 1) * bin_ns;
		const double part = (double)(end - start_ns) / length;
		const uint64_t total = part >= 1 ? count :
				       (uint64_t)(part * (double)count + 0.5);

		if (total > given) {
			counts[i] += total - given;
			sum += total - given;
			given = total;
		}
		if (part >= 1)
			break;
	}
	return sum;
}

/* Return: the sum of the cells that start in the stretch. */
static uint64_t count_stretch(const struct rp_view_series_set *set,
			      const struct rp_view_series *series,
			      const struct rp_view_stretch *stretch)
{
	const uint64_t first = stretch->from_ns > 0 ? (uint64_t)stretch->from_ns >> set->shift : 0;
	const uint64_t end = stretch->to_ns > 0 ? (uint64_t)stretch->to_ns >> set->shift : 0;
	uint64_t sum = 0;

	for (size_t i = find_cell(series, first);
	     i < series->count && series->cells[i].number < end; i++)
		sum += series->cells[i].count;
	return sum;
}

static uint64_t estimate_bins(const struct rp_view_series_set *set,
			      const struct rp_view_series *series, int64_t from_ns, int64_t to_ns,
			      int64_t bin_ns, uint64_t *counts)
{
	const size_t bins = rp_view_bin_count(from_ns, to_ns, bin_ns);
	uint64_t sum = 0;

	for (size_t i = 0; i < set->stretch_count; i++) {
		const struct rp_view_stretch *stretch = &set->stretches[i];
		const uint64_t read = count_stretch(set, series, stretch);

		if (read && stretch->to_ns > from_ns && stretch->from_ns < to_ns)
			sum += spread((uint64_t)((double)read * stretch->scale + 0.5),
				      stretch->from_ns,
				      (double)(stretch->to_ns - stretch->from_ns), from_ns, bin_ns,
				      bins, counts);
	}
	return sum;
}

uint64_t rp_view_series_bins(const struct rp_view_series_set *set,
			     const struct rp_view_series *series, int64_t from_ns, int64_t to_ns,
			     int64_t bin_ns, uint64_t *counts)
{
	const size_t bins = rp_view_bin_count(from_ns, to_ns, bin_ns);
	const uint64_t first = from_ns > 0 ? (uint64_t)from_ns >> set->shift : 0;
	const int64_t cell_ns = (int64_t)(1ull << (set->shift < 62 ? set->shift : 62));
	uint64_t sum = 0;

	if (set->stretches)
		return estimate_bins(set, series, from_ns, to_ns, bin_ns, counts);
	for (size_t i = find_cell(series, first); i < series->count; i++) {
		const struct rp_view_cell *cell = &series->cells[i];
		const int64_t start = (int64_t)((uint64_t)cell->number << set->shift);
		const size_t bin = start >= from_ns ? (size_t)((start - from_ns) / bin_ns) : 0;

		if (start >= to_ns)
			break;
		if (start < from_ns || (start - from_ns) % bin_ns + cell_ns > bin_ns) {
			sum += spread(cell->count, start, (double)(1ull << set->shift), from_ns,
				      bin_ns, bins, counts);
			continue;
		}
		counts[bin] += cell->count;
		sum += cell->count;
	}
	return sum;
}

void rp_view_series_fini(struct rp_view_series *series)
{
	free(series->cells);
	*series = (struct rp_view_series){ 0 };
}
