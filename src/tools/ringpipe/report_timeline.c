/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE timeline: for each thread, the samples on a processor, the share of the time
 * that it waited, and its events, in equal intervals of the trace. Text draws them.
 */
#include "tools/ringpipe/report.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cursor.h"
#include "tools/cli/display_text.h"
#include "tools/cli/rows.h"
#include "tools/cli/sparkline.h"
#include "tools/ringpipe/report_functions.h"
#include "tools/trace/event_names.h"
#include "tools/trace/system_event.h"

#define THREADS_MAX 65536u
#define INTERVALS_MAX 512u
#define INTERVALS_MIN 16u
#define INTERVALS 64u			/* in JSON and CSV */
#define TERMINAL_COLUMNS 80u
#define NAME_COLUMNS 15u		/* a name in the kernel has at most as many bytes */
/* Those of PROCESS, THREAD, NAME, MEASURE, TOTAL, and the spaces between them. */
#define OTHER_COLUMNS (7u + 8u + NAME_COLUMNS + 7u + 9u + 5u * 2u)

enum measure {
	ON_CPU,				/* samples */
	WAITING,			/* nanoseconds */
	EVENTS,
	MEASURES,
};

struct thread_row {
	uint64_t process, thread;	/* the key */
	uint64_t totals[MEASURES];
	uint64_t *values[MEASURES];	/* NULL: none */
};

struct timeline {
	const struct rp_report *report;
	struct rp_profile profile;
	struct thread_row **threads;
	size_t count, capacity;
	void *tree;
	uint64_t ignored;
	unsigned int interval_count;
	uint64_t interval_ns;
	uint64_t busiest;		/* the most samples of a thread in an interval */
};

static int compare_threads(const void *left, const void *right)
{
	const struct thread_row *a = left, *b = right;

	if (a->process != b->process)
		return (a->process > b->process) - (a->process < b->process);
	return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Return: the row; NULL: the bound, which is counted, or no memory, with `ret` set. */
static struct thread_row *get_thread(struct timeline *timeline, uint64_t process, uint64_t thread,
				     int *ret)
{
	const struct thread_row key = { .process = process, .thread = thread };
	struct thread_row **found = tfind(&key, &timeline->tree, compare_threads), **grown, *made;

	*ret = 0;
	if (found)
		return *found;
	if (timeline->count == THREADS_MAX) {
		timeline->ignored++;
		return NULL;
	}
	*ret = -ENOMEM;
	grown = rp_array_reserve(timeline->threads, timeline->count, &timeline->capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return NULL;
	timeline->threads = grown;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	*made = key;
	if (!tsearch(made, &timeline->tree, compare_threads)) {
		free(made);
		return NULL;
	}
	*ret = 0;
	return timeline->threads[timeline->count++] = made;
}

static uint64_t time_in(const struct timeline *timeline, int64_t time_ns)
{
	const int64_t first_ns = timeline->profile.first_ns;

	return time_ns > first_ns ? (uint64_t)time_ns - (uint64_t)first_ns : 0;
}

static unsigned int interval_of(const struct timeline *timeline, uint64_t at)
{
	const uint64_t interval = at / timeline->interval_ns;

	return interval < timeline->interval_count ? (unsigned int)interval :
						     timeline->interval_count - 1;
}

/* Return: the values of the measure; NULL: no memory. */
static uint64_t *values_of(const struct timeline *timeline, struct thread_row *thread,
			   enum measure measure)
{
	if (!thread->values[measure])
		thread->values[measure] = calloc(timeline->interval_count, sizeof(uint64_t));
	return thread->values[measure];
}

static int add_one(struct timeline *timeline, struct thread_row *thread, enum measure measure,
		   int64_t time_ns)
{
	uint64_t *values = values_of(timeline, thread, measure);
	const unsigned int at = interval_of(timeline, time_in(timeline, time_ns));

	if (!values)
		return -ENOMEM;
	thread->totals[measure]++;
	values[at]++;
	if (measure == ON_CPU && values[at] > timeline->busiest)
		timeline->busiest = values[at];
	return 0;
}

/* The event of a wait comes at its end. Divide the wait among the intervals that it touches. */
static int add_wait(struct timeline *timeline, struct thread_row *thread,
		    const struct rp_reader_event *event)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	const uint64_t ns = rp_system_take_number(&payload);
	const uint64_t end = time_in(timeline, event->time_ns), start = ns < end ? end - ns : 0;
	uint64_t *values = values_of(timeline, thread, WAITING);

	if (!values)
		return -ENOMEM;
	thread->totals[WAITING] += end - start;
	for (uint64_t at = start; at < end;) {
		const unsigned int interval = interval_of(timeline, at);
		uint64_t next = (interval + 1) * timeline->interval_ns;

		if (next > end || interval == timeline->interval_count - 1)
			next = end;
		values[interval] += next - at;
		at = next;
	}
	return 0;
}

static int take_event(struct timeline *timeline, const struct rp_reader_event *event,
		      uint64_t process)
{
	const enum rp_profile_event kind = rp_profile_classify(event);
	const bool is_sample = rp_profile_is_sample(&timeline->profile, event);
	struct thread_row *thread;
	int ret;

	/* The events that the recorder writes about the trace are no work of the thread. */
	if (kind == RP_PROFILE_OTHER && (rp_event_is_own(event->type->provider) ||
					 rp_system_is_event(event)))
		return 0;
	thread = get_thread(timeline, process, event->thread, &ret);
	if (!thread)
		return ret;
	if (is_sample)
		return add_one(timeline, thread, ON_CPU, event->time_ns);
	if (kind == RP_PROFILE_SWITCH)
		return add_wait(timeline, thread, event);
	return kind == RP_PROFILE_OTHER ? add_one(timeline, thread, EVENTS, event->time_ns) : 0;
}

static int read_threads(struct timeline *timeline)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader = timeline->report->reader;
	uint64_t process;
	int ret;

	rp_profile_set_reader(&timeline->profile, reader);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		ret = rp_profile_process(&timeline->profile, &event, &process);
		if (ret == 0 && rp_time_range_has(&timeline->report->range, event.time_ns) &&
		    rp_report_takes(timeline->report, &event, process))
			ret = take_event(timeline, &event, process);
		if (ret)
			return ret;
	}
	return ret;
}

static int by_activity(const void *left, const void *right)
{
	const struct thread_row *a = *(void *const *)left, *b = *(void *const *)right;

	if (a->totals[ON_CPU] != b->totals[ON_CPU])
		return a->totals[ON_CPU] < b->totals[ON_CPU] ? 1 : -1;
	if (a->totals[EVENTS] != b->totals[EVENTS])
		return a->totals[EVENTS] < b->totals[EVENTS] ? 1 : -1;
	return compare_threads(a, b);
}

/* Text as wide as the terminal; a pipe is as wide as an old terminal. */
static unsigned int choose_intervals(enum rp_format format)
{
	unsigned int columns = TERMINAL_COLUMNS;
	struct winsize size;

	if (format != RP_FORMAT_TEXT)
		return INTERVALS;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		columns = size.ws_col;
	if (columns < OTHER_COLUMNS + INTERVALS_MIN)
		return INTERVALS_MIN;
	return columns - OTHER_COLUMNS < INTERVALS_MAX ? columns - OTHER_COLUMNS : INTERVALS_MAX;
}

static void add_values(struct rp_rows *out, const struct timeline *timeline,
		       const struct thread_row *thread, enum measure measure)
{
	char text[INTERVALS_MAX * RP_SPARKLINE_BYTES + 1];
	struct json_object *array = json_object_new_array();
	double values[INTERVALS_MAX], high = 0;

	for (unsigned int i = 0; i < timeline->interval_count; i++) {
		const uint64_t value = thread->values[measure][i];

		json_object_array_add(array, json_object_new_uint64(value));
		values[i] = value ? (double)value : NAN;
		high = (double)value > high ? (double)value : high;
	}
	/* Threads can be compared by their samples and waits, but not by their events. */
	if (measure == ON_CPU)
		high = (double)timeline->busiest;
	else if (measure == WAITING)
		high = (double)timeline->interval_ns;
	rp_rows_add(out, array, rp_sparkline(values, timeline->interval_count, 0, high, text));
}

static void add_measure(struct rp_rows *out, const struct timeline *timeline,
			const struct thread_row *thread, enum measure measure)
{
	static const char *const names[] = { "cpu", "waiting", "events" };
	const char *process = rp_symbols_process(&timeline->profile.symbols, thread->process,
						 timeline->profile.last_ns);
	const uint64_t total = thread->totals[measure];
	char text[RP_TEXT_MAX], name[NAME_COLUMNS + 1];

	snprintf(name, sizeof(name), "%s", process ? process : "?");
	rp_rows_add_u64(out, thread->process);
	rp_rows_add_u64(out, thread->thread);
	if (out->format == RP_FORMAT_TEXT)
		rp_rows_add_string(out, name);
	else
		rp_rows_add_string(out, process);
	rp_rows_add_string(out, names[measure]);
	rp_rows_add(out, json_object_new_uint64(total), measure == WAITING ?
		    rp_text_short_time(total, text) : rp_text_count(total, text));
	rp_rows_add(out, json_object_new_int64(timeline->profile.first_ns), NULL);
	rp_rows_add(out, json_object_new_uint64(timeline->interval_ns), NULL);
	add_values(out, timeline, thread, measure);
}

static int print(struct timeline *timeline)
{
	static const struct rp_column columns[] = {
		{ .key = "process_id", .title = "PROCESS", .is_right = true },
		{ .key = "thread_id", .title = "THREAD", .is_right = true },
		{ .key = "process", .title = "NAME" }, { .key = "measure", .title = "MEASURE" },
		{ .key = "total", .title = "TOTAL", .is_right = true },
		{ .key = "first_ns" }, { .key = "interval_ns" },
		{ .key = "values", .title = "TIMELINE" },
	};
	const struct rp_tool_options *options = timeline->report->options;
	const uint64_t top = rp_report_top(timeline->report);
	char text[RP_TEXT_MAX];
	struct rp_rows out;
	int status;

	rp_rows_init(&out, options->format, columns, sizeof(columns) / sizeof(columns[0]));
	if (timeline->count)
		qsort(timeline->threads, timeline->count, sizeof(*timeline->threads), by_activity);
	for (size_t i = 0; i < timeline->count && i < top; i++) {
		for (int measure = 0; measure < MEASURES; measure++) {
			if (timeline->threads[i]->values[measure])
				add_measure(&out, timeline, timeline->threads[i],
					    (enum measure)measure);
		}
	}
	status = rp_rows_print(&out);
	if (status == RP_EXIT_OK && options->format == RP_FORMAT_TEXT && timeline->count > top)
		puts(rp_text_counted(timeline->count - (size_t)top, "more thread", text));
	rp_rows_fini(&out);
	return status;
}

static void keep(void *node)
{
	(void)node;
}

static void fini(struct timeline *timeline)
{
	tdestroy(timeline->tree, keep);
	for (size_t i = 0; i < timeline->count; i++) {
		for (int measure = 0; measure < MEASURES; measure++)
			free(timeline->threads[i]->values[measure]);
		free(timeline->threads[i]);
	}
	free(timeline->threads);
	rp_profile_fini(&timeline->profile);
}

int rp_report_timeline(const struct rp_report *report)
{
	struct timeline timeline = {
		.report = report, .interval_count = choose_intervals(report->options->format),
	};
	int status = rp_report_profile_init(report, RP_PROFILE_BY_THREAD, &timeline.profile), ret;
	char count[RP_TEXT_MAX];

	if (status != RP_EXIT_OK)
		return status;
	/* One more nanosecond: the last event is in the last interval. */
	timeline.interval_ns = time_in(&timeline, timeline.profile.last_ns) /
			       timeline.interval_count + 1;
	ret = read_threads(&timeline);
	if (ret == -ENOMEM) {
		rp_tool_error("out of memory");
		status = RP_EXIT_FAILURE;
	} else {
		status = print(&timeline);
	}
	if (timeline.ignored)
		rp_tool_error("%s: ignored %s of threads above %u", report->path,
			      rp_text_counted(timeline.ignored, "event", count), THREADS_MAX);
	fini(&timeline);
	return ret < 0 && ret != -ENOMEM ? rp_report_end(report, ret) : status;
}
