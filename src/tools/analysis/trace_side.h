/* SPDX-License-Identifier: MIT */
/*
 * The side of a comparison of two traces: an item for each name of spans of one trace, each
 * function with samples or waits, and each counter. Items of two traces are the same if their keys
 * are equal, which have no ids of processes and no folders of files.
 */
#ifndef RP_TOOL_TRACE_SIDE_H
#define RP_TOOL_TRACE_SIDE_H

#include <stdbool.h>

#include "tools/analysis/counter_series.h"
#include "tools/analysis/latency_histogram.h"
#include "tools/analysis/profile.h"
#include "tools/analysis/trace_spans.h"

/* The number of equal intervals of the shorter trace. Each has a rate. */
#define RP_SIDE_INTERVALS 16u
#define RP_SIDE_INTERVALS_MAX 64u	/* of the longer trace; the rest has no rates */

enum rp_side_kind {
	RP_SIDE_SPAN,			/* provider, name */
	RP_SIDE_COUNTER,		/* process, provider, name, tags; quantile */
	RP_SIDE_CPU,			/* function, name of its file */
	RP_SIDE_OFFCPU,			/* the same, of waits */
	RP_SIDE_KINDS,
};

struct rp_side_key {
	enum rp_side_kind kind;
	const char *texts[4];		/* "": none */
	double quantile;		/* of a counter, as in counter_series.h */
	bool is_rate, is_instrument;	/* of a counter */
};

struct rp_side_item {
	struct rp_side_key key;
	struct rp_latency_histogram latency;	/* of spans and waits */
	uint64_t counts[RP_SIDE_INTERVALS_MAX];	/* of spans and waits, by their starts */
	uint64_t count;			/* spans, samples, waits, or points */
	uint64_t errors;		/* of spans */
	const char *unit;		/* of a counter */
	double *values;			/* of a counter, by time within each process */
	size_t value_capacity;
};

/* Initialise it by rp_trace_side_init(). */
struct rp_trace_side {
	/*
	 * The caller's, set after the initialisation: fulfilled by the start events of the spans
	 * and by the other records that count; NULL: all.
	 */
	struct rp_expression *where;
	struct rp_profile profile;
	struct rp_trace_spans spans;
	struct rp_counter_set counters;
	struct rp_side_item **items;	/* in the order of their first events */
	size_t count, capacity;
	uint64_t totals[RP_SIDE_KINDS];	/* spans, points, samples and waits */
	uint64_t interval_ns;
	uint32_t interval_count;	/* whole intervals */
	bool kinds[RP_SIDE_KINDS];	/* those to read */
	/* For trace_side.c only. */
	void *tree;
	struct rp_side_item **by_span, **by_function[2];
	size_t span_capacity, function_capacity[2];
};

/*
 * Prepare, and read names and times in the file at `path`; the function prints why a file cannot be
 * opened. Return: as rp_profile_init(); call rp_trace_side_fini() in any case.
 * @range: the times of the spans, by their starts, and of the other records that count.
 */
int rp_trace_side_init(struct rp_trace_side *side, const char *path,
		       const struct rp_time_range *range);

/* Choose intervals of equal length for both. Call it before the second readings. */
void rp_trace_sides_divide(struct rp_trace_side *a, struct rp_trace_side *b);

/* Read the events. Return: as rp_reader_next(), but 0 at the end; -ENOMEM. */
int rp_trace_side_read(struct rp_trace_side *side, struct rp_reader *reader);

/* Return: the item of the key; NULL: the trace has none. */
const struct rp_side_item *rp_trace_side_find(const struct rp_trace_side *side,
					      const struct rp_side_key *key);

void rp_trace_side_fini(struct rp_trace_side *side);

#endif
