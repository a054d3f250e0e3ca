/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE heap: a row for each stack that allocated sampled blocks. */
#include <errno.h>
#include <inttypes.h>

#include "tools/cli/display_text.h"
#include "tools/ringpipe/report_heap.h"

static int take_event(struct rp_profile *profile, const struct rp_reader_event *event,
		      uint64_t process, void *data)
{
	return rp_heap_profile_take(data, profile, event, process);
}

uint64_t rp_heap_rounded(double number)
{
	return number < 0x1p63 ? (uint64_t)(number + 0.5) : UINT64_MAX;
}

void rp_heap_bytes_add(struct rp_rows *rows, double bytes)
{
	char text[RP_TEXT_MAX];

	rp_rows_add(rows, json_object_new_uint64(rp_heap_rounded(bytes)),
		    rp_text_bytes(rp_heap_rounded(bytes), text));
}

void rp_heap_count_add(struct rp_rows *rows, double count)
{
	char text[RP_TEXT_MAX];

	rp_rows_add(rows, json_object_new_uint64(rp_heap_rounded(count)),
		    rp_text_count(rp_heap_rounded(count), text));
}

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

void rp_heap_view_doubts(const struct rp_heap_view *view)
{
	const struct rp_heap_profile *heap = &view->heap;

	if (heap->without_stack)
		rp_tool_error("%s: %" PRIu64 " samples have no stack; `ringpipe collect --stacks` "
			      "records stacks", view->report->path, heap->without_stack);
	if (heap->unfollowed)
		rp_tool_error("%s: of %" PRIu64 " samples it is unknown when they were freed; "
			      "they are not in LIVE", view->report->path, heap->unfollowed);
	rp_report_bounds(view->report, &view->profile);
}

int rp_heap_view_init(const struct rp_report *report, struct rp_heap_view *ret_view)
{
	int status;

	*ret_view = (struct rp_heap_view){ .report = report };
	status = rp_report_profile_init(report, RP_PROFILE_BY_FUNCTION, &ret_view->profile);
	ret_view->profile.skips_inbox = true;
	return status;
}

int rp_heap_view_read(struct rp_heap_view *view)
{
	int ret = rp_profile_read(&view->profile, view->report->reader, take_event, &view->heap);

	rp_heap_profile_finish(&view->heap);
	view->has_table = rp_report_has_table(view->report, ret, view->heap.samples > 0,
					      "no samples of the heap; start the program by "
					      "`ringpipe inbox`, and record the provider "
					      "ringpipe-heap");
	return ret;
}

void rp_heap_view_fini(struct rp_heap_view *view)
{
	rp_heap_profile_fini(&view->heap);
	rp_profile_fini(&view->profile);
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
