/* SPDX-License-Identifier: MIT */
#include "tools/analysis/labelled_runs.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analysis/profile.h"
#include "tools/trace/system_event.h"

/* A longer time without a record of the thread is no part of a run. */
#define GAP_NS 100000000

#define PERIOD_MAX_NS 1000000000ull

/* The run and the last record of a thread. */
struct labelled_thread {
	uint64_t thread;
	struct rp_trace_span run;
	int64_t last_ns;		/* of the last record */
	bool is_open;			/* `run` continues */
};

static const struct rp_span_name run_name = {
	.provider = (char *)"OpenTelemetry", .name = (char *)"request",
};

bool rp_labelled_runs_have_name(const char *wanted)
{
	return rp_span_has_name(&run_name, wanted);
}

static int compare_threads(const void *left, const void *right)
{
	const struct labelled_thread *a = left, *b = right;

	return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Return: NULL: no memory. */
static struct labelled_thread *find_thread(struct rp_labelled_runs *runs, uint64_t id)
{
	const struct labelled_thread key = { .thread = id };
	struct labelled_thread **found = tfind(&key, &runs->thread_tree, compare_threads);
	struct labelled_thread *thread;

	if (found)
		return *found;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->thread = id;
	thread->last_ns = INT64_MIN;
	if (tsearch(thread, &runs->thread_tree, compare_threads))
		return thread;
	free(thread);
	return NULL;
}

static void close_run(struct rp_labelled_runs *runs, struct labelled_thread *thread)
{
	if (thread->is_open && thread->run.stop_ns > thread->run.start_ns &&
	    rp_time_range_has(runs->range, thread->run.start_ns))
		rp_slowest_spans_add(runs->runs, &thread->run);
	thread->is_open = false;
}

static int64_t add_ns(int64_t time_ns, int64_t ns)
{
	int64_t sum;

	if (__builtin_add_overflow(time_ns, ns, &sum))
		return ns < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

static void open_run(struct labelled_thread *thread, const struct rp_reader_event *event,
		     int64_t from_ns)
{
	thread->is_open = true;
	thread->run = (struct rp_trace_span){
		.name = &run_name, .process = event->process, .thread = event->thread,
		.stop_thread = event->thread, .start_ns = from_ns, .activity = event->activity,
		.span_id = event->span_id,
	};
	memcpy(thread->run.trace_id, event->trace_id, sizeof(event->trace_id));
}

/* Take a record that shows what the thread did from `from_ns` to `to_ns`. */
static void take_record(struct rp_labelled_runs *runs, struct labelled_thread *thread,
			const struct rp_reader_event *event, bool has_id, int64_t from_ns,
			int64_t to_ns)
{
	struct rp_trace_span *run = &thread->run;

	if (from_ns < thread->last_ns)
		from_ns = thread->last_ns;
	if (thread->is_open && (!has_id || from_ns > add_ns(run->stop_ns, GAP_NS))) {
		if (run->stop_ns > from_ns)
			run->stop_ns = from_ns;
		close_run(runs, thread);
	}
	if (has_id && !thread->is_open)
		open_run(thread, event, from_ns);
	if (has_id)
		run->stop_ns = to_ns;
	thread->last_ns = event->time_ns;
}

int rp_labelled_runs_take(struct rp_labelled_runs *runs, const struct rp_reader_event *event,
			  bool has_id)
{
	const enum rp_profile_event kind = rp_profile_classify(event);
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	struct labelled_thread *thread;
	uint64_t ns;

	if (kind != RP_PROFILE_SAMPLE && kind != RP_PROFILE_SWITCH)
		return 0;
	thread = find_thread(runs, event->thread);
	if (!thread)
		return -ENOMEM;
	ns = rp_system_take_number(&payload);
	if (kind == RP_PROFILE_SAMPLE) {
		ns = (ns < PERIOD_MAX_NS ? ns : PERIOD_MAX_NS) / 2;
		take_record(runs, thread, event, has_id, add_ns(event->time_ns, -(int64_t)ns),
			    add_ns(event->time_ns, (int64_t)ns));
	} else {
		ns = ns < INT64_MAX ? ns : INT64_MAX;
		take_record(runs, thread, event, has_id, add_ns(event->time_ns, -(int64_t)ns),
			    event->time_ns);
	}
	return 0;
}

static void end_run(const void *node, VISIT visit, void *data)
{
	if (visit == postorder || visit == leaf)
		close_run(data, *(struct labelled_thread *const *)node);
}

void rp_labelled_runs_end(struct rp_labelled_runs *runs)
{
	twalk_r(runs->thread_tree, end_run, runs);
}

void rp_labelled_runs_fini(struct rp_labelled_runs *runs)
{
	tdestroy(runs->thread_tree, free);
	runs->thread_tree = NULL;
}
