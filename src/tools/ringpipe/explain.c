/* SPDX-License-Identifier: MIT */
/*
 * ringpipe explain: divides the time of spans by what their threads did. The file is read several
 * times: for the names of functions, for the spans, for the threads of spans that move, for the
 * records of those threads, and for the records of the threads on which they waited. By its index,
 * all but the second reading have only a part of the file, and with a range, the second one, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/analysis/explanation.h"
#include "tools/analysis/explain_print.h"
#include "tools/analysis/labelled_runs.h"
#include "tools/analysis/slowest_spans.h"
#include "tools/analysis/trace_spans.h"
#include "tools/cli/tool.h"

/* With --id, all spans of a trace are explained, up to this number. */
#define SPANS_OF_ID_MAX 10000u

struct explain_view {
	const struct rp_tool_options *options;
	struct rp_symbols symbols;
	struct rp_trace_spans spans;
	struct rp_slowest_spans slowest;
	struct rp_slowest_spans labelled;	/* with --id: runs of samples and waits */
	struct rp_labelled_runs runs;
	struct rp_time_range range;	/* in which the spans start */
	struct rp_expression *where;	/* of their start events, and of runs; NULL: all */
	struct rp_trace_index *index;	/* NULL: the trace cannot have one */
	struct rp_recorded_kinds kinds;
	struct rp_explanation explanation;
};

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
	struct explain_view *view = data;

	if (rp_span_has_name(span->name, view->options->span) && has_id(span, view->options->id))
		rp_slowest_spans_add(&view->slowest, span);
	return 0;
}

static bool is_zero(const uint8_t bytes[16])
{
	static const uint8_t none[16];

	return memcmp(bytes, none, sizeof(none)) == 0;
}

static bool is_wanted(const struct explain_view *view, const struct rp_reader_event *event)
{
	return !view->where || rp_expression_matches(view->where, event, event->process);
}

static int take_for_runs(struct explain_view *view, const struct rp_reader_event *event)
{
	const char *id = view->options->id;

	if (!id || !rp_labelled_runs_have_name(view->options->span))
		return 0;
	return rp_labelled_runs_take(&view->runs, event,
		((!is_zero(event->trace_id) && is_id(event->trace_id, id)) ||
		 (!is_zero(event->activity.bytes) && is_id(event->activity.bytes, id))) &&
		is_wanted(view, event));
}

static int take_for_spans(const struct rp_reader *reader, const struct rp_reader_event *event,
			  void *data)
{
	struct explain_view *view = data;
	int ret = rp_recorded_kinds_take(&view->kinds, event);

	if (ret == 0)
		ret = take_for_runs(view, event);
	if (ret == 0)
		ret = rp_trace_spans_take(&view->spans, event);
	return ret ? ret : rp_trace_spans_are_complete(&view->spans, reader);
}

/* Without spans that have the id, explain the runs of samples and waits that have it. */
static void use_runs(struct explain_view *view)
{
	const struct rp_slowest_spans none = view->slowest;

	if (view->slowest.count)
		return;
	view->slowest = view->labelled;
	view->labelled = none;
}

static int find_spans(struct explain_view *view, const char *path)
{
	const struct rp_tool_options *options = view->options;
	const uint32_t max = options->slowest ? options->slowest :
			     options->id ? SPANS_OF_ID_MAX : 1;
	struct rp_explanation_reading reading = {
		.path = path, .signal_fd = -1, .is_loud = true, .index = view->index,
		.symbols = &view->symbols,
		.query = rp_time_range_query(&view->range), .take = take_for_spans, .data = view,
	};
	int ret = rp_slowest_spans_init(&view->slowest, max);

	if (ret == 0)
		ret = rp_slowest_spans_init(&view->labelled, max);
	if (ret < 0)
		return ret;
	view->runs = (struct rp_labelled_runs){ .runs = &view->labelled, .range = &view->range };
	view->spans = (struct rp_trace_spans){
		.visit = take_span, .data = view, .range = &view->range,
		.where = view->where,
	};
	reading.query.has_tail = true;
	ret = rp_explanation_read(&reading, &view->explanation.pointer_bytes);
	rp_labelled_runs_end(&view->runs);
	use_runs(view);
	rp_slowest_spans_sort(&view->slowest);
	return ret;
}

/* The spans keep the names of view->spans, so that must outlive them. */
static int divide(struct explain_view *view, const char *path)
{
	view->explanation.path = path;
	view->explanation.signal_fd = -1;
	view->explanation.index = view->index;
	view->explanation.kinds = &view->kinds;
	view->explanation.symbols = &view->symbols;
	view->explanation.spans = view->slowest.spans;
	view->explanation.span_count = view->slowest.count;
	return rp_explanation_divide(&view->explanation);
}

/* Find the range of the options, and the index. Return: 0; an error, which was printed. */
static int open_index(struct explain_view *view, const char *path)
{
	struct rp_reader *reader;
	struct rp_input input;
	int ret = rp_input_open(&input, path, -1, &reader);

	if (ret)
		return ret;
	ret = rp_time_range_resolve("explain", view->options, reader, &view->range);
	if (ret == 0)
		ret = rp_time_range_index("explain", path, &input, &view->index);
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret;
}

static void report_no_span(const struct explain_view *view, const char *path)
{
	const bool has_range = view->options->given & (RP_OPTION_FROM | RP_OPTION_RANGE_END);

	if (view->spans.name_count)
		rp_tool_error("explain: the trace has no such span; see ringpipe report %s spans",
			      path);
	else
		rp_tool_error("explain: %s no spans; ringpipe record -p PID and ringpipe collect "
			      "record the spans of a program that declares some by RP_SPAN, or "
			      "has start and stop events; ringpipe report %s cpu, offcpu and waits "
			      "show what the threads did", has_range ?
			      "the trace has in these times" : "the trace has", path);
}

/* Return: the exit status; -ENOMEM. */
static int explain(struct explain_view *view, const char *path)
{
	int ret = open_index(view, path), damage, status;

	if (ret < 0)
		return ret == -EINVAL ? RP_EXIT_USAGE : RP_EXIT_FAILURE;
	ret = rp_symbols_read(&view->symbols, path, &RP_TIME_RANGE_ALL, NULL, NULL);
	if (ret < 0)
		return ret == -ENOMEM ? ret : RP_EXIT_FAILURE;
	damage = find_spans(view, path);
	if (damage == -ENOMEM)
		return damage;
	if (view->slowest.count == 0) {
		report_no_span(view, path);
		return RP_EXIT_FAILURE;
	}
	ret = divide(view, path);
	if (ret < 0)
		return ret;
	status = rp_explain_print(&(struct rp_explain_view){
		.spans = view->slowest.spans, .count = view->slowest.count,
		.intervals = view->explanation.results,
		.holders = view->explanation.holder_intervals,
		.holder_count = view->explanation.holder_count,
		.time = &view->explanation.time,
	}, view->options->format);
	return damage < 0 ? RP_EXIT_FAILURE : status;
}

int rp_command_explain(const struct rp_tool_options *options)
{
	struct explain_view view = { .options = options };
	int status;

	if (!strcmp(options->operands[0], "-")) {
		rp_tool_error("explain: reads the trace several times, so it requires a file");
		return RP_EXIT_USAGE;
	}
	if (options->where && rp_expression_take("explain: --where", options->where, &view.where))
		return RP_EXIT_USAGE;
	status = explain(&view, options->operands[0]);
	if (status == -ENOMEM) {
		rp_tool_error("out of memory");
		status = RP_EXIT_FAILURE;
	}
	rp_expression_destroy(view.where);
	rp_explanation_fini(&view.explanation);
	rp_recorded_kinds_fini(&view.kinds);
	rp_trace_index_close(view.index);
	rp_slowest_spans_fini(&view.slowest);
	rp_slowest_spans_fini(&view.labelled);
	rp_labelled_runs_fini(&view.runs);
	rp_trace_spans_fini(&view.spans);
	rp_symbols_fini(&view.symbols);
	return status;
}
