/* SPDX-License-Identifier: MIT */
/*
 * ringpipe explain: divides the time of spans by what their threads did. The file is read several
 * times: for the names of functions, for the spans, for the records of their threads, and for the
 * records of the threads on which they waited.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "tools/analysis/slowest_spans.h"
#include "tools/analysis/thread_time.h"
#include "tools/analysis/trace_spans.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"
#include "tools/ringpipe/explain_print.h"
#include "tools/trace/input.h"

/* With --id, all spans of a trace are explained, up to this number. */
#define SPANS_OF_ID_MAX 10000u

struct explanation {
	const struct rp_tool_options *options;
	struct rp_symbols symbols;
	uint32_t pointer_bytes;		/* of the trace */
	struct rp_trace_spans spans;
	struct rp_slowest_spans slowest;
	struct rp_thread_time time, holders;
	struct rp_thread_interval *intervals;		/* of the spans */
	struct rp_thread_interval *holder_intervals;	/* of the threads on which they waited */
	size_t holder_count;
};

typedef int (*take_function)(struct explanation *explanation,
			     const struct rp_reader_event *event);

/* Read the trace once. Return: as rp_reader_next(), but 0 at the end. */
static int read_trace(struct explanation *explanation, const char *path, bool is_first,
		      take_function take)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_input input;
	struct rp_reader *reader;
	char buffer[512];
	int ret = rp_input_open(&input, path, -1, &reader);

	if (ret)
		return ret;
	rp_reader_get_info(reader, &info);
	explanation->pointer_bytes = info.pointer_bytes;
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		ret = take(explanation, &event);
		if (ret < 0)
			break;
	}
	if (ret < 0 && is_first)
		rp_tool_error("%s: %s; only the events before that are explained", path,
			      rp_input_explain(reader, ret, buffer, sizeof(buffer)));
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret;
}

/* Whether 16 bytes are what the text says in hexadecimal digits, with or without hyphens. */
static bool is_id(const uint8_t *bytes, const char *text)
{
	char digits[3];

	for (size_t i = 0; i < 16; i++) {
		text += *text == '-';
		snprintf(digits, sizeof(digits), "%02x", bytes[i]);
		if (strncasecmp(text, digits, 2) != 0)
			return false;
		text += 2;
	}
	return !*text;
}

static bool has_id(const struct rp_trace_span *span, const char *id)
{
	return !id || is_id(span->trace_id, id) || is_id(span->activity.bytes, id) ||
	       is_id(span->parent.bytes, id);
}

static int take_span(const struct rp_trace_span *span, void *data)
{
	struct explanation *explanation = data;
	const struct rp_tool_options *options = explanation->options;

	if (rp_span_has_name(span->name, options->span) && has_id(span, options->id))
		rp_slowest_spans_add(&explanation->slowest, span);
	return 0;
}

static int take_for_spans(struct explanation *explanation, const struct rp_reader_event *event)
{
	return rp_trace_spans_take(&explanation->spans, event);
}

static int take_callee(const struct rp_trace_span *span, void *data)
{
	struct explanation *explanation = data;

	return rp_thread_time_take_callee(&explanation->time, span);
}

static int take_for_time(struct explanation *explanation, const struct rp_reader_event *event)
{
	int ret = rp_thread_time_take(&explanation->time, event);

	return ret ? ret : rp_trace_spans_take(&explanation->spans, event);
}

static int take_for_holders(struct explanation *explanation, const struct rp_reader_event *event)
{
	return rp_thread_time_take(&explanation->holders, event);
}

static int find_spans(struct explanation *explanation, const char *path)
{
	const struct rp_tool_options *options = explanation->options;
	const uint32_t max = options->slowest ? options->slowest :
			     options->id ? SPANS_OF_ID_MAX : 1;
	int ret = rp_slowest_spans_init(&explanation->slowest, max);

	if (ret < 0)
		return ret;
	explanation->spans = (struct rp_trace_spans){ .visit = take_span, .data = explanation };
	ret = read_trace(explanation, path, true, take_for_spans);
	rp_slowest_spans_sort(&explanation->slowest);
	return ret;
}

/* The spans keep the names of explanation->spans, so that must outlive them. */
static int divide_time(struct explanation *explanation, const char *path)
{
	const size_t count = explanation->slowest.count;
	struct rp_trace_spans first = explanation->spans;
	int ret;

	explanation->intervals = calloc(count, sizeof(*explanation->intervals));
	if (!explanation->intervals)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct rp_trace_span *span = &explanation->slowest.spans[i];
		struct rp_thread_interval *interval = &explanation->intervals[i];

		*interval = (struct rp_thread_interval){
			.process = span->process, .thread = span->thread,
			.from_ns = span->start_ns, .to_ns = span->stop_ns, .owner = i,
			.span = span,
		};
	}
	explanation->spans = (struct rp_trace_spans){ .visit = take_callee, .data = explanation };
	ret = rp_thread_time_begin(&explanation->time, explanation->intervals, count,
				   &explanation->symbols, explanation->pointer_bytes);
	if (ret == 0)
		ret = read_trace(explanation, path, false, take_for_time);
	rp_trace_spans_fini(&explanation->spans);
	explanation->spans = first;
	return ret == -ENOMEM ? ret : rp_thread_time_divide(&explanation->time);
}

/* Return: the longest wait for a lock whose waker is known; NULL: none. */
static const struct rp_time_piece *longest_lock(const struct rp_thread_interval *interval)
{
	const struct rp_time_piece *longest = NULL;

	for (size_t i = 0; i < interval->piece_count; i++) {
		const struct rp_time_piece *piece = &interval->pieces[i];

		if (piece->part == RP_TIME_LOCK && piece->waker_thread &&
		    (!longest || piece->to_ns - piece->from_ns > longest->to_ns - longest->from_ns))
			longest = piece;
	}
	return longest;
}

/* Divide the time of the threads that released the locks. */
static int divide_holders(struct explanation *explanation, const char *path)
{
	const size_t count = explanation->slowest.count;
	int ret;

	explanation->holder_intervals = calloc(count, sizeof(*explanation->holder_intervals));
	if (!explanation->holder_intervals)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct rp_thread_interval *interval = &explanation->intervals[i];
		const struct rp_time_piece *lock = longest_lock(interval);

		if (lock)
			explanation->holder_intervals[explanation->holder_count++] =
				(struct rp_thread_interval){
					.process = lock->waker_process,
					.thread = lock->waker_thread, .owner = interval->owner,
					.from_ns = lock->from_ns, .to_ns = lock->to_ns,
				};
	}
	if (explanation->holder_count == 0)
		return 0;
	ret = rp_thread_time_begin(&explanation->holders, explanation->holder_intervals,
				   explanation->holder_count, &explanation->symbols,
				   explanation->pointer_bytes);
	if (ret == 0)
		ret = read_trace(explanation, path, false, take_for_holders);
	return ret == -ENOMEM ? ret : rp_thread_time_divide(&explanation->holders);
}

/* Return: the exit status; -ENOMEM. */
static int explain(struct explanation *explanation, const char *path)
{
	int ret = rp_symbols_read(&explanation->symbols, path, NULL, NULL), damage, status;

	if (ret < 0)
		return ret == -ENOMEM ? ret : RP_EXIT_FAILURE;
	damage = find_spans(explanation, path);
	if (damage == -ENOMEM)
		return damage;
	if (explanation->slowest.count == 0) {
		rp_tool_error("explain: the trace has no such span; see ringpipe report %s spans",
			      path);
		return RP_EXIT_FAILURE;
	}
	if (divide_time(explanation, path) < 0 || divide_holders(explanation, path) < 0)
		return -ENOMEM;
	status = rp_explain_print(&(struct rp_explain_view){
		.spans = explanation->slowest.spans, .count = explanation->slowest.count,
		.intervals = explanation->intervals,
		.holders = explanation->holder_intervals,
		.holder_count = explanation->holder_count,
		.time = &explanation->time,
	}, explanation->options->format);
	return damage < 0 ? RP_EXIT_FAILURE : status;
}

int rp_command_explain(const struct rp_tool_options *options)
{
	struct explanation explanation = { .options = options };
	int status;

	if (!strcmp(options->operands[0], "-")) {
		rp_tool_error("explain: reads the trace several times, so it requires a file");
		return RP_EXIT_USAGE;
	}
	status = explain(&explanation, options->operands[0]);
	if (status == -ENOMEM) {
		rp_tool_error("out of memory");
		status = RP_EXIT_FAILURE;
	}
	rp_thread_time_fini(&explanation.time);
	rp_thread_time_fini(&explanation.holders);
	free(explanation.intervals);
	free(explanation.holder_intervals);
	rp_slowest_spans_fini(&explanation.slowest);
	rp_trace_spans_fini(&explanation.spans);
	rp_symbols_fini(&explanation.symbols);
	return status;
}
