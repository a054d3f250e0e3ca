/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE waits: a row for each pair of a thread that waited and the thread that ended
 * the wait; for calls of futex(2), one for each pair and address.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/wait_table.h"
#include "tools/cli/display_text.h"
#include "tools/cli/json.h"
#include "tools/ringpipe/report_functions.h"

/* The latest `cswitch`, whose details are the next event of its thread. */
struct waits_switch {
	bool is_set;
	uint64_t thread;
	uint32_t node;
};

struct waits_view {
	const struct rp_report *report;
	struct rp_profile profile;
	struct rp_wait_table table;
	struct waits_switch last;
};

static int add_wait(struct waits_view *view, const struct rp_reader_event *event,
		    uint64_t process, bool is_futex, uint32_t node)
{
	const struct rp_wait_row wait = {
		.process = process,
		.thread = event->thread,
		.waker_process = rp_profile_number(event, "waker_process"),
		.waker_thread = rp_profile_number(event, "waker_thread"),
		.address = is_futex ? rp_profile_number(event, "address") : 0,
		.kind = is_futex ? RP_WAIT_ROW_FUTEX : RP_WAIT_ROW_SWITCH,
		.node = node,
		.total_ns = rp_profile_number(event, "duration_ns"),
	};

	if (!rp_report_takes(view->report, event, process))
		return 0;
	return rp_wait_table_add(&view->table, &wait);
}

static int take_event(struct rp_profile *profile, const struct rp_reader_event *event,
		      uint64_t process, void *data)
{
	struct waits_view *view = data;
	const enum rp_profile_event kind = rp_profile_classify(event);
	const struct rp_call_weight none = { 0 };
	struct waits_switch *last = &view->last;
	uint32_t group, node;
	int ret;

	if (kind == RP_PROFILE_SWITCH) {
		last->is_set = true;
		last->thread = event->thread;
		return rp_profile_add(profile, event, process, &none, &group, &last->node);
	}
	/* A thread that was preempted, which is state 0, did not wait for another one. */
	if (kind == RP_PROFILE_WAIT && rp_profile_number(event, "state") != 0) {
		node = last->is_set && last->thread == event->thread ? last->node : RP_CALL_NONE;
		last->is_set = false;
		return add_wait(view, event, process, false, node);
	}
	if (kind != RP_PROFILE_FUTEX_WAIT)
		return 0;
	ret = rp_profile_add(profile, event, process, &none, &group, &node);
	return ret ? ret : add_wait(view, event, process, true, node);
}

/* Add the columns of a thread and its process; without `is_known`, empty ones. */
static void add_thread(const struct waits_view *view, struct rp_rows *rows, bool is_known,
		       uint64_t process, uint64_t thread)
{
	if (is_known) {
		rp_process_add(rows, &view->profile, process);
		rp_rows_add_u64(rows, thread);
		return;
	}
	for (int i = 0; i < 3; i++)
		rp_rows_add(rows, NULL, NULL);
}

static void add_row(struct rp_rows *rows, size_t number, const void *data)
{
	const struct waits_view *view = data;
	const struct rp_wait_row *wait = &view->table.rows[number];
	const bool is_futex = wait->kind == RP_WAIT_ROW_FUTEX;
	char count[RP_TEXT_MAX], address[32] = "";

	snprintf(address, sizeof(address), "0x%" PRIx64, wait->address);
	rp_rows_add_string(rows, wait->is_rest ? "…" : is_futex ? "futex" : "wait");
	rp_time_add(rows, wait->total_ns);
	rp_rows_add(rows, json_object_new_uint64(wait->count),
		    rp_text_count(wait->count, count));
	rp_time_add(rows, wait->max_ns);
	add_thread(view, rows, !wait->is_rest, wait->process, wait->thread);
	add_thread(view, rows, !wait->is_rest && wait->waker_thread != 0, wait->waker_process,
		   wait->waker_thread);
	rp_rows_add_string(rows, is_futex ? address : NULL);
	rp_stack_add(rows, &view->profile.tree, wait->node);
}

static int print(const struct waits_view *view)
{
	static const struct rp_column columns[] = {
		{ .key = "kind", .title = "KIND" },
		{ .key = "total_ns", .title = "TOTAL", .is_right = true },
		{ .key = "count", .title = "WAITS", .is_right = true },
		{ .key = "max_ns", .title = "LONGEST", .is_right = true },
		{ .key = "process_id", .title = "PID", .is_right = true },
		{ .key = "process", .title = "PROCESS" },
		{ .key = "thread_id", .title = "THREAD", .is_right = true },
		{ .key = "waker_process_id", .title = "WAKER", .is_right = true },
		{ .key = "waker_process", .title = "PROCESS" },
		{ .key = "waker_thread_id", .title = "THREAD", .is_right = true },
		{ .key = "address", .title = "ADDRESS" },
		{ .key = "stack", .title = "STACK" },
	};

	return rp_report_print(view->report, columns, sizeof(columns) / sizeof(columns[0]),
			       view->table.count, add_row, view);
}

static int read_and_print(struct waits_view *view)
{
	const uint64_t *seen = view->profile.seen;
	const char *path = view->report->path;
	int ret = rp_profile_read(&view->profile, view->report->reader, take_event, view);
	int status;

	rp_wait_table_finish(&view->table);
	if (!rp_report_has_table(view->report, ret, view->table.count > 0,
				 "no waits with the thread that ended them; `ringpipe record "
				 "--kernel sched` records them, and with `--kernel sched,futex` "
				 "also the addresses of locks"))
		return RP_EXIT_FAILURE;
	status = print(view);
	if (!seen[RP_PROFILE_FUTEX_WAIT])
		rp_tool_error("%s: no addresses of locks; `ringpipe record --kernel sched,futex` "
			      "records them", path);
	rp_report_bounds(view->report, &view->profile);
	return ret ? rp_report_end(view->report, ret) : status;
}

int rp_report_waits(const struct rp_report *report)
{
	struct waits_view view = { .report = report };
	int status = rp_report_profile_init(report, RP_PROFILE_BY_FUNCTION, &view.profile);

	if (status != RP_EXIT_OK)
		return status;
	view.profile.has_kernel = false;
	status = read_and_print(&view);
	rp_wait_table_fini(&view.table);
	rp_profile_fini(&view.profile);
	return status;
}
