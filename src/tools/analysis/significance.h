/* SPDX-License-Identifier: MIT */
/*
 * Tests whether two samples differ. All results are two-sided p-values, from 0 to 1; NaN states
 * that a sample is too small for the test.
 */
#ifndef RP_TOOL_SIGNIFICANCE_H
#define RP_TOOL_SIGNIFICANCE_H

#include <stddef.h>
#include <stdint.h>

/* The values that each sample of a rank test needs. */
#define RP_RANK_VALUES_MIN 4u

/* How often a value, or values that count as equal, are in each sample. */
struct rp_rank_tie {
	uint64_t before, after;
};

/*
 * Test whether the values of one sample tend to be larger (Mann-Whitney), by the normal
 * approximation with corrections for ties and for continuity.
 * @ties: in ascending order of their values.
 * @inflation: the factor by which the dependence of successive values raises the variance; 1: none.
 */
double rp_rank_test(const struct rp_rank_tie *ties, size_t count, double inflation);

/*
 * Test two series of values, which are in the order of time. Successive values of a series may
 * depend on each other: the correlation of neighbours in both series raises the variance.
 * @ret_p: the p-value.
 * Return: 0; -ENOMEM.
 */
int rp_series_test(const double *before, size_t before_count, const double *after,
		   size_t after_count, double *ret_p);

/*
 * Test whether `before` of `before_all` and `after` of `after_all` are equal shares, by Fisher's
 * exact test or, of large samples, by the normal approximation.
 */
double rp_share_test(uint64_t before, uint64_t before_all, uint64_t after, uint64_t after_all);

/* A p-value, and the value that rp_adjust() makes of it. */
struct rp_tested {
	double p;			/* NaN: not tested */
	double q;
};

/*
 * Correct for the number of tests (Benjamini-Hochberg): the expected share of rows without a
 * difference, among those whose `q` is at most x, is at most x. The rows are sorted by p; NaN comes
 * last.
 */
void rp_adjust(struct rp_tested **rows, size_t count);

#endif
