/* SPDX-License-Identifier: MIT */
#include "tools/analysis/explain_print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/slowest_spans.h"
#include "tools/cli/display_text.h"
#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/trace/guids.h"

#define DETAILS_SHOWN 3u
#define DETAIL_TEXT 512

/* The time of one part with one detail. */
struct detail {
	const char *text, *function, *file;
	uint64_t lock, owner, waker_process, waker_thread;
	uint64_t ns, count;
	const struct rp_time_piece *slowest;	/* has the slowest request to a disk, if any */
};

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool is_of_disk(enum rp_time_part part)
{
	return part == RP_TIME_BLOCK_IO || part == RP_TIME_PAGE_FAULT;
}

/* An interrupt ends a wait for a disk, so the thread that it happened to stop is of no interest. */
static bool is_same(const struct detail *detail, const struct rp_time_piece *piece)
{
	return detail->function == piece->function && detail->lock == piece->lock &&
	       detail->owner == piece->owner &&
	       (is_of_disk(piece->part) ||
		(detail->waker_thread == piece->waker_thread &&
		 detail->waker_process == piece->waker_process)) &&
	       is_same_text(detail->text, piece->detail) &&
	       is_same_text(detail->file, piece->file);
}

static int compare_details(const void *left, const void *right)
{
	const struct detail *a = left, *b = right;

	return (a->ns < b->ns) - (a->ns > b->ns);
}

/* Collect the details that take most time. Details beyond the first `max` kinds are left out. */
static size_t collect_details(const struct rp_thread_interval *interval, enum rp_time_part part,
			      struct detail *details, size_t max)
{
	size_t count = 0, at;

	for (size_t i = 0; i < interval->piece_count; i++) {
		const struct rp_time_piece *piece = &interval->pieces[i];

		if (piece->part != part)
			continue;
		for (at = 0; at < count && !is_same(&details[at], piece); at++)
			;
		if (at == max)
			continue;
		if (at == count)
			details[count++] = (struct detail){
				.text = piece->detail, .function = piece->function,
				.file = piece->file, .lock = piece->lock, .owner = piece->owner,
				.slowest = piece,
				.waker_process = piece->waker_process,
				.waker_thread = piece->waker_thread,
			};
		if (piece->device && piece->request_ns >= details[at].slowest->request_ns)
			details[at].slowest = piece;
		details[at].ns += (uint64_t)piece->to_ns - (uint64_t)piece->from_ns;
		details[at].count++;
	}
	qsort(details, count, sizeof(*details), compare_details);
	return count;
}

static void describe_time(const struct detail *detail, FILE *out)
{
	char time[RP_TEXT_MAX];

	fprintf(out, " (%s", rp_text_short_time(detail->ns, time));
	if (detail->count > 1)
		fprintf(out, " in %" PRIu64, detail->count);
	putc(')', out);
}

static void describe_disk(const struct detail *detail, FILE *out)
{
	const struct rp_time_piece *slowest = detail->slowest;
	char time[RP_TEXT_MAX], bytes[RP_TEXT_MAX];
	const char *blank = detail->text ? " " : "";

	if (detail->file) {
		fprintf(out, "%sof %s", blank, detail->file);
		blank = " ";
	}
	if (slowest->device) {
		fprintf(out, "%son %s", blank, *slowest->device ? slowest->device : "a disk");
		blank = " ";
	}
	if (detail->function)
		fprintf(out, "%sin %s", blank, detail->function);
	describe_time(detail, out);
	if (slowest->device)
		fprintf(out, ", slowest request %s for %s at sector %" PRIu64,
			rp_text_short_time(slowest->request_ns, time),
			rp_text_bytes(slowest->request_bytes, bytes), slowest->sector);
}

static void describe_lock(const struct detail *detail, FILE *out)
{
	fprintf(out, "lock 0x%" PRIx64, detail->lock);
	if (detail->owner)
		fprintf(out, " of thread %" PRIu64, detail->owner);
}

static void describe(const struct detail *detail, enum rp_time_part part, FILE *out)
{
	if (part == RP_TIME_LOCK && detail->lock)
		describe_lock(detail, out);
	else if (part == RP_TIME_RUNNABLE && !detail->waker_thread)
		fputs("without a known thread", out);
	else if (part == RP_TIME_RUNNABLE)
		fprintf(out, "while %s ran", detail->text && *detail->text ? detail->text : "?");
	else if (detail->text)
		fputs(detail->text, out);
	if (is_of_disk(part)) {
		describe_disk(detail, out);
		return;
	}
	if (part == RP_TIME_CALLEE)
		fprintf(out, " in process %" PRIu64 "%s", detail->waker_process,
			detail->function ? ", for which it waited" : "");
	if (detail->function)
		fprintf(out, "%sin %s", detail->lock || detail->text ? " " : "", detail->function);
	if (part == RP_TIME_RUNNABLE && detail->waker_thread)
		fprintf(out, ", thread %" PRIu64 " of process %" PRIu64, detail->waker_thread,
			detail->waker_process);
	else if (detail->waker_thread)
		fprintf(out, "%sended by thread %" PRIu64 " of process %" PRIu64,
			detail->text || detail->lock || detail->function ? ", " : "",
			detail->waker_thread, detail->waker_process);
	describe_time(detail, out);
}

struct sampled {
	const char *name;
	size_t samples;
};

static int compare_pointers(const void *left, const void *right)
{
	const uintptr_t a = (uintptr_t)*(const char *const *)left;
	const uintptr_t b = (uintptr_t)*(const char *const *)right;

	return (a > b) - (a < b);
}

/* Keep the most frequent functions in `best`, in descending order. */
static void keep_if_frequent(struct sampled *best, struct sampled found)
{
	for (size_t i = 0; i < DETAILS_SHOWN; i++) {
		const struct sampled moved = best[i];

		if (found.samples <= moved.samples)
			continue;
		best[i] = found;
		found = moved;
	}
}

/* Find the functions that most samples found. Equal names have equal pointers. */
static void find_frequent(const struct rp_thread_interval *interval, struct sampled *best)
{
	const char **names = interval->functions;
	size_t first = 0;

	qsort(names, interval->function_count, sizeof(*names), compare_pointers);
	for (size_t i = 1; i <= interval->function_count; i++) {
		if (i < interval->function_count && names[i] == names[first])
			continue;
		keep_if_frequent(best, (struct sampled){ names[first], i - first });
		first = i;
	}
}

/* Return: the functions that samples found, most frequent first, for free(); or NULL. */
static char *describe_functions(const struct rp_thread_interval *interval)
{
	struct sampled best[DETAILS_SHOWN] = { 0 };
	char *text = NULL, samples[RP_TEXT_MAX];
	size_t size;
	FILE *out = interval->function_count ? open_memstream(&text, &size) : NULL;

	if (!out)
		return NULL;
	find_frequent(interval, best);
	for (size_t i = 0; i < DETAILS_SHOWN && best[i].name; i++)
		fprintf(out, "%s%s (%s)", i ? ", " : "", best[i].name,
			rp_text_counted(best[i].samples, "sample", samples));
	fclose(out);
	return text;
}

char *rp_explain_describe(const struct rp_thread_interval *interval, enum rp_time_part part)
{
	struct detail details[64];
	const size_t count = collect_details(interval, part, details, 64);
	char *text = NULL;
	size_t size, shown = 0;
	FILE *out;

	if (part == RP_TIME_PROGRAM)
		return describe_functions(interval);
	if (part == RP_TIME_UNEXPLAINED)
		return NULL;
	out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (size_t i = 0; i < count && shown < DETAILS_SHOWN; i++) {
		if (!details[i].text && !details[i].function && !details[i].lock &&
		    !details[i].waker_thread && !details[i].slowest->device &&
		    part != RP_TIME_RUNNABLE)
			continue;
		if (shown++)
			fputs("; ", out);
		describe(&details[i], part, out);
	}
	fclose(out);
	return text;
}

static enum rp_time_part largest_part(const struct rp_thread_interval *interval)
{
	enum rp_time_part largest = RP_TIME_PROGRAM;

	for (unsigned int part = 0; part < RP_TIME_PART_COUNT; part++) {
		if (interval->parts_ns[part] > interval->parts_ns[largest])
			largest = (enum rp_time_part)part;
	}
	return largest;
}

size_t rp_explain_sort_parts(const struct rp_thread_interval *interval, enum rp_time_part *parts)
{
	size_t count = 0;

	for (unsigned int part = 0; part < RP_TIME_PART_COUNT; part++) {
		size_t at = count;

		if (!interval->parts_ns[part])
			continue;
		for (; at > 0 && interval->parts_ns[parts[at - 1]] < interval->parts_ns[part]; at--)
			parts[at] = parts[at - 1];
		parts[at] = (enum rp_time_part)part;
		count++;
	}
	return count;
}

static int print_parts(const struct rp_thread_interval *interval, FILE *out)
{
	static const struct rp_column columns[] = {
		{ "share", "SHARE", 7, true, false }, { "time", "TIME", 8, true, false },
		{ "part", "THE THREAD WAS", 0, false, false }, { "detail", "", 0, false, false },
	};
	const uint64_t whole = (uint64_t)interval->to_ns - (uint64_t)interval->from_ns;
	enum rp_time_part parts[RP_TIME_PART_COUNT];
	const size_t count = rp_explain_sort_parts(interval, parts);
	struct rp_rows rows;
	char text[RP_TEXT_MAX];
	int status;

	rp_rows_init(&rows, RP_FORMAT_TEXT, columns, sizeof(columns) / sizeof(columns[0]));
	rows.stream = out;
	for (size_t i = 0; i < count; i++) {
		const uint64_t ns = interval->parts_ns[parts[i]];
		char *detail = rp_explain_describe(interval, parts[i]);

		rp_rows_addf(&rows, NULL, "%.1f %%", 100. * (double)ns / (double)whole);
		rp_rows_add(&rows, NULL, rp_text_short_time(ns, text));
		rp_rows_add(&rows, NULL, rp_time_part_text(parts[i]));
		rp_rows_add(&rows, NULL, detail ? detail : "");
		free(detail);
	}
	status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return status;
}

static void print_holder(const struct rp_thread_interval *holder, FILE *out)
{
	enum rp_time_part parts[RP_TIME_PART_COUNT];
	const size_t count = rp_explain_sort_parts(holder, parts);
	char time[RP_TEXT_MAX];

	fprintf(out, "Thread %" PRIu64 " ended the longest wait for a lock, of %s. Meanwhile it "
		"was\n", holder->thread, rp_text_short_time((uint64_t)holder->to_ns -
							  (uint64_t)holder->from_ns, time));
	for (size_t i = 0; i < count && i < DETAILS_SHOWN; i++) {
		char *detail = rp_explain_describe(holder, parts[i]);

		rp_text_short_time(holder->parts_ns[parts[i]], time);
		rp_tool_say(out, "  %s %s%s%s", time, rp_time_part_text(parts[i]),
			    detail && *detail ? ": " : "", detail ? detail : "");
		free(detail);
	}
}

/* State how long the thread's work took, or nothing for an interval without a span. */
static void print_span(const struct rp_trace_span *span, FILE *out)
{
	char time[RP_TEXT_MAX], activity[RP_GUID_TEXT];

	rp_tool_say(out, "%s/%s took %s, on thread %" PRIu64 " of process %" PRIu64
		    " from %.6f s on.", span->name->provider, span->name->name,
		    rp_text_short_time(rp_span_duration(span), time), span->thread, span->process,
		    (double)span->start_ns / 1e9);
	if (*rp_guid_text(&span->activity, activity))
		fprintf(out, "Its activity id is %s.\n", activity);
	if (span->stop_thread != span->thread)
		fprintf(out, "It stopped on thread %" PRIu64 ". Each thread is explained from "
			"event to event of its activity.\n", span->stop_thread);
}

int rp_explain_print_text(const struct rp_trace_span *span,
			  const struct rp_thread_interval *interval,
			  const struct rp_thread_interval *holder, FILE *out)
{
	const uint64_t whole = (uint64_t)interval->to_ns - (uint64_t)interval->from_ns;
	const enum rp_time_part largest = largest_part(interval);
	int status;

	if (span)
		print_span(span, out);
	if (whole == 0)
		return RP_EXIT_OK;
	if (span)
		putc('\n', out);
	status = print_parts(interval, out);
	fprintf(out, "\n%.0f %% of the time, it was %s.\n",
		100. * (double)interval->parts_ns[largest] / (double)whole,
		rp_time_part_text(largest));
	if (holder)
		print_holder(holder, out);
	return status;
}

static struct json_object *parts_to_json(const struct rp_thread_interval *interval)
{
	struct json_object *object = json_object_new_object();

	for (unsigned int part = 0; part < RP_TIME_PART_COUNT; part++)
		json_object_object_add(object, rp_time_part_key((enum rp_time_part)part),
				       json_object_new_uint64(interval->parts_ns[part]));
	return object;
}

static void add_number(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

/* Add who ended a wait, who used the processor, or who worked on the request. */
static void add_threads(struct json_object *row, const struct rp_time_piece *piece)
{
	if (piece->part == RP_TIME_CALLEE)
		add_number(row, "callee_process_id", piece->waker_process);
	if (!piece->waker_thread)
		return;
	add_number(row, piece->part == RP_TIME_RUNNABLE ? "running_process_id" :
							  "waker_process_id",
		   piece->waker_process);
	add_number(row, piece->part == RP_TIME_RUNNABLE ? "running_thread_id" : "waker_thread_id",
		   piece->waker_thread);
}

static struct json_object *request_to_json(const struct rp_time_piece *piece)
{
	struct json_object *request = json_object_new_object();

	json_object_object_add(request, "device", rp_json_string(piece->device));
	add_number(request, "sector", piece->sector);
	add_number(request, "bytes", piece->request_bytes);
	add_number(request, "duration_ns", piece->request_ns);
	return request;
}

static struct json_object *pieces_to_json(const struct rp_thread_interval *interval)
{
	struct json_object *array = json_object_new_array();
	char lock[32];

	for (size_t i = 0; i < interval->piece_count; i++) {
		const struct rp_time_piece *piece = &interval->pieces[i];
		struct json_object *row = json_object_new_object();

		json_object_object_add(row, "part", rp_json_string(rp_time_part_key(piece->part)));
		json_object_object_add(row, "from_ns", json_object_new_int64(piece->from_ns));
		json_object_object_add(row, "duration_ns",
				       json_object_new_int64(piece->to_ns - piece->from_ns));
		if (piece->thread)
			json_object_object_add(row, "thread_id",
					       json_object_new_uint64(piece->thread));
		if (piece->detail)
			json_object_object_add(row, "detail", rp_json_string(piece->detail));
		if (piece->function)
			json_object_object_add(row, "function", rp_json_string(piece->function));
		if (piece->lock) {
			snprintf(lock, sizeof(lock), "0x%" PRIx64, piece->lock);
			json_object_object_add(row, "lock", json_object_new_string(lock));
		}
		if (piece->owner)
			add_number(row, "owner_thread_id", piece->owner);
		if (piece->file)
			json_object_object_add(row, "file", rp_json_string(piece->file));
		add_threads(row, piece);
		if (piece->device)
			json_object_object_add(row, "request", request_to_json(piece));
		json_object_array_add(array, row);
	}
	return array;
}

static struct json_object *holder_to_json(const struct rp_thread_interval *holder)
{
	struct json_object *object;

	if (!holder)
		return NULL;
	object = json_object_new_object();
	json_object_object_add(object, "process_id", json_object_new_uint64(holder->process));
	json_object_object_add(object, "thread_id", json_object_new_uint64(holder->thread));
	json_object_object_add(object, "from_ns", json_object_new_int64(holder->from_ns));
	json_object_object_add(object, "parts_ns", parts_to_json(holder));
	return object;
}

static void add_row(struct rp_rows *out, const struct rp_trace_span *span,
		    const struct rp_thread_interval *interval,
		    const struct rp_thread_interval *holder)
{
	char activity[RP_GUID_TEXT], trace_id[2 * sizeof(span->trace_id) + 1];

	rp_text_hex(span->trace_id, sizeof(span->trace_id), trace_id);
	rp_rows_add_string(out, span->name->provider);
	rp_rows_add_string(out, span->name->name);
	rp_rows_add(out, json_object_new_int64(span->start_ns), NULL);
	rp_rows_add_u64(out, rp_span_duration(span));
	rp_rows_add_u64(out, span->process);
	rp_rows_add_u64(out, span->thread);
	rp_rows_add_u64(out, span->stop_thread);
	rp_rows_add_string(out, strspn(trace_id, "0") == 32 ? NULL : trace_id);
	rp_rows_add_string(out, *rp_guid_text(&span->activity, activity) ? activity : NULL);
	rp_rows_add_string(out, rp_time_part_key(largest_part(interval)));
	rp_rows_add(out, parts_to_json(interval), NULL);
	rp_rows_add(out, pieces_to_json(interval), NULL);
	rp_rows_add(out, holder_to_json(holder), NULL);
}

/* Return: the intervals by the index of their span, NULL for spans without one; NULL: no memory. */
static const struct rp_thread_interval **by_owner(const struct rp_thread_interval *intervals,
						  size_t count, size_t span_count)
{
	const struct rp_thread_interval **owned = calloc(span_count, sizeof(*owned));

	for (size_t i = 0; owned && i < count; i++)
		owned[intervals[i].owner] = &intervals[i];
	return owned;
}

static int print_all(const struct rp_explain_view *view,
		     const struct rp_thread_interval *const *intervals,
		     const struct rp_thread_interval *const *holders, enum rp_format format)
{
	static const struct rp_column columns[] = {
		{ .key = "provider" }, { .key = "span" }, { .key = "start_ns" },
		{ .key = "duration_ns" }, { .key = "process_id" }, { .key = "thread_id" },
		{ .key = "stop_thread_id" }, { .key = "trace_id" }, { .key = "activity" },
		{ .key = "largest_part" }, { .key = "parts_ns" }, { .key = "pieces" },
		{ .key = "holder" },
	};
	struct rp_rows out;
	int status = RP_EXIT_OK;

	if (format == RP_FORMAT_TEXT) {
		for (size_t i = 0; status == RP_EXIT_OK && i < view->count; i++) {
			if (i)
				putchar('\n');
			status = rp_explain_print_text(&view->spans[i], intervals[i],
						       holders[i], stdout);
		}
		return status;
	}
	rp_rows_init(&out, format, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < view->count; i++)
		add_row(&out, &view->spans[i], intervals[i], holders[i]);
	status = rp_rows_print(&out);
	rp_rows_fini(&out);
	return status;
}

static void print_doubts(const struct rp_thread_time *time)
{
	char doubts[RP_EXPLAIN_DOUBTS][RP_EXPLAIN_DOUBT_BYTES];
	const size_t count = rp_explain_doubts(time, doubts);

	for (size_t i = 0; i < count; i++)
		rp_tool_error("%s", doubts[i]);
}

int rp_explain_print(const struct rp_explain_view *view, enum rp_format format)
{
	const struct rp_thread_interval **intervals = by_owner(view->intervals, view->count,
							       view->count);
	const struct rp_thread_interval **holders = by_owner(view->holders, view->holder_count,
							     view->count);
	int status = -ENOMEM;

	if (intervals && holders) {
		print_doubts(view->time);
		status = print_all(view, intervals, holders, format);
	}
	free(intervals);
	free(holders);
	return status;
}
