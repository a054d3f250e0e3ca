/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE cpu and offcpu. A row is a function, a function of a process or thread
 * (--by), or, with --function, a caller or callee of one function.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/display_text.h"
#include "tools/ringpipe/report_functions.h"

#define RELATED_MAX 5u			/* callers and callees of a function in JSON and CSV */
#define GROUP_FUNCTIONS_MAX 3u		/* functions of a process or thread */

struct profile_view {
	const struct rp_report *report;
	struct rp_profile profile;
	rp_call_value value;
	bool is_time;
	struct rp_call_edge *edges;
	size_t edge_count;
	struct rp_column columns[RP_ROWS_COLUMNS_MAX];	/* of processes or threads */
};

static int compare_values(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int by_weight(const void *left, const void *right, void *data)
{
	const struct profile_view *view = data;
	const struct rp_call_edge *a = left, *b = right;
	int order = compare_values(view->value(&a->weight), view->value(&b->weight));

	if (!order)
		order = rp_call_function_compare(&view->profile.tree, a->caller, b->caller);
	return order ? order : rp_call_function_compare(&view->profile.tree, a->callee, b->callee);
}

static int by_group(const void *left, const void *right, void *data)
{
	const struct profile_view *view = data;
	const struct rp_call_group *a = left, *b = right;
	int order = compare_values(view->value(&a->weight), view->value(&b->weight));

	if (!order)
		order = compare_values(b->process, a->process);
	if (!order)
		order = compare_values(b->life, a->life);
	return order ? order : compare_values(b->thread, a->thread);
}

static void add_value(const struct profile_view *view, struct rp_rows *rows,
		      const struct rp_call_weight *weight)
{
	char count[RP_TEXT_MAX];

	if (view->is_time)
		rp_time_add(rows, weight->time_ns);
	else
		rp_rows_add(rows, json_object_new_uint64(weight->count),
			    rp_text_count(weight->count, count));
}

/* Waits have two more columns. */
static void add_waits(const struct profile_view *view, struct rp_rows *rows,
		      const struct rp_call_weight *weight)
{
	char count[RP_TEXT_MAX];

	if (!view->is_time)
		return;
	rp_rows_add(rows, json_object_new_uint64(weight->count),
		    rp_text_count(weight->count, count));
	rp_time_add(rows, weight->runnable_ns);
}

/* Add a column with the first callers, or callees, of a function; text has the first one. */
static void add_related(const struct profile_view *view, struct rp_rows *rows,
			const struct rp_call_total *total, bool is_caller)
{
	const struct rp_call_function *functions = view->profile.tree.functions;
	const uint64_t whole = view->value(&total->inclusive);
	struct json_object *array = json_object_new_array();
	char name[RP_FUNCTION_TEXT_MAX], text[RP_FUNCTION_TEXT_MAX + 16] = "-";
	unsigned int count = 0;

	for (size_t i = 0; i < view->edge_count && count < RELATED_MAX; i++) {
		const struct rp_call_edge *edge = &view->edges[i];
		const uint32_t other = is_caller ? edge->caller : edge->callee;
		const double share = rp_share(view->value(&edge->weight), whole);
		struct json_object *row;

		if ((is_caller ? edge->callee : edge->caller) != total->function ||
		    other == RP_CALL_NONE)
			continue;
		if (count++ == 0)
			snprintf(text, sizeof(text), "%s %.0f %%",
				 rp_function_text(&functions[other], name), 100 * share);
		row = rp_function_to_json(&functions[other]);
		json_object_object_add(row, "share", json_object_new_double(share));
		json_object_array_add(array, row);
	}
	rp_rows_add(rows, array, text);
}

static const struct rp_column sample_columns[] = {
	{ .key = "exclusive_samples", .title = "SELF", .is_right = true },
	{ .key = "exclusive_share", .title = "SHARE", .is_right = true },
	{ .key = "inclusive_samples", .title = "TOTAL", .is_right = true },
	{ .key = "inclusive_share", .title = "SHARE", .is_right = true },
	{ .key = "function", .title = "FUNCTION" }, { .key = "file" },
	{ .key = "callers", .title = "CALLER" }, { .key = "callees", .title = "CALLEE" },
};

static const struct rp_column time_columns[] = {
	{ .key = "exclusive_ns", .title = "SELF", .is_right = true },
	{ .key = "exclusive_share", .title = "SHARE", .is_right = true },
	{ .key = "waits", .title = "WAITS", .is_right = true },
	{ .key = "runnable_ns", .title = "RUNNABLE", .is_right = true },
	{ .key = "inclusive_ns", .title = "TOTAL", .is_right = true },
	{ .key = "inclusive_share", .title = "SHARE", .is_right = true },
	{ .key = "function", .title = "FUNCTION" }, { .key = "file" },
	{ .key = "callers", .title = "CALLER" }, { .key = "callees", .title = "CALLEE" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void init_rows(const struct profile_view *view, struct rp_rows *rows,
		      const struct rp_column *samples, size_t sample_count,
		      const struct rp_column *times, size_t time_count)
{
	rp_rows_init(rows, view->report->options->format, view->is_time ? times : samples,
		     view->is_time ? time_count : sample_count);
}

static int sort_edges(struct profile_view *view)
{
	const int ret = rp_call_tree_edges(&view->profile.tree, &view->edges, &view->edge_count);

	if (ret == 0 && view->edge_count)
		qsort_r(view->edges, view->edge_count, sizeof(*view->edges), by_weight, view);
	return ret;
}

static int add_functions(struct profile_view *view, struct rp_rows *rows)
{
	const struct rp_call_tree *tree = &view->profile.tree;
	struct rp_call_total *totals;
	size_t count;
	int ret = sort_edges(view);

	if (ret == 0)
		ret = rp_call_tree_totals(tree, RP_CALL_NONE, &totals, &count);
	init_rows(view, rows, sample_columns, COUNT(sample_columns), time_columns,
		  COUNT(time_columns));
	if (ret)
		return ret;
	rp_call_totals_sort(&view->profile.tree, totals, count, view->value);
	for (size_t i = 0; i < count && i < rp_report_top(view->report); i++) {
		const struct rp_call_total *total = &totals[i];

		add_value(view, rows, &total->exclusive);
		rp_share_add(rows, view->value(&total->exclusive), view->value(&tree->weight));
		add_waits(view, rows, &total->exclusive);
		add_value(view, rows, &total->inclusive);
		rp_share_add(rows, view->value(&total->inclusive), view->value(&tree->weight));
		rp_function_add(rows, &tree->functions[total->function]);
		add_related(view, rows, total, true);
		add_related(view, rows, total, false);
	}
	free(totals);
	return 0;
}

static const struct rp_column process_samples[] = {
	{ .key = "samples", .title = "SAMPLES", .is_right = true },
	{ .key = "share", .title = "SHARE", .is_right = true },
	{ .key = "process_id", .title = "PID", .is_right = true },
	{ .key = "process", .title = "PROCESS" },
	{ .key = "thread_id", .title = "THREAD", .is_right = true },
	{ .key = "exclusive_samples", .title = "SELF", .is_right = true },
	{ .key = "inclusive_samples", .title = "TOTAL", .is_right = true },
	{ .key = "function", .title = "FUNCTION" }, { .key = "file" },
};

static const struct rp_column process_times[] = {
	{ .key = "time_ns", .title = "WAITED", .is_right = true },
	{ .key = "share", .title = "SHARE", .is_right = true },
	{ .key = "waits", .title = "WAITS", .is_right = true },
	{ .key = "runnable_ns", .title = "RUNNABLE", .is_right = true },
	{ .key = "process_id", .title = "PID", .is_right = true },
	{ .key = "process", .title = "PROCESS" },
	{ .key = "thread_id", .title = "THREAD", .is_right = true },
	{ .key = "exclusive_ns", .title = "SELF", .is_right = true },
	{ .key = "inclusive_ns", .title = "TOTAL", .is_right = true },
	{ .key = "function", .title = "FUNCTION" }, { .key = "file" },
};

/* Add a row; `total` is NULL if no stack of the group has a function. */
static void add_group_row(const struct profile_view *view, struct rp_rows *rows,
			  const struct rp_call_group *group, const struct rp_call_total *total)
{
	const struct rp_call_tree *tree = &view->profile.tree;
	static const struct rp_call_weight none;
	const bool has_thread = view->profile.by == RP_PROFILE_BY_THREAD && !group->is_rest;

	add_value(view, rows, &group->weight);
	rp_share_add(rows, view->value(&group->weight), view->value(&tree->weight));
	add_waits(view, rows, &group->weight);
	if (group->is_rest) {
		rp_rows_add(rows, NULL, NULL);
		rp_rows_add_string(rows, tree->functions[RP_CALL_REST].name);
	} else {
		rp_process_add_life(rows, &view->profile, group->process, group->life);
	}
	rp_rows_add(rows, has_thread ? json_object_new_uint64(group->thread) : NULL, NULL);
	add_value(view, rows, total ? &total->exclusive : &none);
	add_value(view, rows, total ? &total->inclusive : &none);
	rp_function_add(rows, total ? &tree->functions[total->function] :
			&(struct rp_call_function){ .name = NULL });
}

static int add_group(struct profile_view *view, struct rp_rows *rows,
		     const struct rp_call_group *group)
{
	struct rp_call_total *totals;
	size_t count;
	int ret = rp_call_tree_totals(&view->profile.tree, group->number, &totals, &count);

	if (ret)
		return ret;
	rp_call_totals_sort(&view->profile.tree, totals, count, view->value);
	if (!count)
		add_group_row(view, rows, group, NULL);
	for (size_t i = 0; i < count && i < GROUP_FUNCTIONS_MAX; i++) {
		if (i == 0 || view->value(&totals[i].exclusive))
			add_group_row(view, rows, group, &totals[i]);
	}
	free(totals);
	return 0;
}

/* Text without threads has no column for them. */
static void init_group_rows(struct profile_view *view, struct rp_rows *rows)
{
	const struct rp_column *columns = view->is_time ? process_times : process_samples;
	const size_t count = view->is_time ? COUNT(process_times) : COUNT(process_samples);

	memcpy(view->columns, columns, count * sizeof(*columns));
	for (size_t i = 0; i < count; i++) {
		if (view->profile.by != RP_PROFILE_BY_THREAD &&
		    !strcmp(columns[i].key, "thread_id"))
			view->columns[i].title = NULL;
	}
	rp_rows_init(rows, view->report->options->format, view->columns, count);
}

static int add_groups(struct profile_view *view, struct rp_rows *rows)
{
	const struct rp_call_tree *tree = &view->profile.tree;
	struct rp_call_group *groups = calloc(tree->group_count + 1, sizeof(*groups));
	const uint64_t top = rp_report_top(view->report);
	int ret = groups ? 0 : -ENOMEM;

	init_group_rows(view, rows);
	if (ret == 0 && tree->group_count) {
		memcpy(groups, tree->groups, tree->group_count * sizeof(*groups));
		qsort_r(groups, tree->group_count, sizeof(*groups), by_group, view);
	}
	for (size_t i = 0; ret == 0 && i < tree->group_count && i < top; i++)
		ret = add_group(view, rows, &groups[i]);
	free(groups);
	return ret;
}

static const struct rp_column relation_samples[] = {
	{ .key = "relation", .title = "RELATION" },
	{ .key = "samples", .title = "SAMPLES", .is_right = true },
	{ .key = "share", .title = "SHARE", .is_right = true },
	{ .key = "function", .title = "FUNCTION" }, { .key = "file" },
};

static const struct rp_column relation_times[] = {
	{ .key = "relation", .title = "RELATION" },
	{ .key = "time_ns", .title = "WAITED", .is_right = true },
	{ .key = "share", .title = "SHARE", .is_right = true },
	{ .key = "waits", .title = "WAITS", .is_right = true },
	{ .key = "runnable_ns", .title = "RUNNABLE", .is_right = true },
	{ .key = "function", .title = "FUNCTION" }, { .key = "file" },
};

static void add_relation(const struct profile_view *view, struct rp_rows *rows,
			 const char *relation, const struct rp_call_weight *weight,
			 const struct rp_call_weight *whole, uint32_t function)
{
	rp_rows_add_string(rows, relation);
	add_value(view, rows, weight);
	rp_share_add(rows, view->value(weight), view->value(whole));
	add_waits(view, rows, weight);
	rp_function_add(rows, &view->profile.tree.functions[function]);
}

/* Add the callers or the callees. */
static void add_relations(const struct profile_view *view, struct rp_rows *rows,
			  const struct rp_call_total *total, bool is_caller)
{
	uint64_t count = 0;

	for (size_t i = 0; i < view->edge_count && count < rp_report_top(view->report); i++) {
		const struct rp_call_edge *edge = &view->edges[i];
		const uint32_t other = is_caller ? edge->caller : edge->callee;

		if ((is_caller ? edge->callee : edge->caller) != total->function ||
		    other == RP_CALL_NONE)
			continue;
		count++;
		add_relation(view, rows, is_caller ? "caller" : "callee", &edge->weight,
			     &total->inclusive, other);
	}
}

/* Several files may have a function of the name. */
static int add_one_function(struct profile_view *view, struct rp_rows *rows)
{
	const struct rp_call_tree *tree = &view->profile.tree;
	const char *name = view->report->options->function;
	struct rp_call_total *totals;
	size_t count, found = 0;
	int ret = sort_edges(view);

	if (ret == 0)
		ret = rp_call_tree_totals(tree, RP_CALL_NONE, &totals, &count);
	init_rows(view, rows, relation_samples, COUNT(relation_samples), relation_times,
		  COUNT(relation_times));
	if (ret)
		return ret;
	rp_call_totals_sort(&view->profile.tree, totals, count, view->value);
	for (size_t i = 0; i < count; i++) {
		const struct rp_call_total *total = &totals[i];

		if (!tree->functions[total->function].name ||
		    strcmp(tree->functions[total->function].name, name) != 0)
			continue;
		found++;
		add_relation(view, rows, "self", &total->exclusive, &tree->weight,
			     total->function);
		add_relation(view, rows, "total", &total->inclusive, &tree->weight,
			     total->function);
		add_relations(view, rows, total, true);
		add_relations(view, rows, total, false);
	}
	free(totals);
	return found ? 0 : -ENOENT;
}

static int print(struct profile_view *view)
{
	const struct rp_tool_options *options = view->report->options;
	struct rp_rows rows = { 0 };
	int status = RP_EXIT_FAILURE, ret;

	ret = options->given & RP_OPTION_FUNCTION ? add_one_function(view, &rows) :
	      options->by == RP_REPORT_BY_FUNCTION ? add_functions(view, &rows) :
						     add_groups(view, &rows);
	if (ret == 0)
		status = rp_rows_print(&rows);
	else if (ret == -ENOENT)
		rp_tool_error("%s: no stack has a function '%s'", view->report->path,
			      options->function);
	else
		rp_tool_error("out of memory");
	rp_rows_fini(&rows);
	free(view->edges);
	return status;
}

static int read_and_print(struct profile_view *view)
{
	struct rp_profile *profile = &view->profile;
	struct rp_reader *reader = view->report->reader;
	const char *lack = profile->where ? "no such event with a stack" : view->is_time ?
			   "no waits; `ringpipe record --kernel sched` records them" :
			   "no samples; `ringpipe record`, or `ringpipe collect` with the provider "
			   "Microsoft-DotNETCore-SampleProfiler, records them";
	int status;
	int ret = view->is_time ? rp_profile_read_waits(profile, reader) :
				  rp_profile_read_samples(profile, reader);

	if (!rp_report_has_table(view->report, ret, profile->tree.weight.count > 0, lack))
		return RP_EXIT_FAILURE;
	status = print(view);
	rp_report_bounds(view->report, profile);
	return ret ? rp_report_end(view->report, ret) : status;
}

static int run(const struct rp_report *report, bool is_time)
{
	static const enum rp_profile_by groups[] = {
		[RP_REPORT_BY_FUNCTION] = RP_PROFILE_BY_FUNCTION,
		[RP_REPORT_BY_PROCESS] = RP_PROFILE_BY_PROCESS,
		[RP_REPORT_BY_THREAD] = RP_PROFILE_BY_THREAD,
	};
	const struct rp_tool_options *options = report->options;
	struct profile_view view = {
		.report = report, .is_time = is_time,
		.value = is_time ? rp_call_weight_time : rp_call_weight_count,
	};
	int status;

	if ((options->given & RP_OPTION_FUNCTION) && (options->given & RP_OPTION_BY)) {
		rp_tool_error("report: --by cannot be used with --function");
		return RP_EXIT_USAGE;
	}
	status = rp_report_profile_init(report, groups[options->by], &view.profile);
	if (status != RP_EXIT_OK)
		return status;
	view.profile.has_kernel = !is_time;
	view.profile.where = report->where;
	status = read_and_print(&view);
	rp_profile_fini(&view.profile);
	return status;
}

int rp_report_cpu(const struct rp_report *report)
{
	return run(report, false);
}

int rp_report_offcpu(const struct rp_report *report)
{
	return run(report, true);
}
