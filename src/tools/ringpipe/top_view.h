/* SPDX-License-Identifier: MIT */
/* One interval of `ringpipe top`, in the order in which it is shown, and its forms. */
#ifndef RP_TOOL_TOP_VIEW_H
#define RP_TOOL_TOP_VIEW_H

#include <stdio.h>

#include "tools/cli/tool.h"
#include "tools/client/target.h"
#include "tools/ringpipe/top_board.h"
#include "tools/ringpipe/top_cost.h"
#include "tools/ringpipe/top_names.h"

enum rp_top_sort {
	RP_TOP_BY_RATE,
	RP_TOP_BY_TOTAL,		/* time */
	RP_TOP_BY_P99,
	RP_TOP_BY_MAX,
	RP_TOP_BY_NAME,
	RP_TOP_SORT_COUNT,
};

struct rp_top_view {
	const struct rp_target *target;
	double interval_s;
	int64_t utc_ns;			/* of the end of the interval */
	enum rp_top_sort sort;
	struct rp_top_cut cut;
	struct rp_top_function *functions;	/* by samples, for free() */
	size_t function_count;
	struct rp_counter_row *counters;	/* for free() */
	size_t counter_count;
	double process_percent, command_percent;	/* as in struct rp_top_cost */
};

/* Sort the spans by `view->sort`. */
void rp_top_view_sort(struct rp_top_view *view);
void rp_top_view_fini(struct rp_top_view *view);

const char *rp_top_sort_name(enum rp_top_sort sort);

/* A text of lines without control characters. */
struct rp_top_lines {
	char **rows;
	size_t count, capacity;
	bool failed;			/* no memory: some lines are missing */
};

/*
 * Format the view for people.
 * @columns: the width to which the columns are fitted
 * @limit: of the rows of each table
 */
void rp_top_lines_format(struct rp_top_lines *lines, const struct rp_top_view *view,
			 size_t columns, size_t limit);
void rp_top_lines_fini(struct rp_top_lines *lines);

/* Print the view to standard output in a format. Return: 0; -ENOMEM; -EIO. */
int rp_top_view_print(const struct rp_top_view *view, enum rp_format format, size_t limit);
/* Print the heading of CSV. */
void rp_top_view_begin(enum rp_format format);

#endif
