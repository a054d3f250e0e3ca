/* SPDX-License-Identifier: MIT */
#include "tools/analysis/significance.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The exact test sums at most this number of terms. */
#define EXACT_TERMS_MAX 20000u
#define CORRELATION_MAX 0.99

static double two_sided(double z)
{
	return erfc(fabs(z) / sqrt(2));
}

double rp_rank_test(const struct rp_rank_tie *ties, size_t count, double inflation)
{
	double before = 0, after = 0, wins = 0, tied = 0, all, variance, distance;

	for (size_t i = 0; i < count; i++) {
		const double b = (double)ties[i].before, a = (double)ties[i].after, both = a + b;

		wins += a * (before + b / 2);
		before += b;
		after += a;
		tied += both * (both * both - 1);
	}
	if (before < RP_RANK_VALUES_MIN || after < RP_RANK_VALUES_MIN)
		return NAN;
	all = before + after;
	variance = before * after / 12 * (all + 1 - tied / (all * (all - 1))) * inflation;
	distance = fabs(wins - before * after / 2) - 0.5;
	return variance <= 0 || distance <= 0 ? 1 : two_sided(distance / sqrt(variance));
}

struct placed {
	double value;
	double rank;
	size_t index;			/* in time; those of `after` follow those of `before` */
};

static int by_value(const void *left, const void *right)
{
	const struct placed *a = left, *b = right;

	return (a->value > b->value) - (a->value < b->value);
}

/* Give equal values their mean rank, and count them. Return: the number of ties. */
static size_t rank(struct placed *sorted, size_t count, size_t before_count,
		   struct rp_rank_tie *ties)
{
	size_t tie_count = 0;

	for (size_t i = 0, end; i < count; i = end) {
		struct rp_rank_tie *tie = &ties[tie_count++];

		*tie = (struct rp_rank_tie){ 0 };
		for (end = i; end < count && sorted[end].value <= sorted[i].value; end++) {
			if (sorted[end].index < before_count)
				tie->before++;
			else
				tie->after++;
		}
		for (size_t j = i; j < end; j++)
			sorted[j].rank = (double)(i + end - 1) / 2;
	}
	return tie_count;
}

/* Add the products of neighbours and the squares of a series, from its own mean. */
static void correlate(const double *ranks, size_t count, double *products, double *squares)
{
	double mean = 0;

	for (size_t i = 0; i < count; i++)
		mean += ranks[i] / (double)count;
	for (size_t i = 0; i < count; i++) {
		*squares += (ranks[i] - mean) * (ranks[i] - mean);
		if (i > 0)
			*products += (ranks[i] - mean) * (ranks[i - 1] - mean);
	}
}

int rp_series_test(const double *before, size_t before_count, const double *after,
		   size_t after_count, double *ret_p)
{
	const size_t count = before_count + after_count;
	double products = 0, squares = 0, correlation = 0;
	struct placed *sorted;
	struct rp_rank_tie *ties;
	double *ranks;
	size_t tie_count;

	*ret_p = NAN;
	if (before_count < RP_RANK_VALUES_MIN || after_count < RP_RANK_VALUES_MIN)
		return 0;
	sorted = calloc(count, sizeof(*sorted));
	ties = calloc(count, sizeof(*ties));
	ranks = calloc(count, sizeof(*ranks));
	if (sorted && ties && ranks) {
		for (size_t i = 0; i < count; i++)
			sorted[i] = (struct placed){
				.value = i < before_count ? before[i] : after[i - before_count],
				.index = i,
			};
		qsort(sorted, count, sizeof(*sorted), by_value);
		tie_count = rank(sorted, count, before_count, ties);
		for (size_t i = 0; i < count; i++)
			ranks[sorted[i].index] = sorted[i].rank;
		correlate(ranks, before_count, &products, &squares);
		correlate(ranks + before_count, after_count, &products, &squares);
		if (squares > 0 && products > 0)
			correlation = products / squares < CORRELATION_MAX ? products / squares :
									     CORRELATION_MAX;
		*ret_p = rp_rank_test(ties, tie_count, (1 + correlation) / (1 - correlation));
	}
	free(ranks);
	free(ties);
	free(sorted);
	return isnan(*ret_p) ? -ENOMEM : 0;
}

static double log_choose(double n, double k)
{
	return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

static double share_by_normal(double before, double before_all, double after, double after_all)
{
	const double share = (before + after) / (before_all + after_all);
	const double steps = 1 / before_all + 1 / after_all;
	const double distance = fabs(before / before_all - after / after_all) - steps / 2;
	const double variance = share * (1 - share) * steps;

	return variance <= 0 || distance <= 0 ? 1 : two_sided(distance / sqrt(variance));
}

double rp_share_test(uint64_t before, uint64_t before_all, uint64_t after, uint64_t after_all)
{
	const double n = (double)before_all, m = (double)after_all;
	const double hits = (double)before + (double)after;
	const double low = hits > m ? hits - m : 0, high = hits < n ? hits : n;
	double whole, given, p = 0;

	if (before_all == 0 || after_all == 0)
		return NAN;
	if (high - low > EXACT_TERMS_MAX)
		return share_by_normal((double)before, n, (double)after, m);
	whole = log_choose(n + m, hits);
	given = log_choose(n, (double)before) + log_choose(m, (double)after) - whole;
	/* Sum what is at most as likely; the margin is for equal terms that are rounded. */
	for (double x = low; x <= high; x++) {
		const double term = log_choose(n, x) + log_choose(m, hits - x) - whole;

		if (term <= given + 1e-7)
			p += exp(term);
	}
	return p < 1 ? p : 1;
}

static int by_p(const void *left, const void *right)
{
	const struct rp_tested *a = *(struct rp_tested *const *)left;
	const struct rp_tested *b = *(struct rp_tested *const *)right;

	if (isnan(a->p) || isnan(b->p))
		return isnan(a->p) - isnan(b->p);
	return (a->p > b->p) - (a->p < b->p);
}

void rp_adjust(struct rp_tested **rows, size_t count)
{
	size_t tested = 0;
	double least = 1;

	if (count)
		qsort(rows, count, sizeof(*rows), by_p);
	while (tested < count && !isnan(rows[tested]->p))
		tested++;
	for (size_t i = count; i > 0; i--) {
		struct rp_tested *row = rows[i - 1];
		const double q = row->p * (double)tested / (double)i;

		if (i > tested) {
			row->q = NAN;
			continue;
		}
		least = q < least ? q : least;
		row->q = least;
	}
}
