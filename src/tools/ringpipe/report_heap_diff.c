/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE heap --diff: a row for each stack that had live blocks at one of two times,
 * which are the ends of two traces, or a time and the end of one trace. Stacks are the same if the
 * names of their functions and of their processes are equal.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "tools/cli/display_text.h"
#include "tools/ringpipe/report_diff.h"
#include "tools/ringpipe/report_heap.h"
#include "tools/trace/input.h"

/* The live blocks of one stack at the two times. */
struct heap_growth {
	const struct rp_heap_view *view;	/* which has the stack */
	uint64_t process;
	uint32_t node;
	char *key;			/* the names of the process and of the functions */
	double before_blocks, before_bytes, after_blocks, after_bytes;
};

struct heap_growths {
	struct heap_growth *rows;
	size_t count, capacity;
};

static const char *process_name(const struct heap_growth *growth)
{
	const struct rp_profile *profile = &growth->view->profile;
	const char *name = rp_symbols_process(&profile->symbols, growth->process,
					      profile->last_ns);

	return name ? name : "?";
}

/* Return: the names, which the caller frees; NULL without memory. */
static char *make_key(const struct heap_growth *growth)
{
	const struct rp_call_tree *tree = &growth->view->profile.tree;
	char *key = NULL, name[RP_FUNCTION_TEXT_MAX];
	size_t size;
	FILE *stream = open_memstream(&key, &size);

	if (!stream)
		return NULL;
	fputs(process_name(growth), stream);
	for (uint32_t node = growth->node; node != RP_CALL_NONE; node = tree->nodes[node].parent) {
		const struct rp_call_function *function =
			&tree->functions[tree->nodes[node].function];

		fprintf(stream, "\n%s", function->name ? function->name :
			rp_function_text(function, name));
	}
	if (fclose(stream) == 0)
		return key;
	free(key);
	return NULL;
}

static int add(struct heap_growths *growths, const struct heap_growth *growth)
{
	struct heap_growth *rows = rp_array_reserve(growths->rows, growths->count,
						    &growths->capacity, 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	growths->rows = rows;
	rows[growths->count] = *growth;
	rows[growths->count].key = make_key(growth);
	return rows[growths->count++].key ? 0 : -ENOMEM;
}

/* Add the sites of a trace. `is_before`: their live blocks are those of the first time. */
static int add_sites(struct heap_growths *growths, const struct rp_heap_view *view, bool is_before)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < view->heap.site_count; i++) {
		const struct rp_heap_site *site = &view->heap.sites[i];
		struct heap_growth growth = {
			.view = view, .process = site->process, .node = site->node,
			.before_blocks = is_before ? site->live_blocks : site->earlier_blocks,
			.before_bytes = is_before ? site->live_bytes : site->earlier_bytes,
			.after_blocks = is_before ? 0 : site->live_blocks,
			.after_bytes = is_before ? 0 : site->live_bytes,
		};

		if (growth.before_blocks > 0 || growth.after_blocks > 0)
			ret = add(growths, &growth);
	}
	return ret;
}

static int by_key(const void *left, const void *right)
{
	const struct heap_growth *a = left, *b = right;

	return strcmp(a->key, b->key);
}

static int by_growth(const void *left, const void *right)
{
	const struct heap_growth *a = left, *b = right;
	const double first = a->after_bytes - a->before_bytes;
	const double second = b->after_bytes - b->before_bytes;
	int order = (first < second) - (first > second);

	if (!order)
		order = (a->after_bytes < b->after_bytes) - (a->after_bytes > b->after_bytes);
	return order ? order : by_key(left, right);
}

/* Make one row of the rows with the same names, and sort the rows. */
static void merge(struct heap_growths *growths)
{
	size_t count = 0;

	if (!growths->count)
		return;
	qsort(growths->rows, growths->count, sizeof(*growths->rows), by_key);
	for (size_t i = 0; i < growths->count; i++) {
		struct heap_growth *row = &growths->rows[i];
		struct heap_growth *last = count ? &growths->rows[count - 1] : NULL;

		if (!last || strcmp(last->key, row->key) != 0) {
			growths->rows[count++] = *row;
			continue;
		}
		last->before_blocks += row->before_blocks;
		last->before_bytes += row->before_bytes;
		last->after_blocks += row->after_blocks;
		last->after_bytes += row->after_bytes;
		free(row->key);
	}
	growths->count = count;
	qsort(growths->rows, growths->count, sizeof(*growths->rows), by_growth);
}

/* Add a column with a difference, which text shows with its sign. */
static void add_difference(struct rp_rows *rows, double before, double after,
			   const char *(*format)(uint64_t number, char *buffer))
{
	const uint64_t size = rp_heap_rounded(fabs(after - before));
	const bool is_negative = after < before && size > 0;
	char digits[RP_TEXT_MAX], text[RP_TEXT_MAX + 1];
	struct json_object *json = json_object_new_uint64(size);

	if (is_negative) {
		json_object_put(json);
		json = json_object_new_int64(size < INT64_MAX ? -(int64_t)size : INT64_MIN);
	}
	snprintf(text, sizeof(text), "%s%s", is_negative ? "-" : size ? "+" : "",
		 format(size, digits));
	rp_rows_add(rows, json, text);
}

static void add_row(struct rp_rows *rows, size_t number, const void *data)
{
	const struct heap_growth *growth = &((const struct heap_growths *)data)->rows[number];
	const char *name = process_name(growth);

	add_difference(rows, growth->before_bytes, growth->after_bytes, rp_text_bytes);
	add_difference(rows, growth->before_blocks, growth->after_blocks, rp_text_count);
	rp_heap_bytes_add(rows, growth->before_bytes);
	rp_heap_count_add(rows, growth->before_blocks);
	rp_heap_bytes_add(rows, growth->after_bytes);
	rp_heap_count_add(rows, growth->after_blocks);
	rp_rows_add_string(rows, name);
	rp_stack_add(rows, &growth->view->profile.tree, growth->node);
}

static int print(const struct rp_report *report, struct heap_growths *growths)
{
	static const struct rp_column columns[] = {
		{ .key = "grown_bytes", .title = "GROWN", .is_right = true },
		{ .key = "grown_blocks", .title = "BLOCKS", .is_right = true },
		{ .key = "before_bytes", .title = "BEFORE", .is_right = true },
		{ .key = "before_blocks", .title = "BLOCKS", .is_right = true },
		{ .key = "after_bytes", .title = "AFTER", .is_right = true },
		{ .key = "after_blocks", .title = "BLOCKS", .is_right = true },
		{ .key = "process", .title = "PROCESS" },
		{ .key = "stack", .title = "STACK" },
	};

	merge(growths);
	return rp_report_print(report, columns, sizeof(columns) / sizeof(columns[0]),
			       growths->count, add_row, growths);
}

/* Return: the exit status after the sites were added with the result `ret`, and printed. */
static int finish(const struct rp_report *report, struct heap_growths *growths, int ret)
{
	int status = RP_EXIT_FAILURE;

	if (ret)
		rp_tool_error("out of memory");
	else
		status = print(report, growths);
	for (size_t i = 0; i < growths->count; i++)
		free(growths->rows[i].key);
	free(growths->rows);
	return status;
}

/* Compare the time `earlier_ns` of the report's trace with its end. */
static int compare_times(const struct rp_report *report, int64_t earlier_ns)
{
	struct heap_growths growths = { 0 };
	struct rp_heap_view view;
	int ret, status = rp_heap_view_init(report, &view);

	if (status != RP_EXIT_OK)
		return status;
	view.heap.has_earlier = true;
	view.heap.earlier_ns = earlier_ns;
	ret = rp_heap_view_read(&view);
	status = RP_EXIT_FAILURE;
	if (view.has_table) {
		status = finish(report, &growths, add_sites(&growths, &view, false));
		rp_heap_view_doubts(&view);
		if (ret)
			status = rp_report_end(report, ret);
	}
	rp_heap_view_fini(&view);
	return status;
}

/* Read both traces, and compare their ends. */
static int compare_views(struct rp_heap_view *before, struct rp_heap_view *after)
{
	struct heap_growths growths = { 0 };
	const int earlier = rp_heap_view_read(before), later = rp_heap_view_read(after);
	int ret, status;

	if (!before->has_table || !after->has_table)
		return RP_EXIT_FAILURE;
	ret = add_sites(&growths, before, true);
	if (ret == 0)
		ret = add_sites(&growths, after, false);
	status = finish(before->report, &growths, ret);
	rp_heap_view_doubts(before);
	rp_heap_view_doubts(after);
	if (earlier)
		status = rp_report_end(before->report, earlier);
	if (later)
		status = rp_report_end(after->report, later);
	return status;
}

static int compare_reports(const struct rp_report *report, const struct rp_report *later)
{
	struct rp_heap_view before, after;
	int status = rp_heap_view_init(report, &before);

	if (status != RP_EXIT_OK)
		return status;
	status = rp_heap_view_init(later, &after);
	if (status == RP_EXIT_OK) {
		status = compare_views(&before, &after);
		rp_heap_view_fini(&after);
	}
	rp_heap_view_fini(&before);
	return status;
}

/* Open the later trace, whose times have a start of their own. */
static int compare_traces(const struct rp_report *report, const char *path)
{
	struct rp_report later = {
		.options = report->options, .file = path, .where = report->where,
	};
	struct rp_trace_query query;
	struct rp_input input;
	int status = RP_EXIT_USAGE;

	if (rp_input_open(&input, path, -1, &later.reader))
		return RP_EXIT_FAILURE;
	later.path = input.path;
	if (rp_time_range_resolve("report", report->options, later.reader, &later.range) == 0) {
		query = rp_time_range_query(&later.range);
		status = rp_time_range_select("report", &query, path, &input, later.reader) < 0 ?
			 RP_EXIT_FAILURE : compare_reports(report, &later);
	}
	if (status == RP_EXIT_OK)
		status = rp_report_end(&later, 0);
	rp_reader_close(later.reader);
	rp_input_close(&input);
	return status;
}

int rp_report_heap_diff(const struct rp_report *report)
{
	struct rp_tool_options options = *report->options;
	struct rp_time_range range;

	/* The name of a file that exists comes before a time. */
	if (access(options.diff, F_OK) == 0 || rp_time_point_parse(options.diff, &options.from))
		return rp_diff_is_file(options.diff) ?
		       compare_traces(report, options.diff) : RP_EXIT_FAILURE;
	options.given = RP_OPTION_FROM;
	if (rp_time_range_resolve("report", &options, report->reader, &range))
		return RP_EXIT_USAGE;
	if (!rp_time_range_has(&report->range, range.from_ns)) {
		rp_tool_error("report: the time of --diff is not between --from and --to");
		return RP_EXIT_USAGE;
	}
	return compare_times(report, range.from_ns);
}
