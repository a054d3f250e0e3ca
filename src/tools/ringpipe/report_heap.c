/* SPDX-License-Identifier: MIT */
/* ringpipe report FILE heap: a row for each stack that allocated sampled blocks. */
#include <errno.h>
#include <inttypes.h>

#include "tools/analysis/heap_profile.h"
#include "tools/cli/display_text.h"
#include "tools/ringpipe/report_functions.h"

struct heap_view {
	const struct rp_report *report;
	struct rp_profile profile;
	struct rp_heap_profile heap;
};

static int take_event(struct rp_profile *profile, const struct rp_reader_event *event,
		      uint64_t process, void *data)
{
	return rp_heap_profile_take(data, profile, event, process);
}

/* Estimates are not whole numbers. */
static uint64_t rounded(double number)
{
	return number < 0x1p63 ? (uint64_t)(number + 0.5) : UINT64_MAX;
}

static void add_bytes(struct rp_rows *rows, double bytes)
{
	char text[RP_TEXT_MAX];

	rp_rows_add(rows, json_object_new_uint64(rounded(bytes)),
		    rp_text_bytes(rounded(bytes), text));
}

static void add_count(struct rp_rows *rows, double count)
{
	char text[RP_TEXT_MAX];

	rp_rows_add(rows, json_object_new_uint64(rounded(count)),
		    rp_text_count(rounded(count), text));
}

static int print(const struct heap_view *view)
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
	const uint64_t top = rp_report_top(view->report);
	struct rp_rows rows;
	int status;

	rp_rows_init(&rows, view->report->options->format, columns,
		     sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < view->heap.site_count && i < top; i++) {
		const struct rp_heap_site *site = &view->heap.sites[i];

		add_bytes(&rows, site->live_bytes);
		add_count(&rows, site->live_blocks);
		add_bytes(&rows, site->allocated_bytes);
		add_count(&rows, site->allocated_blocks);
		add_count(&rows, (double)site->samples);
		rp_process_add(&rows, &view->profile, site->process);
		rp_stack_add(&rows, &view->profile.tree, site->node);
	}
	status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return status;
}

static void print_doubts(const struct heap_view *view)
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

static int read_and_print(struct heap_view *view)
{
	int ret = rp_profile_read(&view->profile, view->report->reader, take_event, &view->heap);
	int status;

	rp_heap_profile_finish(&view->heap);
	if (!rp_report_has_table(view->report, ret, view->heap.samples > 0,
				 "no samples of the heap; start the program by `ringpipe inbox`, "
				 "and record the provider ringpipe-heap"))
		return RP_EXIT_FAILURE;
	status = print(view);
	print_doubts(view);
	return ret ? rp_report_end(view->report, ret) : status;
}

int rp_report_heap(const struct rp_report *report)
{
	struct heap_view view = { .report = report };
	int status = rp_report_profile_init(report, RP_PROFILE_BY_FUNCTION, &view.profile);

	if (status != RP_EXIT_OK)
		return status;
	view.profile.skips_inbox = true;
	status = read_and_print(&view);
	rp_heap_profile_fini(&view.heap);
	rp_profile_fini(&view.profile);
	return status;
}
