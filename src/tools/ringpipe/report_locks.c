/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE locks: a row for each lock and each thread that held it while others waited,
 * or that ended their waits, from the events of ringpipe-locks.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/analysis/wait_table.h"
#include "tools/cli/display_text.h"
#include "tools/ringpipe/report_functions.h"

struct locks_view {
	const struct rp_report *report;
	struct rp_profile profile;
	struct rp_wait_table table;
};

/* Return: whether the event is a wait; *ret_kind is its kind. */
static bool classify(const struct rp_reader_event *event, enum rp_wait_row_kind *ret_kind)
{
	enum { MUTEX = 1, RWLOCK, CONDITION };	/* ids */

	if (strcmp(event->type->provider, "ringpipe-locks") != 0)
		return false;
	switch (event->type->id) {
	case MUTEX:
		*ret_kind = RP_WAIT_ROW_MUTEX;
		return true;
	case RWLOCK:
		*ret_kind = rp_profile_number(event, "is_write") ? RP_WAIT_ROW_WRITE_LOCK :
								   RP_WAIT_ROW_READ_LOCK;
		return true;
	case CONDITION:
		*ret_kind = RP_WAIT_ROW_CONDITION;
		return true;
	default:
		return false;
	}
}

static int take_event(struct rp_profile *profile, const struct rp_reader_event *event,
		      uint64_t process, void *data)
{
	const struct rp_call_weight none = { 0 };
	struct rp_wait_row wait = { .process = process };
	struct locks_view *view = data;
	uint32_t group;
	int ret;

	if (!classify(event, &wait.kind) || !rp_report_takes(view->report, event, process))
		return 0;
	wait.address = rp_profile_number(event, "address");
	wait.total_ns = rp_profile_number(event, "duration_ns");
	wait.waker_thread = rp_profile_number(event, "owner");
	if (!wait.waker_thread)
		wait.waker_thread = rp_profile_number(event, "waker");
	ret = rp_profile_add(profile, event, process, &none, &group, &wait.node);
	return ret ? ret : rp_wait_table_add(&view->table, &wait);
}

static void add_row(struct rp_rows *rows, size_t number, const void *data)
{
	const struct locks_view *view = data;
	const struct rp_wait_row *wait = &view->table.rows[number];
	static const char *const kinds[] = {
		[RP_WAIT_ROW_MUTEX] = "mutex", [RP_WAIT_ROW_READ_LOCK] = "read lock",
		[RP_WAIT_ROW_WRITE_LOCK] = "write lock", [RP_WAIT_ROW_CONDITION] = "condition",
	};
	char count[RP_TEXT_MAX], address[32];

	snprintf(address, sizeof(address), "0x%" PRIx64, wait->address);
	rp_rows_add_string(rows, wait->is_rest ? "…" : kinds[wait->kind]);
	rp_time_add(rows, wait->total_ns);
	rp_rows_add(rows, json_object_new_uint64(wait->count), rp_text_count(wait->count, count));
	rp_time_add(rows, wait->max_ns);
	if (wait->is_rest) {
		for (int i = 0; i < 4; i++)
			rp_rows_add(rows, NULL, NULL);
	} else {
		rp_rows_add_string(rows, address);
		rp_rows_add(rows, wait->waker_thread ?
			    json_object_new_uint64(wait->waker_thread) : NULL, NULL);
		rp_process_add(rows, &view->profile, wait->process);
	}
	rp_stack_add(rows, &view->profile.tree, wait->node);
}

static int print(const struct locks_view *view)
{
	static const struct rp_column columns[] = {
		{ .key = "kind", .title = "KIND" },
		{ .key = "total_ns", .title = "WAITED", .is_right = true },
		{ .key = "count", .title = "WAITS", .is_right = true },
		{ .key = "max_ns", .title = "LONGEST", .is_right = true },
		{ .key = "address", .title = "ADDRESS" },
		{ .key = "holder_thread_id", .title = "HOLDER", .is_right = true },
		{ .key = "process_id", .title = "PID", .is_right = true },
		{ .key = "process", .title = "PROCESS" },
		{ .key = "stack", .title = "STACK" },
	};

	return rp_report_print(view->report, columns, sizeof(columns) / sizeof(columns[0]),
			       view->table.count, add_row, view);
}

static int read_and_print(struct locks_view *view)
{
	int ret = rp_profile_read(&view->profile, view->report->reader, take_event, view);
	int status;

	rp_wait_table_finish(&view->table);
	if (!rp_report_has_table(view->report, ret, view->table.count > 0,
				 "no waits for locks; start the program by `ringpipe inbox`, and "
				 "record the provider ringpipe-locks"))
		return RP_EXIT_FAILURE;
	status = print(view);
	rp_report_bounds(view->report, &view->profile);
	return ret ? rp_report_end(view->report, ret) : status;
}

int rp_report_locks(const struct rp_report *report)
{
	struct locks_view view = { .report = report };
	int status = rp_report_profile_init(report, RP_PROFILE_BY_FUNCTION, &view.profile);

	if (status != RP_EXIT_OK)
		return status;
	view.profile.skips_inbox = true;
	status = read_and_print(&view);
	rp_wait_table_fini(&view.table);
	rp_profile_fini(&view.profile);
	return status;
}
