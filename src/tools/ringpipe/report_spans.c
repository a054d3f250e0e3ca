/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE spans: a row for each name of spans, and the spans that took longest. With
 * --slowest, only the latter.
 */
#include "tools/ringpipe/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/slowest_spans.h"
#include "tools/analysis/span_table.h"
#include "tools/analysis/trace_spans.h"
#include "tools/cli/display_text.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/trace/guids.h"
#include "tools/trace/trace_symbols.h"

#define SLOWEST_SHOWN 5u

struct span_report {
	const struct rp_report *report;
	struct rp_trace_spans spans;
	struct rp_processes processes;
	struct rp_span_table table;
	struct rp_slowest_spans slowest;
	int64_t first_ns, last_ns;
	bool has_events;
};

static int take_span(const struct rp_trace_span *span, void *data)
{
	struct span_report *spans = data;

	if (!rp_span_has_name(span->name, spans->report->options->span))
		return 0;
	rp_slowest_spans_add(&spans->slowest, span);
	return rp_span_table_add(&spans->table, span->name, rp_span_duration(span),
				 span->has_error);
}

static int take_open(const struct rp_trace_span *span, void *data)
{
	struct span_report *spans = data;

	return rp_span_has_name(span->name, spans->report->options->span) ?
	       rp_span_table_add_open(&spans->table, span->name) : 0;
}

static void note_time(struct span_report *spans, int64_t time_ns)
{
	if (!spans->has_events || time_ns < spans->first_ns)
		spans->first_ns = time_ns;
	if (!spans->has_events || time_ns > spans->last_ns)
		spans->last_ns = time_ns;
	spans->has_events = true;
}

/* Return: as rp_reader_next(), but 0 at the end; -ENOMEM. */
static int read_spans(struct span_report *spans)
{
	const struct rp_time_range *range = &spans->report->range;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret;

	while ((ret = rp_reader_next(spans->report->reader, &event)) == 1) {
		if (rp_time_range_has(range, event.time_ns))
			note_time(spans, event.time_ns);
		ret = rp_processes_follow_id(&spans->processes, &event, &event.process);
		if (ret < 0)
			return ret;
		ret = rp_trace_spans_take(&spans->spans, &event);
		if (ret < 0)
			return ret;
		if (rp_trace_spans_are_complete(&spans->spans, spans->report->reader))
			break;
	}
	/* The rate is that of the whole range, as in the summary. */
	if (spans->has_events && range->from_ns > 0)
		spans->first_ns = range->from_ns;
	if (rp_trace_spans_visit_open(&spans->spans, spans->last_ns, take_open, spans) < 0)
		return -ENOMEM;
	return ret;
}

static void add_name(struct rp_rows *out, const struct rp_span_name *name)
{
	char *joined = NULL;

	if (out->format != RP_FORMAT_TEXT) {
		rp_rows_add_string(out, name->provider);
		rp_rows_add_string(out, name->name);
		return;
	}
	rp_rows_add(out, NULL, NULL);
	if (asprintf(&joined, "%s/%s", name->provider, name->name) < 0)
		joined = NULL;
	rp_rows_add_string(out, joined);
	free(joined);
}

static int print_names(struct span_report *spans)
{
	static const struct rp_column columns[] = {
		{ "provider", NULL, 0, false, false }, { "span", "SPAN", 0, false, false },
		{ "count", "COUNT", 0, true, false },
		{ "per_second", "PER SECOND", 0, true, false },
		{ "p50_ns", "P50", 0, true, false }, { "p90_ns", "P90", 0, true, false },
		{ "p99_ns", "P99", 0, true, false }, { "p99_9_ns", "P99.9", 0, true, false },
		{ "p99_99_ns", "P99.99", 0, true, false }, { "max_ns", "MAX", 0, true, false },
		{ "total_ns", NULL, 0, true, false }, { "errors", "ERRORS", 0, true, false },
		{ "open", "OPEN", 0, true, false },
	};
	static const double shares[] = { 0.5, 0.9, 0.99, 0.999, 0.9999 };
	const uint64_t period = (uint64_t)spans->last_ns - (uint64_t)spans->first_ns;
	struct rp_rows out;
	char text[RP_TEXT_MAX];
	int status;

	rp_rows_init(&out, spans->report->options->format, columns,
		     sizeof(columns) / sizeof(columns[0]));
	rp_span_table_sort(&spans->table);
	for (size_t i = 0; i < spans->table.count && spans->table.rows[i].name; i++) {
		const struct rp_span_row *row = &spans->table.rows[i];
		const uint64_t count = row->latency.count;

		add_name(&out, row->name);
		rp_rows_add(&out, json_object_new_uint64(count), rp_text_count(count, text));
		rp_rows_add(&out, period ? json_object_new_double((double)count * 1e9 /
								  (double)period) : NULL,
			    rp_text_rate(count, period, text));
		for (size_t j = 0; j < sizeof(shares) / sizeof(shares[0]); j++)
			rp_rows_add_duration(&out, rp_latency_percentile(&row->latency, shares[j]),
					     count);
		rp_rows_add_duration(&out, row->latency.max_ns, count);
		rp_rows_add_duration(&out, row->latency.total_ns, count);
		rp_rows_add_u64(&out, row->errors);
		rp_rows_add_u64(&out, row->open);
	}
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	return status;
}

/* Add an id in hexadecimal digits; zero is null. */
static void add_trace_id(struct rp_rows *out, const uint8_t id[16])
{
	static const uint8_t none[16];
	char text[2 * sizeof(none) + 1];

	rp_text_hex(id, sizeof(none), text);
	rp_rows_add_string(out, memcmp(id, none, sizeof(none)) != 0 ? text : NULL);
}

static int print_slowest(struct span_report *spans)
{
	static const struct rp_column columns[] = {
		{ "duration_ns", "DURATION", 0, true, false },
		{ "provider", NULL, 0, false, false },
		{ "span", "SLOWEST", 0, false, false }, { "start_ns", "START", 0, true, false },
		{ "process_id", "PROCESS", 0, true, false },
		{ "thread_id", "THREAD", 0, true, false },
		{ "stop_thread_id", NULL, 0, true, false },
		{ "trace_id", "TRACE ID", 0, false, false },
		{ "span_id", NULL, 0, false, false }, { "activity", "ACTIVITY", 0, false, false },
		{ "parent_activity", NULL, 0, false, false }, { "error", "ERROR", 0, false, false },
	};
	struct rp_rows out;
	int status;

	rp_rows_init(&out, spans->report->options->format, columns,
		     sizeof(columns) / sizeof(columns[0]));
	rp_slowest_spans_sort(&spans->slowest);
	for (size_t i = 0; i < spans->slowest.count; i++) {
		const struct rp_trace_span *span = &spans->slowest.spans[i];
		char activity[RP_GUID_TEXT], parent[RP_GUID_TEXT], span_id[17];

		rp_rows_add_duration(&out, rp_span_duration(span), true);
		add_name(&out, span->name);
		rp_rows_addf(&out, json_object_new_int64(span->start_ns), "%.6f s",
			     (double)span->start_ns / 1e9);
		rp_rows_add_u64(&out, span->process);
		rp_rows_add_u64(&out, span->thread);
		rp_rows_add_u64(&out, span->stop_thread);
		add_trace_id(&out, span->trace_id);
		snprintf(span_id, sizeof(span_id), "%016" PRIx64, span->span_id);
		rp_rows_add_string(&out, span->span_id ? span_id : NULL);
		rp_rows_add_string(&out, *rp_guid_text(&span->activity, activity) ? activity :
										     NULL);
		rp_rows_add_string(&out, *rp_guid_text(&span->parent, parent) ? parent : NULL);
		rp_rows_add(&out, json_object_new_boolean(span->has_error),
			    span->has_error ? "yes" : "");
	}
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	return status;
}

static void print_doubts(const struct span_report *spans)
{
	char count[RP_TEXT_MAX];

	/* The start events of such spans may come before the range. */
	if (spans->spans.stops_alone && rp_time_range_is_all(&spans->report->range))
		printf("The trace has no start event for %s.\n",
		       rp_text_counted(spans->spans.stops_alone, "stop event", count));
	if (spans->spans.dropped)
		printf("Forgot %s without a stop event; %u are kept.\n",
		       rp_text_counted(spans->spans.dropped, "span", count), RP_SPANS_OPEN_MAX);
}

static int print(struct span_report *spans)
{
	const struct rp_tool_options *options = spans->report->options;
	const bool is_text = options->format == RP_FORMAT_TEXT;
	int status;

	if (options->given & RP_OPTION_SLOWEST)
		return print_slowest(spans);
	if (is_text && spans->table.count == 0) {
		puts("The trace has no spans: no start event with its stop event.");
		return RP_EXIT_OK;
	}
	status = print_names(spans);
	if (is_text && status == RP_EXIT_OK && spans->slowest.count) {
		putchar('\n');
		status = print_slowest(spans);
	}
	if (is_text)
		print_doubts(spans);
	return status;
}

int rp_report_spans(const struct rp_report *report)
{
	struct span_report spans = {
		.report = report,
		.spans = { .visit = take_span, .data = &spans, .range = &report->range,
			   .where = report->where },
	};
	int ret = rp_slowest_spans_init(&spans.slowest,
					report->options->given & RP_OPTION_SLOWEST ?
					report->options->slowest : SLOWEST_SHOWN);
	int status;

	if (ret == 0)
		ret = read_spans(&spans);
	status = print(&spans);
	rp_span_table_fini(&spans.table);
	rp_slowest_spans_fini(&spans.slowest);
	rp_trace_spans_fini(&spans.spans);
	rp_processes_fini(&spans.processes);
	return ret < 0 ? rp_report_end(report, ret) : status;
}
