/* SPDX-License-Identifier: MIT */
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

void rp_heap_view_doubts(const struct rp_heap_view *view)
{
	const struct rp_heap_profile *heap = &view->heap;
	char text[RP_TEXT_MAX];

	if (heap->without_stack)
		rp_tool_error("%s: %s without a stack; `ringpipe collect --stacks` records "
			      "stacks", view->report->path,
			      rp_text_counted(heap->without_stack, "sample", text));
	if (heap->unfollowed)
		rp_tool_error("%s: LIVE lacks %s, because the time of the release is unknown",
			      view->report->path,
			      rp_text_counted(heap->unfollowed, "sample", text));
	rp_report_bounds(view->report, &view->profile);
}

int rp_heap_view_init(const struct rp_report *report, struct rp_heap_view *ret_view)
{
	int status;

	*ret_view = (struct rp_heap_view){ .report = report, .heap.where = report->where };
	status = rp_report_profile_init(report, RP_PROFILE_BY_FUNCTION, &ret_view->profile);
	ret_view->profile.skips_inbox = true;
	return status;
}

int rp_heap_view_read(struct rp_heap_view *view)
{
	const char *lack = view->report->where ? "no such samples of the heap" :
			   "no samples of the heap; start the program by `ringpipe inbox`, and "
			   "record the provider ringpipe-heap";
	int ret = rp_profile_read(&view->profile, view->report->reader, take_event, &view->heap);

	rp_heap_profile_finish(&view->heap);
	view->has_table = rp_report_has_table(view->report, ret, view->heap.samples > 0, lack);
	return ret;
}

void rp_heap_view_fini(struct rp_heap_view *view)
{
	rp_heap_profile_fini(&view->heap);
	rp_profile_fini(&view->profile);
}
