/* SPDX-License-Identifier: MIT */
#include "tools/analysis/explanation.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/cli/tool.h"
#include "tools/trace/input.h"

int rp_explanation_read(const char *path, int signal_fd, bool is_loud, rp_explanation_take take,
			void *data, uint32_t *ret_pointer_bytes)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_input input;
	struct rp_reader *reader;
	const char *said;
	char buffer[512];
	int ret = rp_input_open(&input, path, signal_fd, &reader);

	if (ret)
		return ret;
	rp_reader_get_info(reader, &info);
	*ret_pointer_bytes = info.pointer_bytes;
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		ret = take(&event, data);
		if (ret < 0)
			break;
	}
	said = rp_input_explain(reader, ret, buffer, sizeof(buffer));
	if (said && is_loud)
		rp_tool_error("%s: %s; only %s are explained", path, said,
			      rp_input_given(reader));
	if (said && is_loud && ret == 0)
		ret = -EBADMSG;
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret;
}

/* The first reading fills this state. */
struct explanation_reading {
	struct rp_thread_time *time;
	struct rp_trace_spans spans;	/* of all processes: some of them are callees */
};

static int take_callee(const struct rp_trace_span *span, void *data)
{
	struct explanation_reading *reading = data;

	return rp_thread_time_take_callee(reading->time, span);
}

static int take_for_time(const struct rp_reader_event *event, void *data)
{
	struct explanation_reading *reading = data;
	int ret = rp_thread_time_take(reading->time, event);

	return ret ? ret : rp_trace_spans_take(&reading->spans, event);
}

static int take_for_holders(const struct rp_reader_event *event, void *data)
{
	return rp_thread_time_take(data, event);
}

static bool ends_division(int ret)
{
	return ret == -ENOMEM || ret == -ECANCELED;
}

static int take_for_path(const struct rp_reader_event *event, void *data)
{
	return rp_span_path_take(data, event);
}

/* Find the threads of the spans, and when they worked. Return: 0; -ECANCELED; -ENOMEM. */
static int find_threads(struct rp_explanation *explanation, size_t *ret_count)
{
	struct rp_span_path *path = &explanation->path_of_spans;
	uint32_t pointer_bytes;
	int ret = rp_span_path_begin(path, explanation->spans, explanation->span_count);

	if (ret == 0 && path->moving_count)
		ret = rp_explanation_read(explanation->path, explanation->signal_fd, false,
					  take_for_path, path, &pointer_bytes);
	return ends_division(ret) ? ret :
	       rp_span_path_intervals(path, &explanation->intervals, ret_count);
}

static int divide_intervals(struct rp_explanation *explanation,
			    struct rp_thread_interval *intervals, size_t count)
{
	struct explanation_reading reading = {
		.time = &explanation->time,
		.spans = { .visit = take_callee, .data = &reading },
	};
	uint32_t pointer_bytes;
	int ret;

	ret = rp_thread_time_begin(&explanation->time, intervals, count, explanation->symbols,
				   explanation->pointer_bytes);
	if (ret == 0)
		ret = rp_explanation_read(explanation->path, explanation->signal_fd, false,
					  take_for_time, &reading, &pointer_bytes);
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
	uint32_t pointer_bytes;
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
				   explanation->pointer_bytes);
	if (ret == 0)
		ret = rp_explanation_read(explanation->path, explanation->signal_fd, false,
					  take_for_holders, &explanation->holders, &pointer_bytes);
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
	rp_span_path_free_joined(explanation->joined, explanation->path_of_spans.count);
	rp_span_path_fini(&explanation->path_of_spans);
	free(explanation->intervals);
	free(explanation->holder_intervals);
}
