/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/top_board.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/profile.h"
#include "tools/trace/stack_frame.h"

#define SLOTS (2u * RP_TOP_ADDRESSES_MAX)	/* a power of two */

static int visit_span(const struct rp_trace_span *span, void *data)
{
	struct rp_top_board *board = data;
	const size_t index = span->name->index;
	const uint64_t ns = (uint64_t)span->stop_ns - (uint64_t)span->start_ns;
	struct rp_top_span *row = &board->rows[RP_TOP_SPANS_MAX];

	if (index < RP_TOP_SPANS_MAX) {
		row = &board->rows[index];
		row->name = span->name;
		if (index >= board->row_count)
			board->row_count = index + 1;
	}
	row->now_errors += span->has_error;
	row->all_errors += span->has_error;
	return rp_latency_add(&row->now, ns) || rp_latency_add(&row->all, ns) ? -ENOMEM : 0;
}

int rp_top_board_init(struct rp_top_board *board, double interval_s, bool has_instruments,
		      struct rp_expression *where)
{
	*board = (struct rp_top_board){
		.where = where, .spans = { .visit = visit_span, .data = board, .where = where },
		.pointer_bytes = 8, .interval_s = interval_s,
	};
	board->rows = calloc(RP_TOP_SPANS_MAX + 1, sizeof(*board->rows));
	board->addresses = calloc(SLOTS, sizeof(*board->addresses));
	if (!board->rows || !board->addresses) {
		free(board->rows);
		free(board->addresses);
		return -ENOMEM;
	}
	pthread_mutex_init(&board->lock, NULL);
	rp_counter_board_init(&board->counters);
	/* Instruments are only requested from .NET; libringpipe's would arrive in addition. */
	if (!has_instruments)
		rp_counter_board_enumerated(&board->counters);
	return 0;
}

void rp_top_board_fini(struct rp_top_board *board)
{
	for (size_t i = 0; i <= RP_TOP_SPANS_MAX; i++) {
		rp_latency_fini(&board->rows[i].now);
		rp_latency_fini(&board->rows[i].all);
	}
	free(board->rows);
	free(board->addresses);
	rp_trace_spans_fini(&board->spans);
	rp_counter_board_fini(&board->counters);
	pthread_mutex_destroy(&board->lock);
}

/* Return: the slot of the address; NULL: the table is full. */
static struct rp_top_address *find_address(struct rp_top_board *board, uint64_t address)
{
	size_t at = (size_t)((address * 0x9e3779b97f4a7c15ull) >> 32) & (SLOTS - 1);

	while (board->addresses[at].address && board->addresses[at].address != address)
		at = (at + 1) & (SLOTS - 1);
	if (!board->addresses[at].address) {
		if (board->address_count >= RP_TOP_ADDRESSES_MAX)
			return NULL;
		board->address_count++;
		board->addresses[at].address = address;
	}
	return &board->addresses[at];
}

static void take_sample(struct rp_top_board *board, const struct rp_reader_event *event)
{
	struct rp_top_address *slot = NULL;
	uint64_t address;

	board->now.samples++;
	if (event->frame_count > 0) {
		address = rp_stack_frame(event, board->pointer_bytes, 0);
		slot = address ? find_address(board, address) : NULL;
	}
	if (!slot) {
		board->now.unplaced++;
		return;
	}
	slot->now++;
	slot->all++;
}

int rp_top_board_take(struct rp_top_board *board, const struct rp_reader_event *event)
{
	const bool is_wanted = !board->where ||
			       rp_expression_matches(board->where, event, event->process);
	struct rp_counter_sample counter;
	enum rp_counter_word word;
	int ret = 0;

	if (rp_profile_classify(event) == RP_PROFILE_THREAD_SAMPLE) {
		pthread_mutex_lock(&board->lock);
		if (is_wanted && rp_profile_is_running(event))
			take_sample(board, event);
		pthread_mutex_unlock(&board->lock);
		return 0;
	}
	word = rp_counter_decode(event, board->interval_s, &counter);
	if (word == RP_COUNTER_SAMPLE && is_wanted)
		rp_counter_board_take(&board->counters, &counter);
	else if (word != RP_COUNTER_SAMPLE)
		rp_counter_board_announce(&board->counters, word, &counter);
	/* The provider also marks when it collects values, which is no span of the program. */
	if (word != RP_COUNTER_OTHER ||
	    strcmp(event->type->provider, RP_COUNTER_METRICS_PROVIDER) == 0)
		return 0;
	pthread_mutex_lock(&board->lock);
	board->now.events += is_wanted;
	ret = rp_trace_spans_take(&board->spans, event);
	pthread_mutex_unlock(&board->lock);
	return ret;
}

void rp_top_board_set_lost(struct rp_top_board *board, uint64_t lost)
{
	pthread_mutex_lock(&board->lock);
	if (lost > board->all.lost + board->now.lost)
		board->now.lost = lost - board->all.lost;
	pthread_mutex_unlock(&board->lock);
}

static struct rp_top_latency get_latency(const struct rp_latency_histogram *histogram,
					 uint64_t errors)
{
	return (struct rp_top_latency){
		.count = histogram->count, .errors = errors,
		.p50_ns = rp_latency_percentile(histogram, 0.5),
		.p99_ns = rp_latency_percentile(histogram, 0.99),
		.max_ns = histogram->max_ns, .total_ns = histogram->total_ns,
	};
}

static void cut_span(struct rp_top_span *span, struct rp_top_cut *cut)
{
	if (!span->all.count)
		return;
	cut->spans[cut->span_count++] = (struct rp_top_span_row){
		.provider = span->name ? span->name->provider : NULL,
		.name = span->name ? span->name->name : NULL,
		.now = get_latency(&span->now, span->now_errors),
		.all = get_latency(&span->all, span->all_errors),
	};
	rp_latency_fini(&span->now);
	span->now_errors = 0;
}

static void cut_counts(struct rp_top_board *board, struct rp_top_cut *cut)
{
	board->all.events += board->now.events;
	board->all.lost += board->now.lost;
	board->all.samples += board->now.samples;
	board->all.unplaced += board->now.unplaced;
	cut->now = board->now;
	cut->all = board->all;
	cut->open_count = board->spans.open_count;
	board->now = (struct rp_top_counts){ 0 };
}

static int cut_board(struct rp_top_board *board, struct rp_top_cut *cut)
{
	cut->spans = calloc(board->row_count + 1, sizeof(*cut->spans));
	cut->addresses = calloc(board->address_count + 1, sizeof(*cut->addresses));
	if (!cut->spans || !cut->addresses)
		return -ENOMEM;
	for (size_t i = 0; i < board->row_count; i++)
		cut_span(&board->rows[i], cut);
	cut_span(&board->rows[RP_TOP_SPANS_MAX], cut);
	for (size_t i = 0; i < SLOTS; i++) {
		if (board->addresses[i].address)
			cut->addresses[cut->address_count++] = board->addresses[i];
		board->addresses[i].now = 0;
	}
	cut_counts(board, cut);
	return 0;
}

int rp_top_board_cut(struct rp_top_board *board, struct rp_top_cut *ret_cut)
{
	struct rp_top_cut cut = { 0 };
	int ret;

	pthread_mutex_lock(&board->lock);
	ret = cut_board(board, &cut);
	pthread_mutex_unlock(&board->lock);
	if (ret)
		rp_top_cut_fini(&cut);
	else
		*ret_cut = cut;
	return ret;
}

void rp_top_cut_fini(struct rp_top_cut *cut)
{
	free(cut->spans);
	free(cut->addresses);
	*cut = (struct rp_top_cut){ 0 };
}
