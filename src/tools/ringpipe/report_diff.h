/* SPDX-License-Identifier: MIT */
/* The rows of ringpipe report FILE --diff LATER: what two traces have, and whether it differs. */
#ifndef RP_TOOL_REPORT_DIFF_H
#define RP_TOOL_REPORT_DIFF_H

#include "tools/analysis/significance.h"
#include "tools/analysis/trace_side.h"

/* A row is called changed if its adjusted p-value is at most this. */
#define RP_DIFF_LEVEL 0.05

enum rp_diff_metric {
	RP_DIFF_P50,			/* the median duration; tested by ranks */
	RP_DIFF_P99,			/* by the share from the 99th percentile of both on */
	RP_DIFF_RATE,			/* per second; by the ranks of equal intervals of time */
	RP_DIFF_ERRORS,			/* the share of spans with an error */
	RP_DIFF_SHARE,			/* the share of all samples */
	RP_DIFF_VALUE,			/* the mean value of a counter; by ranks */
};

struct rp_diff_row {
	struct rp_tested tested;	/* the first member */
	const struct rp_side_key *key;
	const char *unit;		/* of a counter */
	enum rp_diff_metric metric;
	double before, after;		/* NaN: the trace has none */
	double effect;			/* the difference, as a share of the larger of the two */
};

struct rp_diff_rows {
	struct rp_diff_row **rows;
	size_t count, capacity;
};

/* Make the rows of an item, of which one may be NULL. Return: 0; -ENOMEM. */
int rp_diff_add(struct rp_diff_rows *rows, const struct rp_trace_side *before_side,
		const struct rp_side_item *before, const struct rp_trace_side *after_side,
		const struct rp_side_item *after);

/* Adjust the p-values, and sort the rows by kind and by size of effect. */
void rp_diff_finish(struct rp_diff_rows *rows);

/* Return: whether the row has changed, by the test. */
bool rp_diff_is_changed(const struct rp_diff_row *row);

/* Return: false, after an error line, if the later trace is no file, which can be opened twice. */
bool rp_diff_is_file(const char *path);

void rp_diff_fini(struct rp_diff_rows *rows);

#endif
