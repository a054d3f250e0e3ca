/* SPDX-License-Identifier: MIT */
/* Prints what `ringpipe explain` found. */
#ifndef RP_TOOL_EXPLAIN_PRINT_H
#define RP_TOOL_EXPLAIN_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/analysis/thread_time.h"
#include "tools/analysis/trace_spans.h"
#include "tools/cli/tool.h"

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

#endif
