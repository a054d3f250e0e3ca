/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/ringpipe/report_diff.h"

#define LATENCY_TIES (RP_LATENCY_ROWS * RP_LATENCY_BUCKETS)
/* Fewer durations have no 99th percentile. */
#define P99_COUNT_MIN 200u

static const struct rp_side_item none;

/* The two items that a row compares. */
struct pair {
	const struct rp_trace_side *before_side, *after_side;
	const struct rp_side_item *before, *after;	/* `none`, instead of NULL */
	const struct rp_side_key *key;
};

static int add_row(struct rp_diff_rows *rows, const struct pair *pair, enum rp_diff_metric metric,
		   double before, double after, double p)
{
	struct rp_diff_row **grown = rp_array_reserve(rows->rows, rows->count, &rows->capacity, 1,
						      sizeof(*grown));
	const double larger = fabs(before) > fabs(after) ? fabs(before) : fabs(after);
	struct rp_diff_row *row;

	if (!grown)
		return -ENOMEM;
	rows->rows = grown;
	row = malloc(sizeof(*row));
	if (!row)
		return -ENOMEM;
	*row = (struct rp_diff_row){
		.tested = { .p = p, .q = NAN }, .key = pair->key, .metric = metric,
		.unit = pair->before->unit ? pair->before->unit : pair->after->unit,
		.before = before, .after = after,
		/* Halves, because the difference of two huge values overflows. */
		.effect = isnan(before) || isnan(after) || larger == 0 ? 0 :
			  2 * (after / larger / 2 - before / larger / 2),
	};
	rows->rows[rows->count++] = row;
	return 0;
}

static double percentile(const struct rp_side_item *item, double share)
{
	return item->count ? (double)rp_latency_percentile(&item->latency, share) : NAN;
}

/* Make a tie of each bucket that one of the items uses. Return: the number; 0: no memory. */
static size_t make_ties(const struct pair *pair, struct rp_rank_tie **ret_ties)
{
	struct rp_rank_tie *ties = malloc(LATENCY_TIES * sizeof(*ties));
	size_t count = 0;

	*ret_ties = ties;
	for (size_t row = 0; ties && row < RP_LATENCY_ROWS; row++) {
		const uint64_t *before = pair->before->latency.rows[row];
		const uint64_t *after = pair->after->latency.rows[row];

		for (size_t i = 0; (before || after) && i < RP_LATENCY_BUCKETS; i++) {
			ties[count] = (struct rp_rank_tie){ before ? before[i] : 0,
							    after ? after[i] : 0 };
			count += ties[count].before || ties[count].after;
		}
	}
	return count;
}

/* Test the shares from the 99th percentile of both samples together on. */
static double test_tail(const struct pair *pair, const struct rp_rank_tie *ties, size_t count)
{
	const uint64_t all = pair->before->count + pair->after->count;
	uint64_t before = 0, after = 0;

	while (count > 0 && before + after < all / 100) {
		count--;
		before += ties[count].before;
		after += ties[count].after;
	}
	return rp_share_test(before, pair->before->count, after, pair->after->count);
}

static int add_durations(struct rp_diff_rows *rows, const struct pair *pair)
{
	struct rp_rank_tie *ties;
	const size_t count = make_ties(pair, &ties);
	int ret = ties ? 0 : -ENOMEM;

	if (ret == 0)
		ret = add_row(rows, pair, RP_DIFF_P50, percentile(pair->before, 0.5),
			      percentile(pair->after, 0.5), rp_rank_test(ties, count, 1));
	if (ret == 0 && pair->before->count >= P99_COUNT_MIN &&
	    pair->after->count >= P99_COUNT_MIN)
		ret = add_row(rows, pair, RP_DIFF_P99, percentile(pair->before, 0.99),
			      percentile(pair->after, 0.99), test_tail(pair, ties, count));
	free(ties);
	return ret;
}

/* Return: the number per second in the whole intervals. */
static double rates_of(const struct rp_trace_side *side, const struct rp_side_item *item,
		       double *ret_rates)
{
	double sum = 0;

	for (uint32_t i = 0; i < side->interval_count; i++) {
		ret_rates[i] = (double)item->counts[i];
		sum += ret_rates[i];
	}
	return side->interval_count ?
	       sum * 1e9 / ((double)side->interval_ns * side->interval_count) : NAN;
}

static int add_rate(struct rp_diff_rows *rows, const struct pair *pair)
{
	double before[RP_SIDE_INTERVALS_MAX], after[RP_SIDE_INTERVALS_MAX], p;
	const double rate_before = rates_of(pair->before_side, pair->before, before);
	const double rate_after = rates_of(pair->after_side, pair->after, after);
	int ret = rp_series_test(before, pair->before_side->interval_count, after,
				 pair->after_side->interval_count, &p);

	return ret ? ret : add_row(rows, pair, RP_DIFF_RATE, rate_before, rate_after, p);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : NAN;
}

static int add_errors(struct rp_diff_rows *rows, const struct pair *pair)
{
	const struct rp_side_item *before = pair->before, *after = pair->after;

	if (before->errors == 0 && after->errors == 0)
		return 0;
	return add_row(rows, pair, RP_DIFF_ERRORS, share(before->errors, before->count),
		       share(after->errors, after->count),
		       rp_share_test(before->errors, before->count, after->errors, after->count));
}

static int add_samples(struct rp_diff_rows *rows, const struct pair *pair)
{
	const uint64_t before = pair->before_side->totals[RP_SIDE_CPU];
	const uint64_t after = pair->after_side->totals[RP_SIDE_CPU];

	return add_row(rows, pair, RP_DIFF_SHARE, share(pair->before->count, before),
		       share(pair->after->count, after),
		       rp_share_test(pair->before->count, before, pair->after->count, after));
}

static double mean(const struct rp_side_item *item)
{
	double sum = 0;

	for (uint64_t i = 0; i < item->count; i++)
		sum += item->values[i] / (double)item->count;
	return item->count ? sum : NAN;
}

static int add_values(struct rp_diff_rows *rows, const struct pair *pair)
{
	double p;
	int ret = rp_series_test(pair->before->values, pair->before->count, pair->after->values,
				 pair->after->count, &p);

	return ret ? ret : add_row(rows, pair, RP_DIFF_VALUE, mean(pair->before),
				   mean(pair->after), p);
}

int rp_diff_add(struct rp_diff_rows *rows, const struct rp_trace_side *before_side,
		const struct rp_side_item *before, const struct rp_trace_side *after_side,
		const struct rp_side_item *after)
{
	const struct pair pair = {
		.before_side = before_side, .after_side = after_side,
		.before = before ? before : &none, .after = after ? after : &none,
		.key = before ? &before->key : &after->key,
	};
	int ret;

	if (pair.key->kind == RP_SIDE_CPU)
		return add_samples(rows, &pair);
	if (pair.key->kind == RP_SIDE_COUNTER)
		return add_values(rows, &pair);
	ret = add_durations(rows, &pair);
	if (ret == 0)
		ret = add_rate(rows, &pair);
	return ret ? ret : add_errors(rows, &pair);
}

bool rp_diff_is_changed(const struct rp_diff_row *row)
{
	return row->tested.q <= RP_DIFF_LEVEL;
}

/* The difference of two shares of all samples is what they add to the time; see compare(). */
static double size_of(const struct rp_diff_row *row)
{
	return row->metric == RP_DIFF_SHARE ? fabs(row->after - row->before) : fabs(row->effect);
}

static int compare(const void *left, const void *right)
{
	const struct rp_diff_row *a = *(void *const *)left, *b = *(void *const *)right;
	const double first = size_of(a), second = size_of(b);
	int order = (a->key->kind > b->key->kind) - (a->key->kind < b->key->kind);

	if (!order)
		order = rp_diff_is_changed(b) - rp_diff_is_changed(a);
	if (!order)
		order = (first < second) - (first > second);
	for (size_t i = 0; !order && i < sizeof(a->key->texts) / sizeof(a->key->texts[0]); i++)
		order = strcmp(a->key->texts[i], b->key->texts[i]);
	if (!order)
		order = (a->key->quantile > b->key->quantile) -
			(a->key->quantile < b->key->quantile);
	return order ? order : (int)a->metric - (int)b->metric;
}

void rp_diff_finish(struct rp_diff_rows *rows)
{
	/* A row begins with what rp_adjust() takes. */
	rp_adjust((struct rp_tested **)rows->rows, rows->count);
	if (rows->count)
		qsort(rows->rows, rows->count, sizeof(*rows->rows), compare);
}

void rp_diff_fini(struct rp_diff_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->rows[i]);
	free(rows->rows);
	*rows = (struct rp_diff_rows){ 0 };
}
