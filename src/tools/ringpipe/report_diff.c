/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE [WHAT] --diff LATER: which spans, counters and functions changed. Text has
 * the rows that changed, JSON and CSV have all rows.
 */
#include "tools/ringpipe/report_diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/cli/display_text.h"
#include "tools/cli/rows.h"
#include "tools/ringpipe/counter_views.h"
#include "tools/ringpipe/report_functions.h"
#include "tools/trace/input.h"

static const char *const kind_names[RP_SIDE_KINDS] = {
	[RP_SIDE_SPAN] = "span", [RP_SIDE_COUNTER] = "counter", [RP_SIDE_CPU] = "cpu",
	[RP_SIDE_OFFCPU] = "offcpu",
};

struct comparison {
	const struct rp_report *report;
	struct rp_trace_side before, after;
	struct rp_diff_rows rows;
};

/* Return: whether WHAT, if it is given, can be compared; sets the kinds to read. */
static bool choose_kinds(struct comparison *comparison)
{
	static const struct {
		const char *what;
		enum rp_side_kind kind;
	} kinds[] = { { "spans", RP_SIDE_SPAN }, { "counters", RP_SIDE_COUNTER },
		      { "cpu", RP_SIDE_CPU }, { "offcpu", RP_SIDE_OFFCPU } };
	const struct rp_tool_options *options = comparison->report->options;
	const char *what = options->operand_count > 1 ? options->operands[1] : NULL;
	bool has_any = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const bool is_wanted = !what || !strcmp(what, kinds[i].what);

		comparison->before.kinds[kinds[i].kind] = is_wanted;
		comparison->after.kinds[kinds[i].kind] = is_wanted;
		has_any |= is_wanted;
	}
	if (!has_any)
		rp_tool_error("report: --diff cannot be used with %s", what);
	return has_any;
}

/* A kind of records that only one trace has was not recorded in the other: nothing is compared. */
static void drop_kinds(struct comparison *comparison)
{
	for (int kind = 0; kind < RP_SIDE_KINDS; kind++) {
		const uint64_t before = comparison->before.totals[kind];
		const uint64_t after = comparison->after.totals[kind];

		if (!before != !after)
			rp_tool_error("%s has no records of the kind %s; they are not compared",
				      before ? comparison->report->options->diff :
					       comparison->report->path, kind_names[kind]);
		comparison->before.kinds[kind] = before && after;
	}
}

static int compare_items(struct comparison *comparison)
{
	const struct rp_trace_side *before = &comparison->before, *after = &comparison->after;
	int ret = 0;

	drop_kinds(comparison);
	for (size_t i = 0; ret == 0 && i < before->count; i++) {
		const struct rp_side_item *item = before->items[i];

		if (before->kinds[item->key.kind])
			ret = rp_diff_add(&comparison->rows, before, item, after,
					  rp_trace_side_find(after, &item->key));
	}
	for (size_t i = 0; ret == 0 && i < after->count; i++) {
		const struct rp_side_item *item = after->items[i];

		if (before->kinds[item->key.kind] && !rp_trace_side_find(before, &item->key))
			ret = rp_diff_add(&comparison->rows, before, NULL, after, item);
	}
	rp_diff_finish(&comparison->rows);
	return ret;
}

static void add_key(struct rp_rows *out, const struct rp_side_key *key)
{
	struct rp_call_function function = {
		.name = *key->texts[0] ? key->texts[0] : NULL,
		.file = *key->texts[1] ? key->texts[1] : NULL,
	};
	char name[RP_FUNCTION_TEXT_MAX], quantile[32] = "", *joined = NULL;
	const bool is_counter = key->kind == RP_SIDE_COUNTER;
	int ret = 0;

	if (key->kind == RP_SIDE_CPU || key->kind == RP_SIDE_OFFCPU) {
		rp_rows_add_string(out, rp_function_text(&function, name));
		return;
	}
	if (is_counter && key->quantile >= 0)
		snprintf(quantile, sizeof(quantile), "[%g %%]", key->quantile * 100);
	if (is_counter)
		ret = asprintf(&joined, "%s/%s%s%s%s%s", key->texts[1], key->texts[2],
			       *key->texts[3] ? "[" : "", key->texts[3],
			       *key->texts[3] ? "]" : "", quantile);
	else
		ret = asprintf(&joined, "%s/%s", key->texts[0], key->texts[1]);
	if (ret < 0) {
		out->failed = true;
		joined = NULL;
	}
	rp_rows_add_string(out, joined);
	free(joined);
}

static void add_value(struct rp_rows *out, const struct rp_diff_row *row, double value)
{
	char text[RP_TEXT_MAX + 1], digits[64];
	struct json_object *number;

	if (isnan(value)) {
		rp_rows_add(out, NULL, NULL);
		return;
	}
	snprintf(digits, sizeof(digits), "%.17g", value);
	number = json_object_new_double_s(value, digits);
	switch (row->metric) {
	case RP_DIFF_P50:
	case RP_DIFF_P99:
		rp_rows_add(out, number, rp_text_short_time((uint64_t)value, text));
		break;
	case RP_DIFF_ERRORS:
	case RP_DIFF_SHARE:
		rp_rows_addf(out, number, "%.2f %%", value * 100);
		break;
	case RP_DIFF_RATE:
	case RP_DIFF_VALUE:
		rp_rows_add(out, number, rp_counter_format(value, text));
	}
}

static void add_change(struct rp_rows *out, const struct rp_diff_row *row)
{
	struct json_object *effect = json_object_new_double(row->effect);

	if (isnan(row->before) || isnan(row->after))
		rp_rows_add(out, NULL, NULL);
	else if (row->metric == RP_DIFF_SHARE || row->metric == RP_DIFF_ERRORS)
		rp_rows_addf(out, effect, "%+.2f points", 100 * (row->after - row->before));
	else if (row->before == 0)
		rp_rows_add(out, effect, row->after == 0 ? "0 %" : "new");
	else
		rp_rows_addf(out, effect, "%+.1f %%", 100 * (row->after - row->before) /
						      fabs(row->before));
}

static void add_p(struct rp_rows *out, double p)
{
	if (isnan(p))
		rp_rows_add(out, NULL, NULL);
	else
		rp_rows_addf(out, json_object_new_double(p), p < 1e-6 ? "< 1e-6" : "%.2g", p);
}

static void add_diff(struct rp_rows *out, const struct rp_diff_row *row)
{
	static const char *const metrics[] = {
		[RP_DIFF_P50] = "p50", [RP_DIFF_P99] = "p99", [RP_DIFF_RATE] = "per second",
		[RP_DIFF_ERRORS] = "errors", [RP_DIFF_SHARE] = "share", [RP_DIFF_VALUE] = "mean",
	};
	static const char *const units[] = {
		[RP_DIFF_P50] = "ns", [RP_DIFF_P99] = "ns", [RP_DIFF_RATE] = "1/s",
		[RP_DIFF_ERRORS] = "1", [RP_DIFF_SHARE] = "1",
	};
	const struct rp_side_key *key = row->key;
	const bool is_counter = key->kind == RP_SIDE_COUNTER;
	const bool is_function = key->kind == RP_SIDE_CPU || key->kind == RP_SIDE_OFFCPU;

	rp_rows_add_string(out, kind_names[key->kind]);
	add_key(out, key);
	rp_rows_add_string(out, is_function && *key->texts[1] ? key->texts[1] : NULL);
	rp_rows_add_string(out, is_counter && *key->texts[0] ? key->texts[0] : NULL);
	rp_rows_add_string(out, metrics[row->metric]);
	rp_rows_add_string(out, !is_counter ? units[row->metric] :
			   row->unit && *row->unit ? row->unit : NULL);
	add_value(out, row, row->before);
	add_value(out, row, row->after);
	add_change(out, row);
	add_p(out, row->tested.p);
	add_p(out, row->tested.q);
	rp_rows_add(out, json_object_new_boolean(rp_diff_is_changed(row)), NULL);
}

static int print(const struct comparison *comparison)
{
	static const struct rp_column columns[] = {
		{ .key = "kind", .title = "KIND" }, { .key = "name", .title = "NAME" },
		{ .key = "file" }, { .key = "process" }, { .key = "metric", .title = "METRIC" },
		{ .key = "unit" }, { .key = "before", .title = "BEFORE", .is_right = true },
		{ .key = "after", .title = "AFTER", .is_right = true },
		{ .key = "effect", .title = "CHANGE", .is_right = true },
		{ .key = "p" }, { .key = "q", .title = "Q", .is_right = true },
		{ .key = "changed" },
	};
	const enum rp_format format = comparison->report->options->format;
	const struct rp_diff_rows *rows = &comparison->rows;
	size_t tested = 0, changed = 0;
	struct rp_rows out;
	int status = RP_EXIT_OK;

	rp_rows_init(&out, format, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < rows->count; i++) {
		const bool is_changed = rp_diff_is_changed(rows->rows[i]);

		tested += !isnan(rows->rows[i]->tested.p);
		changed += is_changed;
		if (is_changed || format != RP_FORMAT_TEXT)
			add_diff(&out, rows->rows[i]);
	}
	if (changed || format != RP_FORMAT_TEXT)
		status = rp_rows_print(&out);
	if (format == RP_FORMAT_TEXT && status == RP_EXIT_OK)
		printf("%s%zu of %zu compared values changed, with a false discovery rate of "
		       "%g %%.\n", changed ? "\n" : "", changed, tested, RP_DIFF_LEVEL * 100);
	rp_rows_fini(&out);
	return status;
}

/*
 * Find the range of the later trace, which has a start of its own, and read the trace once.
 * Return: 0; -EINVAL, after an error line; as rp_trace_side_init().
 */
static int init_later(struct comparison *comparison)
{
	const struct rp_tool_options *options = comparison->report->options;
	struct rp_time_range range;
	struct rp_reader *reader;
	struct rp_input input;
	int ret = rp_input_open(&input, options->diff, -1, &reader);

	if (ret)
		return ret;
	ret = rp_time_range_resolve("report", options, reader, &range);
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret ? ret : rp_trace_side_init(&comparison->after, options->diff, &range);
}

/* Read the later trace a second time. Return: the exit status; -ENOMEM. */
static int read_later(struct comparison *comparison)
{
	const char *path = comparison->report->options->diff;
	struct rp_trace_query query = rp_time_range_query(&comparison->after.profile.range);
	struct rp_report later = { .path = path };
	struct rp_input input;
	int ret, status = RP_EXIT_OK;

	if (rp_input_open(&input, path, -1, &later.reader))
		return RP_EXIT_FAILURE;
	query.has_tail = true;
	if (rp_time_range_select("report", &query, path, &input, later.reader) < 0) {
		status = RP_EXIT_FAILURE;
		ret = 0;
	} else {
		ret = rp_trace_side_read(&comparison->after, later.reader);
	}
	if (ret != -ENOMEM && status == RP_EXIT_OK)
		status = rp_report_end(&later, ret);
	rp_reader_close(later.reader);
	rp_input_close(&input);
	return ret == -ENOMEM ? ret : status;
}

/* Return: the exit status; -ENOMEM. */
static int read_and_print(struct comparison *comparison)
{
	const struct rp_report *report = comparison->report;
	int ret, status, later, printed;

	rp_trace_sides_divide(&comparison->before, &comparison->after);
	ret = rp_trace_side_read(&comparison->before, report->reader);
	if (ret == -ENOMEM)
		return ret;
	status = ret < 0 ? rp_report_end(report, ret) : RP_EXIT_OK;
	later = read_later(comparison);
	if (later == -ENOMEM || compare_items(comparison))
		return -ENOMEM;
	printed = print(comparison);
	rp_report_bounds(report, &comparison->before.profile);
	return status != RP_EXIT_OK ? status : later != RP_EXIT_OK ? later : printed;
}

bool rp_diff_is_file(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		rp_tool_error("%s: %s", path, strerror(errno));
	else if (!S_ISREG(status.st_mode))
		rp_tool_error("report: --diff needs a file, and %s is none", path);
	else
		return true;
	return false;
}

int rp_report_diff(const struct rp_report *report)
{
	struct comparison *comparison = calloc(1, sizeof(*comparison));
	int status = RP_EXIT_FAILURE, ret;

	if (!comparison) {
		rp_tool_error("out of memory");
		return RP_EXIT_FAILURE;
	}
	comparison->report = report;
	if (!rp_diff_is_file(report->options->diff))
		goto out;
	ret = rp_trace_side_init(&comparison->before, report->file, &report->range);
	if (ret == 0)
		ret = init_later(comparison);
	comparison->before.where = comparison->after.where = report->where;
	if (ret == 0 && !choose_kinds(comparison)) {
		status = RP_EXIT_USAGE;
		goto out;
	}
	if (ret == 0) {
		ret = read_and_print(comparison);
		status = ret == -ENOMEM ? RP_EXIT_FAILURE : ret;
	}
	if (ret == -EINVAL)
		status = RP_EXIT_USAGE;
	/* Other errors were printed where they occurred. */
	if (ret == -ENOMEM)
		rp_tool_error("out of memory");
out:
	rp_diff_fini(&comparison->rows);
	rp_trace_side_fini(&comparison->before);
	rp_trace_side_fini(&comparison->after);
	free(comparison);
	return status;
}
