/* SPDX-License-Identifier: MIT */
/* A row for each name of spans: how many there are, how long they took, and their errors. */
#ifndef RP_TOOL_SPAN_TABLE_H
#define RP_TOOL_SPAN_TABLE_H

#include "tools/analysis/latency_histogram.h"
#include "tools/analysis/trace_spans.h"

struct rp_span_row {
	const struct rp_span_name *name;	/* NULL: no span had the name with this index */
	struct rp_latency_histogram latency;
	uint64_t errors;
	uint64_t open;			/* spans that did not stop */
};

/* Initialise it with zeros. */
struct rp_span_table {
	struct rp_span_row *rows;	/* by the index of the name, until they are sorted */
	size_t count, capacity;
};

/* Count a span that stopped. Return: 0; -ENOMEM. */
int rp_span_table_add(struct rp_span_table *table, const struct rp_span_name *name,
		      uint64_t duration_ns, bool has_error);
/* Count a span that did not stop. Return: 0; -ENOMEM. */
int rp_span_table_add_open(struct rp_span_table *table, const struct rp_span_name *name);

/* Put the largest total first, and rows without a name last. Nothing can be added afterwards. */
void rp_span_table_sort(struct rp_span_table *table);
void rp_span_table_fini(struct rp_span_table *table);

#endif
