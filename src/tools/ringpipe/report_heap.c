/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE heap: a row for each stack that allocated sampled blocks. */
#include "tools/ringpipe/report_heap.h"

static void add_row(struct rp_rows *rows, size_t number, const void *data)
{
	const struct rp_heap_view *view = data;
	const struct rp_heap_site *site = &view->heap.sites[number];

	rp_heap_bytes_add(rows, site->live_bytes);
	rp_heap_count_add(rows, site->live_blocks);
	rp_heap_bytes_add(rows, site->allocated_bytes);
	rp_heap_count_add(rows, site->allocated_blocks);
	rp_heap_count_add(rows, (double)site->samples);
	rp_process_add(rows, &view->profile, site->process);
	rp_stack_add(rows, &view->profile.tree, site->node);
}

static int print(const struct rp_heap_view *view)
{
	static const struct rp_column columns[] = {
		{ .key = "live_bytes", .title = "LIVE", .is_right = true },
		{ .key = "live_blocks", .title = "BLOCKS", .is_right = true },
		{ .key = "allocated_bytes", .title = "ALLOCATED", .is_right = true },
		{ .key = "allocated_blocks", .title = "BLOCKS", .is_right = true },
		{ .key = "samples", .title = "SAMPLES", .is_right = true },
		{ .key = "process_id", .title = "PID", .is_right = true },
		{ .key = "process", .title = "PROCESS" },
		{ .key = "stack", .title = "STACK" },
	};

	return rp_report_print(view->report, columns, sizeof(columns) / sizeof(columns[0]),
			       view->heap.site_count, add_row, view);
}

static int read_and_print(struct rp_heap_view *view)
{
	int ret = rp_heap_view_read(view), status;

	if (!view->has_table)
		return RP_EXIT_FAILURE;
	status = print(view);
	rp_heap_view_doubts(view);
	return ret ? rp_report_end(view->report, ret) : status;
}

int rp_report_heap(const struct rp_report *report)
{
	struct rp_heap_view view;
	int status;

	if (report->options->diff)
		return rp_report_heap_diff(report);
	status = rp_heap_view_init(report, &view);
	if (status != RP_EXIT_OK)
		return status;
	status = read_and_print(&view);
	rp_heap_view_fini(&view);
	return status;
}
