/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "counter/buckets.h"
#include "counter/state.h"

void rp_view_init(struct rp_view *view)
{
	CDS_INIT_LIST_HEAD(&view->marks);
	view->count = 0;
	view->histograms = 0;
}

static void drop_mark(struct rp_mark *mark)
{
	cds_list_del(&mark->of_series);
	cds_list_del(&mark->of_view);
	mark->view->count--;
	mark->view->histograms -= mark->buckets != NULL;
	free(mark->buckets);
	free(mark);
}

void rp_view_fini(struct rp_view *view)
{
	struct rp_mark *mark, *next;

	cds_list_for_each_entry_safe(mark, next, &view->marks, of_view)
		drop_mark(mark);
}

void rp_series_forget(struct rp_series *series)
{
	struct rp_mark *mark, *next;

	cds_list_for_each_entry_safe(mark, next, &series->marks, of_series)
		drop_mark(mark);
}

struct rp_mark *rp_view_find(struct rp_view *view, const struct rp_series *series)
{
	struct rp_mark *mark;

	cds_list_for_each_entry(mark, &series->marks, of_series) {
		if (mark->view == view)
			return mark;
	}
	return NULL;
}

static void raise_to(uint64_t *word, uint64_t to)
{
	if (*word < to)
		*word = to;
}

static struct rp_histogram_header *header_of(char *chunk, uint32_t row)
{
	return (struct rp_histogram_header *)rp_cell_row(chunk, row);
}

/* Reset the smallest and the largest value in the cells, and store them in all marks. */
static void hand_out_extremes(struct rp_series *series)
{
	uint64_t max = 0, min = 0;
	struct rp_mark *mark;

	for (uint32_t row = 0; row < rp_cell_row_count(); row++) {
		struct rp_histogram_header *header = header_of(series->public.cells, row);

		/* A write would allocate memory for a row that has none. */
		if (rp_load_relaxed(&header->max) != 0)
			raise_to(&max, rp_exchange_seq_cst(&header->max, 0));
		if (rp_load_relaxed(&header->min) != 0)
			raise_to(&min, rp_exchange_seq_cst(&header->min, 0));
	}
	cds_list_for_each_entry(mark, &series->marks, of_series) {
		raise_to(&mark->max, max);
		raise_to(&mark->min, min);
	}
}

/*
 * Get the range of buckets that may be non-zero in any row. The range covers all rows, because a
 * thread may move to another row after it has updated the range and before it counts. If the range
 * is empty, `first` is greater than `end`.
 */
static void range_of(char *chunk, uint32_t *ret_first, uint32_t *ret_end)
{
	uint64_t max = 0, min = 0;

	for (uint32_t row = 0; row < rp_cell_row_count(); row++) {
		struct rp_histogram_header *header = header_of(chunk, row);

		raise_to(&max, rp_load_acquire(&header->ever_max));
		raise_to(&min, rp_load_acquire(&header->ever_min));
	}
	*ret_first = min ? rp_bucket_of(~min) : RP_BUCKET_COUNT;
	*ret_end = max ? rp_bucket_of(max - 1) + 1 : 0;
}

/* Add one row's buckets from `first` to `end`. */
static void add_row(char *chunk, uint32_t row, uint64_t *buckets, uint32_t first, uint32_t end)
{
	const uint64_t *words = (const uint64_t *)(rp_cell_row(chunk, row) + RP_BUCKETS_OFFSET);

	for (uint32_t i = first; i < end; i++)
		buckets[i] += rp_load_relaxed(&words[i]);
}

static double add_sums(char *chunk)
{
	double sum = 0;

	for (uint32_t row = 0; row < rp_cell_row_count(); row++)
		sum += rp_double_of(rp_load_relaxed(&header_of(chunk, row)->sum_bits));
	return sum;
}

static void take_histogram(struct rp_mark *mark, struct rp_delta *delta)
{
	char *chunk = mark->series->public.cells;
	uint32_t first, end;
	double sum;
	uint64_t *now, total = 0;

	now = calloc(RP_BUCKET_COUNT, sizeof(*now));
	if (!now)
		return;		/* the next collection reports the values */
	sum = add_sums(chunk);
	range_of(chunk, &first, &end);
	for (uint32_t row = 0; row < rp_cell_row_count(); row++)
		add_row(chunk, row, now, first, end);
	hand_out_extremes(mark->series);
	for (uint32_t i = first; i < end; i++) {
		uint64_t count = now[i] - mark->buckets[i];

		delta->buckets[i] += count;
		delta->count += count;
		total += now[i];
	}
	delta->first = first < delta->first ? first : delta->first;
	delta->end = end > delta->end ? end : delta->end;
	delta->sum += sum - mark->total;
	raise_to(&delta->max, mark->max);
	raise_to(&delta->min, mark->min);
	free(mark->buckets);
	mark->buckets = now;
	mark->total = sum;
	mark->count = total;
	mark->max = 0;
	mark->min = 0;
}

/* Return the sum of what objects that declare the counter counted before the cells existed. */
static uint64_t count_early(const struct rp_series *series)
{
	uint64_t sum = series->early + rp_load_relaxed(&series->public.early);
	struct rp_counter_site *site;

	cds_list_for_each_entry(site, &series->sites, node)
		sum += rp_load_relaxed(&site->counter->early);
	return sum;
}

static void take_sum(struct rp_mark *mark, struct rp_delta *delta)
{
	struct rp_series *series = mark->series;
	int64_t now = (int64_t)(rp_cell_sum(series->public.cells) + count_early(series));

	delta->value += (double)now;
	delta->change += (double)(now - mark->sum);
	delta->has_value = true;
	delta->has_change = true;
	mark->sum = now;
}

static void take_gauge(struct rp_mark *mark, struct rp_delta *delta)
{
	uint64_t stored = rp_load_relaxed((uint64_t *)mark->series->public.cells);

	if (stored == 0)
		stored = count_early(mark->series);
	if (stored == 0)
		return;
	delta->value = rp_double_of(stored - 1);
	delta->has_value = true;
}

static void take_observed(struct rp_mark *mark, struct rp_delta *delta)
{
	struct rp_series *series = mark->series;

	if (!series->is_seen)
		return;
	delta->value += series->seen;
	delta->has_value = true;
	if (mark->has_seen) {
		delta->change += series->seen - mark->seen;
		delta->has_change = true;
	}
	mark->seen = series->seen;
	mark->has_seen = true;
}

void rp_mark_take(struct rp_mark *mark, struct rp_delta *delta)
{
	uint32_t kind = mark->series->instrument->kind;

	if (kind == RP_COUNTER_HISTOGRAM)
		take_histogram(mark, delta);
	else if (kind == RP_COUNTER_GAUGE)
		take_gauge(mark, delta);
	else if (rp_kind_is_observed(kind))
		take_observed(mark, delta);
	else
		take_sum(mark, delta);
}

/* Begin a mark that excludes the values recorded before it. */
static int begin_mark(struct rp_mark *mark)
{
	struct rp_delta before;
	int ret = rp_delta_init(&before, mark->series->instrument->kind);

	if (ret != 0)
		return ret;
	rp_mark_take(mark, &before);
	rp_delta_fini(&before);
	return 0;
}

/*
 * Begin a mark with the extremes since the series was created. Those in the cells do not suffice,
 * because another view may have reset them.
 */
static void remember_extremes(struct rp_mark *mark)
{
	for (uint32_t row = 0; row < rp_cell_row_count(); row++) {
		struct rp_histogram_header *header = header_of(mark->series->public.cells, row);

		raise_to(&mark->max, rp_load_relaxed(&header->ever_max));
		raise_to(&mark->min, rp_load_relaxed(&header->ever_min));
	}
}

int rp_view_mark(struct rp_view *view, struct rp_series *series, bool from_start,
		 struct rp_mark **ret_mark)
{
	bool is_histogram = series->instrument->kind == RP_COUNTER_HISTOGRAM;
	struct rp_mark *mark = calloc(1, sizeof(*mark));
	int ret = 0;

	if (mark && is_histogram)
		mark->buckets = calloc(RP_BUCKET_COUNT, sizeof(*mark->buckets));
	if (!mark || (is_histogram && !mark->buckets)) {
		free(mark);
		return -ENOMEM;
	}
	mark->view = view;
	mark->series = series;
	cds_list_add_tail(&mark->of_series, &series->marks);
	cds_list_add_tail(&mark->of_view, &view->marks);
	view->count++;
	view->histograms += is_histogram;
	if (!from_start)
		ret = begin_mark(mark);
	else if (is_histogram)
		remember_extremes(mark);
	else if (series->instrument->kind == RP_COUNTER_OBSERVED_SUM)
		mark->has_seen = true;
	if (ret != 0) {
		drop_mark(mark);
		return ret;
	}
	if (ret_mark)
		*ret_mark = mark;
	return 0;
}

int rp_view_take(struct rp_view *view, struct rp_instrument *instrument, struct rp_delta *delta)
{
	struct rp_series *series;

	cds_list_for_each_entry(series, &instrument->series, node) {
		struct rp_mark *mark = rp_view_find(view, series);
		int ret = mark ? 0 : rp_view_mark(view, series, true, &mark);

		if (ret != 0)
			return ret;
		rp_mark_take(mark, delta);
		/* A gauge cannot be summed: use only the series without tags. */
		if (rp_kind_is_gauge(instrument->kind))
			break;
	}
	return 0;
}

int rp_delta_init(struct rp_delta *delta, uint32_t kind)
{
	memset(delta, 0, sizeof(*delta));
	delta->first = RP_BUCKET_COUNT;
	if (kind != RP_COUNTER_HISTOGRAM)
		return 0;
	delta->buckets = calloc(RP_BUCKET_COUNT, sizeof(*delta->buckets));
	return delta->buckets ? 0 : -ENOMEM;
}

void rp_delta_fini(struct rp_delta *delta)
{
	free(delta->buckets);
}

/*
 * Return the minimum or maximum of an interval. `bucket` is the lowest or highest bucket that has
 * values in the interval, and `bits` is the stored minimum or maximum.
 *
 * A series stores these extremes apart from its buckets. If a thread records a value while a reader
 * collects an interval, the value may count in one interval by its bucket, and in another one as an
 * extreme. A stored extreme that does not lie in `bucket` therefore belongs to another interval. In
 * that case, or if none is stored, return the middle of `bucket`.
 */
static double extreme(uint64_t bits, bool is_known, uint32_t bucket)
{
	return is_known && rp_bucket_of(bits) == bucket ? rp_double_of(bits) :
	       rp_bucket_value(bucket);
}

double rp_delta_max(const struct rp_delta *delta)
{
	uint32_t bucket = delta->end;

	while (bucket > delta->first && delta->buckets[bucket - 1] == 0)
		bucket--;
	return bucket > delta->first ? extreme(delta->max - 1, delta->max != 0, bucket - 1) : 0;
}

double rp_delta_min(const struct rp_delta *delta)
{
	uint32_t bucket = delta->first;

	while (bucket < delta->end && delta->buckets[bucket] == 0)
		bucket++;
	return bucket < delta->end ? extreme(~delta->min, delta->min != 0, bucket) : 0;
}

double rp_delta_mean(const struct rp_delta *delta)
{
	return delta->count ? delta->sum / (double)delta->count : 0;
}

/* Return the square root, by Newton's method from above: the library does not link to libm. */
static double square_root(double number)
{
	double root = number > 1 ? number : 1, next;

	if (!(number > 0) || number - number != 0)
		return 0;
	for (;;) {
		next = (root + number / root) / 2;
		if (next >= root)
			return root;
		root = next;
	}
}

/*
 * The deviation is computed from the middles of the buckets, not from a running sum of squares.
 * That sum would grow for ever: after one value far above the others, rounding would hide all
 * recent values.
 */
double rp_delta_deviation(const struct rp_delta *delta)
{
	double mean = 0, sum = 0;

	if (!delta->count)
		return 0;
	for (uint32_t i = delta->first; i < delta->end; i++)
		mean += (double)delta->buckets[i] * rp_bucket_value(i) / (double)delta->count;
	for (uint32_t i = delta->first; i < delta->end; i++) {
		double distance = rp_bucket_value(i) - mean;

		sum += (double)delta->buckets[i] * distance * distance;
	}
	return square_root(sum / (double)delta->count);
}

/*
 * Return the smallest recorded value that at least the part `quantile` (0 to 1) of all values does
 * not exceed. The result is the middle of that value's bucket, limited by the minimum and the
 * maximum.
 */
double rp_delta_quantile(const struct rp_delta *delta, double quantile)
{
	double rank = quantile * (double)delta->count, value;
	double min = rp_delta_min(delta), max = rp_delta_max(delta);
	uint64_t seen = 0;
	uint32_t bucket;

	if (!delta->count)
		return 0;
	for (bucket = delta->first; bucket + 1 < delta->end; bucket++) {
		seen += delta->buckets[bucket];
		if (seen > 0 && (double)seen >= rank)
			break;
	}
	value = rp_bucket_value(bucket);
	/* The extremes are exact; the middle of a bucket may lie outside them. */
	if (value > max)
		value = max;
	return value < min ? min : value;
}
