/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE counters: a row for each counter of each process. */
#include "tools/ringpipe/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/counter_series.h"
#include "tools/trace/trace_symbols.h"
#include "tools/cli/display_text.h"
#include "tools/cli/rows.h"
#include "tools/cli/sparkline.h"
#include "tools/ringpipe/counter_views.h"

#define BINS 24u

struct counter_report {
	const struct rp_report *report;
	struct rp_counter_set set;
	struct rp_processes processes;
	int64_t first_ns, last_ns;	/* of all points */
};

static int read_counters(struct counter_report *counters)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t process;
	int ret;

	while ((ret = rp_reader_next(counters->report->reader, &event)) == 1) {
		ret = rp_processes_follow_id(&counters->processes, &event, &process);
		if (ret == 0 && rp_time_range_has(&counters->report->range, event.time_ns) &&
		    rp_report_takes(counters->report, &event, process))
			ret = rp_counter_set_take(&counters->set, &event, process);
		if (ret)
			return ret;
	}
	return ret;
}

static void find_bounds(struct counter_report *counters)
{
	for (size_t i = 0; i < counters->set.count; i++) {
		const struct rp_counter_series *series = counters->set.series[i];

		if (i == 0 || series->first_ns < counters->first_ns)
			counters->first_ns = series->first_ns;
		if (i == 0 || series->last_ns > counters->last_ns)
			counters->last_ns = series->last_ns;
	}
}

static void add_number(struct rp_rows *out, double value)
{
	char text[RP_TEXT_MAX + 1], digits[64];

	snprintf(digits, sizeof(digits), "%.17g", value);
	rp_rows_add(out, json_object_new_double_s(value, digits), rp_counter_format(value, text));
}

/* Add the mean value in each part of the time of all series, from their lowest to the highest. */
static void add_trend(struct rp_rows *out, const struct counter_report *counters,
		      const struct rp_counter_series *series)
{
	const double period = (double)((uint64_t)counters->last_ns -
				       (uint64_t)counters->first_ns) + 1;
	double means[BINS];
	uint64_t counts[BINS] = { 0 };
	char text[BINS * RP_SPARKLINE_BYTES + 1];

	for (size_t i = 0; i < BINS; i++)
		means[i] = NAN;
	for (size_t i = 0; i < series->point_count; i++) {
		const struct rp_counter_point *point = &series->points[i];
		/* A clock that goes backwards puts points before the first one. */
		const double at = (double)(point->time_ns - counters->first_ns) / period * BINS;
		const size_t bin = at < 0 ? 0 : at >= BINS ? BINS - 1 : (size_t)at;

		if (counts[bin]++ == 0)
			means[bin] = 0;
		means[bin] += point->value / (double)counts[bin] - means[bin] / (double)counts[bin];
	}
	rp_rows_add(out, NULL, rp_sparkline(means, BINS, series->min, series->max, text));
}

/* Text has the provider, the label and the tags of a counter in one column. */
static void add_label(struct rp_rows *out, const struct rp_counter_series *series)
{
	struct rp_counter_sample sample = {
		.form = series->is_rate ? RP_COUNTER_RATE : RP_COUNTER_VALUE,
	};
	const struct rp_counter_quantile quantile = { .at = series->quantile };
	char label[sizeof(sample.name) + sizeof(sample.tags) + 128], *joined = NULL;

	snprintf(sample.name, sizeof(sample.name), "%s", series->name);
	snprintf(sample.unit, sizeof(sample.unit), "%s", series->unit);
	snprintf(sample.tags, sizeof(sample.tags), "%s", series->tags);
	rp_counter_label(&sample, series->quantile < 0 ? NULL : &quantile, label, sizeof(label));
	if (asprintf(&joined, "%s/%s", series->provider, label) < 0)
		joined = NULL;
	out->failed |= !joined;
	rp_rows_add_string(out, joined);
	free(joined);
}

static void add_series(struct rp_rows *out, const struct counter_report *counters,
		       const struct rp_counter_series *series)
{
	const bool is_text = out->format == RP_FORMAT_TEXT;
	char count[RP_TEXT_MAX];

	rp_rows_add_u64(out, series->process);
	rp_rows_add_string(out, series->provider);
	if (is_text)
		add_label(out, series);
	else
		rp_rows_add_string(out, series->name);
	rp_rows_add_string(out, *series->tags ? series->tags : NULL);
	rp_rows_add(out, series->quantile < 0 ? NULL : json_object_new_double(series->quantile),
		    NULL);
	rp_rows_add_string(out, series->is_rate ? "rate" : "value");
	rp_rows_add_string(out, *series->unit ? series->unit : NULL);
	rp_rows_add(out, json_object_new_int64(series->first_ns), NULL);
	rp_rows_add(out, json_object_new_int64(series->last_ns), NULL);
	rp_rows_add(out, json_object_new_uint64(series->count),
		    rp_text_count(series->count, count));
	add_number(out, series->first);
	add_number(out, series->last);
	add_number(out, series->min);
	add_number(out, series->mean);
	add_number(out, series->max);
	if (is_text)
		add_trend(out, counters, series);
}

static int print(const struct counter_report *counters)
{
	static const struct rp_column columns[] = {
		{ .key = "process_id", .title = "PROCESS", .is_right = true },
		{ .key = "provider" }, { .key = "counter", .title = "COUNTER" },
		{ .key = "tags" }, { .key = "quantile" }, { .key = "kind" }, { .key = "unit" },
		{ .key = "first_ns" }, { .key = "last_ns" },
		{ .key = "count", .title = "COUNT", .is_right = true },
		{ .key = "first", .title = "FIRST", .is_right = true },
		{ .key = "last", .title = "LAST", .is_right = true },
		{ .key = "min", .title = "MIN", .is_right = true },
		{ .key = "mean", .title = "MEAN", .is_right = true },
		{ .key = "max", .title = "MAX", .is_right = true },
		{ .key = "trend", .title = "TREND" },	/* text only */
	};
	const enum rp_format format = counters->report->options->format;
	const size_t count = sizeof(columns) / sizeof(columns[0]);
	struct rp_rows out;
	int status;

	if (format == RP_FORMAT_TEXT && counters->set.count == 0) {
		puts("The trace has no counters; `ringpipe collect` records them if --providers "
		     "asks for them with EventCounterIntervalSec=1.");
		return RP_EXIT_OK;
	}
	rp_rows_init(&out, format, columns, format == RP_FORMAT_TEXT ? count : count - 1);
	for (size_t i = 0; i < counters->set.count; i++)
		add_series(&out, counters, counters->set.series[i]);
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	return status;
}

int rp_report_counters(const struct rp_report *report)
{
	struct counter_report counters = { .report = report };
	char count[RP_TEXT_MAX];
	int ret = read_counters(&counters), status = RP_EXIT_FAILURE;

	if (ret == -ENOMEM) {
		rp_tool_error("out of memory");
	} else {
		rp_counter_set_sort(&counters.set);
		find_bounds(&counters);
		status = print(&counters);
	}
	if (counters.set.ignored)
		rp_tool_error("%s: ignored %s: the trace has more than %u series",
			      report->path, rp_text_counted(counters.set.ignored, "sample", count),
			      RP_COUNTER_SERIES_MAX);
	rp_counter_set_fini(&counters.set);
	rp_processes_fini(&counters.processes);
	return ret < 0 && ret != -ENOMEM ? rp_report_end(report, ret) : status;
}
