/* SPDX-License-Identifier: MIT */
#include "tools/analysis/slowest_spans.h"

#include <errno.h>
#include <stdlib.h>

static bool is_slower(const struct rp_trace_span *a, const struct rp_trace_span *b)
{
	if (rp_span_duration(a) != rp_span_duration(b))
		return rp_span_duration(a) > rp_span_duration(b);
	return a->start_ns < b->start_ns;
}

static void swap(struct rp_trace_span *a, struct rp_trace_span *b)
{
	const struct rp_trace_span moved = *a;

	*a = *b;
	*b = moved;
}

int rp_slowest_spans_init(struct rp_slowest_spans *slowest, size_t max)
{
	*slowest = (struct rp_slowest_spans){
		.spans = reallocarray(NULL, max, sizeof(*slowest->spans)), .max = max,
	};
	return slowest->spans ? 0 : -ENOMEM;
}

static void replace_fastest(struct rp_slowest_spans *slowest, const struct rp_trace_span *span)
{
	struct rp_trace_span *heap = slowest->spans;
	size_t at = 0;

	heap[0] = *span;
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < slowest->count && is_slower(&heap[child], &heap[child + 1]))
			child++;
		if (child >= slowest->count || !is_slower(&heap[at], &heap[child]))
			return;
		swap(&heap[at], &heap[child]);
		at = child;
	}
}

void rp_slowest_spans_add(struct rp_slowest_spans *slowest, const struct rp_trace_span *span)
{
	struct rp_trace_span *heap = slowest->spans;
	size_t at = slowest->count;

	if (slowest->count == slowest->max) {
		if (slowest->max && is_slower(span, &heap[0]))
			replace_fastest(slowest, span);
		return;
	}
	heap[slowest->count++] = *span;
	for (; at > 0 && is_slower(&heap[(at - 1) / 2], &heap[at]); at = (at - 1) / 2)
		swap(&heap[at], &heap[(at - 1) / 2]);
}

static int compare(const void *left, const void *right)
{
	return is_slower(left, right) ? -1 : is_slower(right, left);
}

void rp_slowest_spans_sort(struct rp_slowest_spans *slowest)
{
	if (slowest->count)
		qsort(slowest->spans, slowest->count, sizeof(*slowest->spans), compare);
}

void rp_slowest_spans_fini(struct rp_slowest_spans *slowest)
{
	free(slowest->spans);
	*slowest = (struct rp_slowest_spans){ 0 };
}
