/* SPDX-License-Identifier: MIT */
#include "tools/analysis/explanation.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/cli/tool.h"
#include "tools/trace/input.h"

int rp_explanation_read(const struct rp_explanation_reading *reading, uint32_t *ret_pointer_bytes)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_input input;
	struct rp_reader *reader;
	const char *said;
	char buffer[512];
	int ret = rp_input_open(&input, reading->path, reading->signal_fd, &reader);

	if (ret)
		return ret;
	rp_reader_get_info(reader, &info);
	*ret_pointer_bytes = info.pointer_bytes;
	ret = rp_trace_index_select(reading->index, &reading->query, reader);
	while (ret == 0 && (ret = rp_reader_next(reader, &event)) == 1) {
		event.process = rp_processes_find(&reading->symbols->tree, &event);
		ret = reading->take(reader, &event, reading->data);
	}
	/* 1: the rest is not needed. */
	ret = ret > 0 ? 0 : ret;
	said = rp_input_explain(reader, ret, buffer, sizeof(buffer));
	if (said && reading->is_loud)
		rp_tool_error("%s: %s; only %s are explained", reading->path, said,
			      rp_input_given(reader));
	if (said && reading->is_loud && ret == 0)
		ret = -EBADMSG;
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret;
}

/* The main reading fills this state. */
struct time_reading {
	struct rp_explanation *explanation;
	struct rp_trace_spans spans;	/* of all processes: some of them are callees */
};

static int take_callee(const struct rp_trace_span *span, void *data)
{
	struct time_reading *reading = data;

	return rp_thread_time_take_callee(&reading->explanation->time, span);
}

static int take_for_time(const struct rp_reader *reader, const struct rp_reader_event *event,
			 void *data)
{
	struct time_reading *reading = data;
	struct rp_explanation *explanation = reading->explanation;
	int ret = rp_thread_time_take(&explanation->time, event);

	if (ret == 0 && !explanation->kinds)
		ret = rp_recorded_kinds_take(&explanation->read_kinds, event);
	if (ret == 0)
		ret = rp_trace_spans_take(&reading->spans, event);
	if (ret || !explanation->kinds)
		return ret;
	return rp_thread_time_is_complete(&explanation->time, reader, event->time_ns);
}

static int take_for_holders(const struct rp_reader *reader, const struct rp_reader_event *event,
			    void *data)
{
	const int ret = rp_thread_time_take(data, event);

	return ret ? ret : rp_thread_time_is_complete(data, reader, event->time_ns);
}

static bool ends_division(int ret)
{
	return ret == -ENOMEM || ret == -ECANCELED;
}

static int take_for_path(const struct rp_reader *reader, const struct rp_reader_event *event,
			 void *data)
{
	(void)reader;
	return rp_span_path_take(data, event);
}

static int64_t time_after(int64_t ns)
{
	return ns == INT64_MAX ? ns : ns + 1;
}

/* Read the events from `from_ns` through `to_ns`. Return: as rp_explanation_read(). */
static int read_range(const struct rp_explanation *explanation, int64_t from_ns, int64_t to_ns,
		      bool has_tail, rp_explanation_take take, void *data)
{
	const struct rp_explanation_reading reading = {
		.path = explanation->path, .signal_fd = explanation->signal_fd,
		.index = explanation->index, .symbols = explanation->symbols,
		.take = take, .data = data,
		.query = {
			.from_ns = from_ns, .to_ns = time_after(to_ns), .has_tail = has_tail,
		},
	};
	uint32_t pointer_bytes;

	return rp_explanation_read(&reading, &pointer_bytes);
}

/* Read the records of the intervals. A record comes at its end, possibly after the interval. */
static int read_records(const struct rp_explanation *explanation,
			const struct rp_thread_interval *intervals, size_t count,
			rp_explanation_take take, void *data)
{
	int64_t from_ns = INT64_MAX, to_ns = INT64_MIN;

	for (size_t i = 0; i < count; i++) {
		from_ns = intervals[i].from_ns < from_ns ? intervals[i].from_ns : from_ns;
		to_ns = intervals[i].to_ns > to_ns ? intervals[i].to_ns : to_ns;
	}
	return read_range(explanation, from_ns, to_ns, true, take, data);
}

/* Find the threads of the spans, and when they worked. Return: 0; -ECANCELED; -ENOMEM. */
static int find_threads(struct rp_explanation *explanation, size_t *ret_count)
{
	struct rp_span_path *path = &explanation->path_of_spans;
	int64_t from_ns = INT64_MAX, to_ns = INT64_MIN;
	int ret = rp_span_path_begin(path, explanation->spans, explanation->span_count);

	for (size_t i = 0; i < explanation->span_count; i++) {
		const struct rp_trace_span *span = &explanation->spans[i];

		from_ns = span->start_ns < from_ns ? span->start_ns : from_ns;
		to_ns = span->stop_ns > to_ns ? span->stop_ns : to_ns;
	}
	if (ret == 0 && path->moving_count)
		ret = read_range(explanation, from_ns, to_ns, false, take_for_path, path);
	return ends_division(ret) ? ret :
	       rp_span_path_intervals(path, &explanation->intervals, ret_count);
}

static const struct rp_recorded_kinds *kinds_of(const struct rp_explanation *explanation)
{
	return explanation->kinds ? explanation->kinds : &explanation->read_kinds;
}

static int divide_intervals(struct rp_explanation *explanation,
			    struct rp_thread_interval *intervals, size_t count)
{
	struct time_reading reading = {
		.explanation = explanation, .spans = { .visit = take_callee, .data = &reading },
	};
	int ret;

	ret = rp_thread_time_begin(&explanation->time, intervals, count, explanation->symbols,
				   explanation->pointer_bytes, kinds_of(explanation));
	if (ret == 0 && explanation->kinds)
		ret = read_records(explanation, intervals, count, take_for_time, &reading);
	else if (ret == 0)
		ret = read_range(explanation, INT64_MIN, INT64_MAX, false, take_for_time,
				 &reading);
	/* A callee may not have stopped where the reading ends. */
	if (!ends_division(ret) &&
	    rp_trace_spans_visit_open(&reading.spans, INT64_MAX, take_callee, &reading) < 0)
		ret = -ENOMEM;
	rp_trace_spans_fini(&reading.spans);
	return ends_division(ret) ? ret : rp_thread_time_divide(&explanation->time);
}

static int divide_time(struct rp_explanation *explanation)
{
	size_t count = 1;
	int ret;

	explanation->results = explanation->interval;
	explanation->result_count = 1;
	if (!explanation->spans)
		return divide_intervals(explanation, explanation->interval, count);
	ret = find_threads(explanation, &count);
	if (ret == 0)
		ret = divide_intervals(explanation, explanation->intervals, count);
	if (ret == 0)
		ret = rp_span_path_join(&explanation->path_of_spans, explanation->intervals, count,
					&explanation->joined);
	explanation->results = explanation->joined;
	explanation->result_count = explanation->span_count;
	return ret;
}

/* Return: the longest wait for a lock whose waker is known; NULL: none. */
static const struct rp_time_piece *longest_lock(const struct rp_thread_interval *interval)
{
	const struct rp_time_piece *longest = NULL;

	for (size_t i = 0; i < interval->piece_count; i++) {
		const struct rp_time_piece *piece = &interval->pieces[i];

		if (piece->part == RP_TIME_LOCK && piece->waker_thread &&
		    (!longest || piece->to_ns - piece->from_ns > longest->to_ns - longest->from_ns))
			longest = piece;
	}
	return longest;
}

/* Divide the time of the threads that released the locks. */
static int divide_holders(struct rp_explanation *explanation)
{
	int ret;

	explanation->holder_intervals = calloc(explanation->result_count,
					       sizeof(*explanation->holder_intervals));
	if (!explanation->holder_intervals)
		return -ENOMEM;
	for (size_t i = 0; i < explanation->result_count; i++) {
		const struct rp_thread_interval *interval = &explanation->results[i];
		const struct rp_time_piece *lock = longest_lock(interval);

		if (lock)
			explanation->holder_intervals[explanation->holder_count++] =
				(struct rp_thread_interval){
					.process = lock->waker_process,
					.thread = lock->waker_thread, .owner = interval->owner,
					.from_ns = lock->from_ns, .to_ns = lock->to_ns,
				};
	}
	if (explanation->holder_count == 0)
		return 0;
	ret = rp_thread_time_begin(&explanation->holders, explanation->holder_intervals,
				   explanation->holder_count, explanation->symbols,
				   explanation->pointer_bytes, kinds_of(explanation));
	if (ret == 0)
		ret = read_records(explanation, explanation->holder_intervals,
				   explanation->holder_count, take_for_holders,
				   &explanation->holders);
	return ends_division(ret) ? ret : rp_thread_time_divide(&explanation->holders);
}

int rp_explanation_divide(struct rp_explanation *explanation)
{
	const int ret = divide_time(explanation);

	return ret ? ret : divide_holders(explanation);
}

void rp_explanation_fini(struct rp_explanation *explanation)
{
	rp_thread_time_fini(&explanation->time);
	rp_thread_time_fini(&explanation->holders);
	rp_recorded_kinds_fini(&explanation->read_kinds);
	rp_span_path_free_joined(explanation->joined, explanation->path_of_spans.count);
	rp_span_path_fini(&explanation->path_of_spans);
	free(explanation->intervals);
	free(explanation->holder_intervals);
}
