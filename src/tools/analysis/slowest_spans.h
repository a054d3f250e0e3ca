/* SPDX-License-Identifier: MIT */
/* Keeps the spans that took longest. */
#ifndef RP_TOOL_SLOWEST_SPANS_H
#define RP_TOOL_SLOWEST_SPANS_H

#include "tools/analysis/trace_spans.h"

struct rp_slowest_spans {
	struct rp_trace_span *spans;	/* a heap until they are sorted: the fastest is the first */
	size_t count, max;
};

/* Keep at most `max` spans. Return: 0; -ENOMEM. */
int rp_slowest_spans_init(struct rp_slowest_spans *slowest, size_t max);

/* Add a span, which takes the place of the fastest if there are `max` spans and it is slower. */
void rp_slowest_spans_add(struct rp_slowest_spans *slowest, const struct rp_trace_span *span);

/* Put the slowest first, and of two equal ones the earlier. Then nothing can be added any more. */
void rp_slowest_spans_sort(struct rp_slowest_spans *slowest);

void rp_slowest_spans_fini(struct rp_slowest_spans *slowest);

/* Return: the span's duration in nanoseconds. */
static inline uint64_t rp_span_duration(const struct rp_trace_span *span)
{
	return (uint64_t)span->stop_ns - (uint64_t)span->start_ns;
}

#endif
