/* SPDX-License-Identifier: MIT */
/* Prints how threads spent their time, in words or as rows. */
#ifndef RP_TOOL_EXPLAIN_PRINT_H
#define RP_TOOL_EXPLAIN_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/analysis/thread_time.h"
#include "tools/analysis/trace_spans.h"
#include "tools/cli/tool.h"

#define RP_EXPLAIN_DOUBTS 4
#define RP_EXPLAIN_DOUBT_BYTES 256

struct rp_explain_view {
	const struct rp_trace_span *spans;
	size_t count;
	/* In any order; `owner` is the index of the span. */
	const struct rp_thread_interval *intervals;	/* one for each span */
	const struct rp_thread_interval *holders;	/* of the threads that released locks */
	size_t holder_count;
	const struct rp_thread_time *time;	/* what the trace has */
};

/* Print the explanations on standard output. Return: the exit status; -ENOMEM. */
int rp_explain_print(const struct rp_explain_view *view, enum rp_format format);

/*
 * Print one explanation as text.
 * @span: NULL: the interval is not that of a span.
 * @holder: of the thread that released a lock, or NULL.
 * Return: the exit status.
 */
int rp_explain_print_text(const struct rp_trace_span *span,
			  const struct rp_thread_interval *interval,
			  const struct rp_thread_interval *holder, FILE *out);

/*
 * Sort the parts that took time, the longest first.
 * @ret_parts: RP_TIME_PART_COUNT items.
 * Return: the number of parts.
 */
size_t rp_explain_sort_parts(const struct rp_thread_interval *interval,
			     enum rp_time_part *ret_parts);

/* Return: what the thread did most in that part, for free(); NULL: nothing is known of it. */
char *rp_explain_describe(const struct rp_thread_interval *interval, enum rp_time_part part);

/* Write sentences, without a full stop, about what the trace lacks. Return: their number. */
size_t rp_explain_doubts(const struct rp_thread_time *time,
			 char ret_doubts[RP_EXPLAIN_DOUBTS][RP_EXPLAIN_DOUBT_BYTES]);

#endif
