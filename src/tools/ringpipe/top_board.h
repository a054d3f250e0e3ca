/* SPDX-License-Identifier: MIT */
/*
 * The content of `ringpipe top`: spans with their latencies, samples by address, counters and
 * losses, each for the current interval and since the start.
 *
 * The memory is bounded: spans beyond RP_TOP_SPANS_MAX names share one row, and samples beyond
 * RP_TOP_ADDRESSES_MAX addresses are counted without their address.
 */
#ifndef RP_TOOL_TOP_BOARD_H
#define RP_TOOL_TOP_BOARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/analysis/latency_histogram.h"
#include "tools/analysis/trace_spans.h"
#include "tools/ringpipe/counter_board.h"

#define RP_TOP_SPANS_MAX 2000u
#define RP_TOP_ADDRESSES_MAX 32768u

/* The spans of one name. */
struct rp_top_span {
	const struct rp_span_name *name;	/* NULL: the names beyond the bound */
	struct rp_latency_histogram now, all;
	uint64_t now_errors, all_errors;
};

/* The samples whose innermost frame has this address. */
struct rp_top_address {
	uint64_t address;		/* 0: a free slot */
	uint64_t now, all;
};

/* Counts of an interval, or since the start. */
struct rp_top_counts {
	uint64_t events;
	uint64_t lost;			/* dropped by the process, because the buffer was full */
	uint64_t samples;
	uint64_t unplaced;		/* samples without a stack, or beyond the bound */
};

struct rp_top_board {
	/* The caller's: fulfilled by the events, and the starts of spans, to count; NULL: all. */
	struct rp_expression *where;
	pthread_mutex_t lock;		/* of all but `counters`, which has its own */
	struct rp_trace_spans spans;
	struct rp_top_span *rows;	/* by rp_span_name.index; the last is of all other names */
	size_t row_count;		/* rows that are in use, besides the last */
	struct rp_top_address *addresses;	/* a hash table */
	size_t address_count;
	struct rp_top_counts now, all;
	uint32_t pointer_bytes;
	double interval_s;		/* at which the process reports counters */
	struct rp_counter_board counters;
};

/*
 * @has_instruments: the session requests instruments, too.
 * @where: as in the board. Return: 0; -ENOMEM.
 */
int rp_top_board_init(struct rp_top_board *board, double interval_s, bool has_instruments,
		      struct rp_expression *where);
void rp_top_board_fini(struct rp_top_board *board);

/* Take the next event of the session. Return: 0; -ENOMEM. */
int rp_top_board_take(struct rp_top_board *board, const struct rp_reader_event *event);
/* Take the number of events that were lost since the start of the session. */
void rp_top_board_set_lost(struct rp_top_board *board, uint64_t lost);

/* A row of spans, for one interval or since the start. */
struct rp_top_latency {
	uint64_t count, errors;
	uint64_t p50_ns, p99_ns, max_ns;
	uint64_t total_ns;
};

struct rp_top_span_row {
	const char *provider, *name;	/* valid as long as the board; NULL: all other names */
	struct rp_top_latency now, all;
};

/* A copy of the board at the end of an interval. */
struct rp_top_cut {
	struct rp_top_span_row *spans;	/* in no order */
	size_t span_count;
	struct rp_top_address *addresses;	/* in no order */
	size_t address_count;
	struct rp_top_counts now, all;
	size_t open_count;		/* spans that have not stopped */
};

/*
 * End the interval: copy the board, and begin the next interval. rp_top_cut_fini() frees the copy.
 * Return: 0; -ENOMEM.
 */
int rp_top_board_cut(struct rp_top_board *board, struct rp_top_cut *ret_cut);
void rp_top_cut_fini(struct rp_top_cut *cut);

#endif
