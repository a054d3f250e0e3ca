/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE gc: a row for each .NET process and for each of its generations and heaps,
 * and the longest pauses. With --slowest, only the latter.
 */
#include "tools/ringpipe/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/gc_pauses.h"
#include "tools/trace/trace_symbols.h"
#include "tools/cli/display_text.h"
#include "tools/cli/rows.h"

#define SLOWEST_SHOWN 5u

struct gc_report {
	const struct rp_report *report;
	struct rp_gc_pauses pauses;
	struct rp_processes processes;
	struct rp_gc_pause *slowest;	/* a heap, shortest first, until they are sorted */
	size_t count, max;
};

static uint64_t length_of(const struct rp_gc_pause *pause)
{
	return (uint64_t)pause->stop_ns - (uint64_t)pause->start_ns;
}

/* Return: whether `a` goes before `b` in the report. */
static int compare_pauses(const void *left, const void *right)
{
	const struct rp_gc_pause *a = left, *b = right;
	const uint64_t first = length_of(a), second = length_of(b);

	if (first != second)
		return first < second ? 1 : -1;
	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static void swap(struct rp_gc_pause *a, struct rp_gc_pause *b)
{
	const struct rp_gc_pause other = *a;

	*a = *b;
	*b = other;
}

/* Restore the heap after its first pause was replaced. */
static void sink_first(struct rp_gc_pause *heap, size_t count)
{
	for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && compare_pauses(&heap[child + 1], &heap[child]) > 0)
			child++;
		if (compare_pauses(&heap[child], &heap[at]) <= 0)
			return;
		swap(&heap[child], &heap[at]);
	}
}

static int take_pause(const struct rp_gc_pause *pause, void *data)
{
	struct gc_report *gc = data;
	size_t at = gc->count;

	if (gc->count == gc->max) {
		if (compare_pauses(pause, &gc->slowest[0]) < 0) {
			gc->slowest[0] = *pause;
			sink_first(gc->slowest, gc->count);
		}
		return 0;
	}
	gc->slowest[gc->count++] = *pause;
	for (; at > 0 && compare_pauses(&gc->slowest[at], &gc->slowest[(at - 1) / 2]) > 0;
	     at = (at - 1) / 2)
		swap(&gc->slowest[at], &gc->slowest[(at - 1) / 2]);
	return 0;
}

static int read_collections(struct gc_report *gc)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t process;
	int ret, finished;

	while ((ret = rp_reader_next(gc->report->reader, &event)) == 1) {
		ret = rp_processes_follow_id(&gc->processes, &event, &process);
		if (ret == 0)
			ret = rp_gc_pauses_take(&gc->pauses, &event, process);
		if (ret)
			return ret;
		if (rp_gc_pauses_are_complete(&gc->pauses, gc->report->reader))
			break;
	}
	finished = rp_gc_pauses_finish(&gc->pauses);
	return finished ? finished : ret;
}

static void add_count(struct rp_rows *out, uint64_t count)
{
	char text[RP_TEXT_MAX];

	rp_rows_add(out, json_object_new_uint64(count), rp_text_count(count, text));
}

static void add_bytes(struct rp_rows *out, uint64_t bytes, bool is_known)
{
	char text[RP_TEXT_MAX];

	if (is_known)
		rp_rows_add(out, json_object_new_uint64(bytes), rp_text_bytes(bytes, text));
	else
		rp_rows_add(out, NULL, NULL);
}

static void add_reasons(struct rp_rows *out, const struct rp_gc_sum *sum)
{
	struct json_object *object = json_object_new_object();
	char text[64 * (RP_GC_REASONS + 1)] = "";
	size_t length = 0;

	for (unsigned int i = 0; i <= RP_GC_REASONS; i++) {
		if (!sum->reasons[i])
			continue;
		json_object_object_add(object, rp_gc_reason(i),
				       json_object_new_uint64(sum->reasons[i]));
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s %llu",
					   length ? ", " : "", rp_gc_reason(i),
					   (unsigned long long)sum->reasons[i]);
	}
	rp_rows_add(out, object, length ? text : "-");
}

/* Add a row; heaps of large and pinned objects have sizes only. */
static void add_row(struct rp_rows *out, const struct rp_gc_process *process, const char *name,
		    const struct rp_gc_sum *sum, uint64_t last, uint64_t max)
{
	const bool has_pauses = sum && sum->pauses.count;

	rp_rows_add_u64(out, process->process);
	rp_rows_add_string(out, name);
	if (sum) {
		add_count(out, sum->count);
		add_count(out, sum->background);
		add_count(out, sum->induced);
		add_count(out, sum->pauses.count);
	} else {
		for (unsigned int i = 0; i < 4; i++)
			rp_rows_add(out, NULL, NULL);
	}
	rp_rows_add_duration(out, has_pauses ? rp_latency_percentile(&sum->pauses, 0.5) : 0,
			     has_pauses);
	rp_rows_add_duration(out, has_pauses ? rp_latency_percentile(&sum->pauses, 0.99) : 0,
			     has_pauses);
	rp_rows_add_duration(out, has_pauses ? sum->pauses.max_ns : 0, has_pauses);
	rp_rows_add_duration(out, has_pauses ? sum->pauses.total_ns : 0, has_pauses);
	add_bytes(out, last, process->heap_count);
	add_bytes(out, max, process->heap_count);
	if (sum)
		add_reasons(out, sum);
	else
		rp_rows_add(out, NULL, NULL);
}

static void add_process(struct rp_rows *out, const struct rp_gc_process *process)
{
	static const char *const names[RP_GC_HEAPS] = { "0", "1", "2", "large", "pinned" };
	uint64_t total = 0;

	for (unsigned int i = 0; i < RP_GC_HEAPS; i++) {
		if (__builtin_add_overflow(total, process->heap_last[i], &total))
			total = UINT64_MAX;
	}
	add_row(out, process, "all", &process->all, total, process->total_max);
	for (unsigned int i = 0; i < RP_GC_HEAPS; i++)
		add_row(out, process, names[i],
			i < RP_GC_GENERATIONS ? &process->generations[i] : NULL,
			process->heap_last[i], process->heap_max[i]);
}

static int print_processes(const struct gc_report *gc)
{
	static const struct rp_column columns[] = {
		{ .key = "process_id", .title = "PROCESS", .is_right = true },
		{ .key = "generation", .title = "GENERATION" },
		{ .key = "count", .title = "COUNT", .is_right = true },
		{ .key = "background", .title = "BACKGROUND", .is_right = true },
		{ .key = "induced", .title = "INDUCED", .is_right = true },
		{ .key = "pauses", .title = "PAUSES", .is_right = true },
		{ .key = "p50_ns", .title = "P50", .is_right = true },
		{ .key = "p99_ns", .title = "P99", .is_right = true },
		{ .key = "max_ns", .title = "MAX", .is_right = true },
		{ .key = "total_ns", .title = "TOTAL", .is_right = true },
		{ .key = "size_last_bytes", .title = "LAST SIZE", .is_right = true },
		{ .key = "size_max_bytes", .title = "MAX SIZE", .is_right = true },
		{ .key = "reasons", .title = "REASONS" },
	};
	struct rp_rows out;
	int status;

	rp_rows_init(&out, gc->report->options->format, columns,
		     sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < gc->pauses.count; i++) {
		const struct rp_gc_process *process = gc->pauses.processes[i];

		/* All of it may be outside of the range, or not fulfil the expression. */
		if (process->all.count || process->all.pauses.count || process->heap_count)
			add_process(&out, process);
	}
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	return status;
}

static int print_slowest(struct gc_report *gc)
{
	static const struct rp_column columns[] = {
		{ .key = "duration_ns", .title = "PAUSE", .is_right = true },
		{ .key = "start_ns", .title = "START", .is_right = true },
		{ .key = "process_id", .title = "PROCESS", .is_right = true },
		{ .key = "thread_id", .title = "THREAD", .is_right = true },
		{ .key = "collection", .title = "COLLECTION", .is_right = true },
		{ .key = "generation", .title = "GENERATION", .is_right = true },
		{ .key = "type", .title = "TYPE" }, { .key = "reason", .title = "REASON" },
	};
	static const char *const types[] = { "blocking", "background", "foreground" };
	struct rp_rows out;
	int status;

	rp_rows_init(&out, gc->report->options->format, columns,
		     sizeof(columns) / sizeof(columns[0]));
	if (gc->count)
		qsort(gc->slowest, gc->count, sizeof(*gc->slowest), compare_pauses);
	for (size_t i = 0; i < gc->count; i++) {
		const struct rp_gc_pause *pause = &gc->slowest[i];
		const struct rp_gc_collection *collection = &pause->collection;
		const bool is_known = collection->is_known;

		rp_rows_add_duration(&out, length_of(pause), true);
		rp_rows_addf(&out, json_object_new_int64(pause->start_ns), "%.6f s",
			     (double)pause->start_ns / 1e9);
		rp_rows_add_u64(&out, pause->process);
		rp_rows_add_u64(&out, pause->thread);
		rp_rows_add(&out, is_known ? json_object_new_uint64(collection->number) : NULL,
			    NULL);
		rp_rows_add(&out, is_known ? json_object_new_uint64(collection->generation) : NULL,
			    NULL);
		rp_rows_add_string(&out, is_known ? types[collection->type] : NULL);
		rp_rows_add_string(&out, is_known ? rp_gc_reason(collection->reason) : NULL);
	}
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	return status;
}

static int print(struct gc_report *gc)
{
	const struct rp_tool_options *options = gc->report->options;
	const bool is_text = options->format == RP_FORMAT_TEXT;
	int status;

	if (options->given & RP_OPTION_SLOWEST)
		return print_slowest(gc);
	if (is_text && gc->pauses.count == 0) {
		puts("The trace has no garbage collections; `ringpipe collect --providers "
		     "Microsoft-Windows-DotNETRuntime:1:4` records those of a .NET process.");
		return RP_EXIT_OK;
	}
	status = print_processes(gc);
	if (is_text && status == RP_EXIT_OK && gc->count) {
		putchar('\n');
		status = print_slowest(gc);
	}
	return status;
}

int rp_report_gc(const struct rp_report *report)
{
	struct gc_report gc = {
		.report = report,
		.pauses = { .visit = take_pause, .data = &gc, .range = &report->range,
			    .where = report->where },
		.max = report->options->given & RP_OPTION_SLOWEST ? report->options->slowest :
								    SLOWEST_SHOWN,
	};
	int ret = -ENOMEM, status = RP_EXIT_FAILURE;
	char count[RP_TEXT_MAX];

	gc.slowest = calloc(gc.max, sizeof(*gc.slowest));
	if (gc.slowest)
		ret = read_collections(&gc);
	if (ret == -ENOMEM)
		rp_tool_error("out of memory");
	else
		status = print(&gc);
	if (gc.pauses.ignored)
		rp_tool_error("%s: ignored %s: the trace has too many processes or "
			      "suspensions", report->path,
			      rp_text_counted(gc.pauses.ignored, "event", count));
	free(gc.slowest);
	rp_gc_pauses_fini(&gc.pauses);
	rp_processes_fini(&gc.processes);
	return ret < 0 && ret != -ENOMEM ? rp_report_end(report, ret) : status;
}
