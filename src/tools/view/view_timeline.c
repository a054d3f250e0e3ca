/* SPDX-License-Identifier: MIT */
/* The answer `timeline`: what each thread and processor did, in bins of equal length. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "tools/formats/json_out.h"
#include "tools/view/view_answers.h"

#define THREADS_MAX 500u		/* in one answer: those with most events in the range */
#define SPANS_MAX 20000u
#define STATES_MAX 60000u
#define WAKES_MAX 2000u

enum view_state { STATE_NONE, STATE_RUN, STATE_RUNNABLE, STATE_WAIT, STATE_COUNT };

struct timeline_thread {
	const struct rp_view_thread *thread;
	uint64_t weight;		/* events, samples and spans in the range */
};

struct view_timeline {
	const struct rp_view_question *question;
	struct rp_format_out *out;
	int64_t bin_ns;
	size_t bins;
	uint64_t *counts;		/* of one series */
	struct timeline_thread *threads;
	size_t thread_count;
	uint64_t span_min_ns;		/* shorter spans are only counted */
	size_t states;
};

/* Write the counts as a member, unless all are 0. */
static void put_counts(struct view_timeline *timeline, const char *key)
{
	bool is_first = true, has_count = false;

	for (size_t i = 0; i < timeline->bins && !has_count; i++)
		has_count = timeline->counts[i] != 0;
	if (!has_count)
		return;
	rp_out_text(timeline->out, ",\"");
	rp_out_text(timeline->out, key);
	rp_out_text(timeline->out, "\":[");
	for (size_t i = 0; i < timeline->bins; i++) {
		rp_view_comma(timeline->out, &is_first);
		rp_out_u64(timeline->out, timeline->counts[i]);
	}
	rp_out_char(timeline->out, ']');
}

static uint64_t count(struct view_timeline *timeline, const struct rp_view_series_set *set,
		      const struct rp_view_series *series)
{
	memset(timeline->counts, 0, timeline->bins * sizeof(*timeline->counts));
	return rp_view_series_bins(set, series, timeline->question->from, timeline->question->to,
				   timeline->bin_ns, timeline->counts);
}

static void put_series(struct view_timeline *timeline, const struct rp_view_series_set *set,
		       const struct rp_view_series *series, const char *key)
{
	count(timeline, set, series);
	put_counts(timeline, key);
}

/* A piece of a thread's time that collects pieces shorter than a bin. */
struct state_piece {
	int64_t from_ns, to_ns;
	int64_t sums[STATE_COUNT];
	bool is_open, is_first;
};

static void flush_piece(struct view_timeline *timeline, struct state_piece *piece)
{
	static const char *const names[] = {
		[STATE_RUN] = "run", [STATE_RUNNABLE] = "runnable", [STATE_WAIT] = "wait",
	};
	struct rp_format_out *out = timeline->out;
	int best = STATE_RUN;

	if (!piece->is_open)
		return;
	for (int i = STATE_RUN; i < STATE_COUNT; i++) {
		if (piece->sums[i] > piece->sums[best])
			best = i;
	}
	if (piece->is_first)
		rp_out_text(out, ",\"states\":[");
	else
		rp_out_char(out, ',');
	rp_out_char(out, '[');
	rp_json_out_i64(out, piece->from_ns);
	rp_out_char(out, ',');
	rp_json_out_i64(out, piece->to_ns);
	rp_out_text(out, ",\"");
	rp_out_text(out, names[best]);
	rp_out_text(out, "\"]");
	timeline->states++;
	*piece = (struct state_piece){ .is_first = false };
}

static void add_piece(struct view_timeline *timeline, struct state_piece *piece, int64_t from_ns,
		      int64_t to_ns, enum view_state state)
{
	const struct rp_view_question *question = timeline->question;
	const int64_t from = from_ns > question->from ? from_ns : question->from;
	const int64_t to = to_ns < question->to ? to_ns : question->to;

	if (from >= to)
		return;
	if (piece->is_open && (from != piece->to_ns || to - from >= timeline->bin_ns ||
			       piece->to_ns - piece->from_ns >= timeline->bin_ns))
		flush_piece(timeline, piece);
	if (!piece->is_open)
		piece->from_ns = from;
	piece->is_open = true;
	piece->to_ns = to;
	piece->sums[state] += to - from;
}

/* Return: whether events between the times are missing. */
static bool has_gap(const struct rp_view_trace *trace, int64_t from_ns, int64_t to_ns)
{
	for (size_t i = 1; i < trace->part_count; i++) {
		if (trace->parts[i].first_ns > from_ns && trace->parts[i].first_ns <= to_ns)
			return true;
	}
	return false;
}

/* Between two waits, a thread is on a processor. */
static void put_states(struct view_timeline *timeline, const struct rp_view_thread *thread)
{
	const struct rp_view_wait *waits = timeline->question->trace->waits + thread->first_wait;
	const size_t first = RP_PARTITION_POINT(i, thread->wait_count,
						waits[i].end_ns < timeline->question->from);
	struct state_piece piece = { .is_first = true };
	int64_t last_ns = first ? waits[first - 1].end_ns : INT64_MAX;

	for (size_t i = first; i < thread->wait_count; i++) {
		const struct rp_view_wait *wait = &waits[i];
		int64_t start, ready;

		if (__builtin_sub_overflow(wait->end_ns, (int64_t)wait->duration_ns, &start) ||
		    start > wait->end_ns)
			start = INT64_MIN / 2;
		ready = wait->is_preempted ? start : wait->end_ns - (int64_t)wait->runnable_ns;
		if (last_ns < start && !has_gap(timeline->question->trace, last_ns, wait->end_ns))
			add_piece(timeline, &piece, last_ns, start, STATE_RUN);
		add_piece(timeline, &piece, start, ready, STATE_WAIT);
		add_piece(timeline, &piece, ready, wait->end_ns, STATE_RUNNABLE);
		last_ns = wait->end_ns;
		if (start >= timeline->question->to || timeline->states > STATES_MAX)
			break;
	}
	flush_piece(timeline, &piece);
	if (!piece.is_first)
		rp_out_char(timeline->out, ']');
}

static bool is_in_range(const struct view_timeline *timeline, const struct rp_view_span *span)
{
	return span->start_ns < timeline->question->to &&
	       span->start_ns + (int64_t)span->duration_ns >= timeline->question->from;
}

static bool is_sent(const struct view_timeline *timeline, const struct rp_view_span *span)
{
	return span->duration_ns >= timeline->span_min_ns;
}

static void put_span(struct rp_format_out *out, const struct rp_view_trace *trace,
		     const struct rp_view_span *span)
{
	rp_out_char(out, '[');
	rp_json_out_i64(out, span->start_ns);
	rp_out_char(out, ',');
	rp_json_out_i64(out, span->start_ns + (int64_t)span->duration_ns);
	rp_out_char(out, ',');
	rp_out_u64(out, span->depth);
	rp_out_char(out, ',');
	rp_out_u64(out, span->name);
	rp_out_text(out, span->has_error ? ",1," : ",0,");
	rp_view_put_key(out, trace, span);
	rp_out_char(out, ']');
}

/* Count the spans that are too short to be sent in the bin in which they start. */
static void put_spans(struct view_timeline *timeline, const struct rp_view_thread *thread)
{
	const struct rp_view_trace *trace = timeline->question->trace;
	bool is_first = true;

	/* Spans that the model does not have are only in the series. */
	count(timeline, &trace->series, &thread->span_series);
	for (size_t i = 0; i < thread->span_count; i++) {
		const struct rp_view_span *span =
			&trace->all_spans[trace->by_thread[thread->first_span + i]];
		uint64_t *bin;

		if (span->start_ns >= timeline->question->to)
			break;
		if (!is_in_range(timeline, span) || !is_sent(timeline, span))
			continue;
		if (is_first)
			rp_out_text(timeline->out, ",\"spans\":[");
		rp_view_comma(timeline->out, &is_first);
		put_span(timeline->out, trace, span);
		if (span->start_ns < timeline->question->from)
			continue;
		bin = &timeline->counts[(span->start_ns - timeline->question->from) /
					timeline->bin_ns];
		*bin -= *bin > 0;
	}
	if (!is_first)
		rp_out_char(timeline->out, ']');
	put_counts(timeline, "span_bins");
}

static void put_thread(struct view_timeline *timeline, const struct rp_view_thread *thread)
{
	const struct rp_view_trace *trace = timeline->question->trace;

	rp_out_text(timeline->out, "{\"pid\":");
	rp_json_out_u64(timeline->out, thread->process);
	rp_out_text(timeline->out, ",\"tid\":");
	rp_json_out_u64(timeline->out, thread->thread);
	if (trace->is_range) {
		rp_out_text(timeline->out, ",\"name\":");
		rp_view_text(timeline->out, thread->name);
	}
	put_series(timeline, &trace->series, &thread->event_series, "events");
	put_series(timeline, &trace->series, &thread->sample_series, "samples");
	put_states(timeline, thread);
	put_spans(timeline, thread);
	rp_out_char(timeline->out, '}');
}

static int compare_durations(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a < b) - (a > b);
}

/* Find the length from which on spans are sent, so that they are not too many. */
static int choose_spans(struct view_timeline *timeline)
{
	const struct rp_view_trace *trace = timeline->question->trace;
	uint64_t *durations = NULL;
	size_t found = 0;

	timeline->span_min_ns = (uint64_t)timeline->bin_ns;
	for (int is_second = 0; is_second < 2; is_second++) {
		found = 0;
		for (size_t i = 0; i < trace->span_count; i++) {
			const struct rp_view_span *span = &trace->all_spans[i];

			if (span->start_ns >= timeline->question->to)
				break;
			if (!is_in_range(timeline, span) || !is_sent(timeline, span) ||
			    !rp_view_wants_thread(timeline->question->query,
						  trace->threads[span->thread]))
				continue;
			if (is_second)
				durations[found] = span->duration_ns;
			found++;
		}
		if (found <= SPANS_MAX || is_second)
			break;
		durations = reallocarray(NULL, found, sizeof(*durations));
		if (!durations)
			return -ENOMEM;
	}
	if (!durations)
		return 0;
	qsort(durations, found, sizeof(*durations), compare_durations);
	timeline->span_min_ns = durations[SPANS_MAX - 1] + 1;
	free(durations);
	return 0;
}

static int compare_weights(const void *left, const void *right)
{
	const struct timeline_thread *a = left, *b = right;

	return (a->weight < b->weight) - (a->weight > b->weight);
}

static int compare_ids(const void *left, const void *right)
{
	const struct timeline_thread *a = left, *b = right;

	if (a->thread->process != b->thread->process)
		return a->thread->process < b->thread->process ? -1 : 1;
	return (a->thread->thread > b->thread->thread) - (a->thread->thread < b->thread->thread);
}

static uint64_t weigh(struct view_timeline *timeline, const struct rp_view_thread *thread)
{
	const struct rp_view_trace *trace = timeline->question->trace;

	return count(timeline, &trace->series, &thread->event_series) +
	       thread->wait_count + thread->span_count;
}

/* Choose the threads that did most. Return: how many are left out; -ENOMEM. */
static ssize_t choose_threads(struct view_timeline *timeline)
{
	const struct rp_view_trace *trace = timeline->question->trace;
	size_t found = 0;

	timeline->threads = calloc(trace->thread_count + 1, sizeof(*timeline->threads));
	if (!timeline->threads)
		return -ENOMEM;
	for (size_t i = 0; i < trace->thread_count; i++) {
		const struct rp_view_thread *thread = trace->threads[i];
		struct timeline_thread *row = &timeline->threads[found];

		if (!rp_view_wants_thread(timeline->question->query, thread))
			continue;
		row->thread = thread;
		row->weight = weigh(timeline, thread);
		found += row->weight != 0;
	}
	timeline->thread_count = found < THREADS_MAX ? found : THREADS_MAX;
	if (found > THREADS_MAX)
		qsort(timeline->threads, found, sizeof(*timeline->threads), compare_weights);
	qsort(timeline->threads, timeline->thread_count, sizeof(*timeline->threads), compare_ids);
	return (ssize_t)(found - timeline->thread_count);
}

static void put_cpus(struct view_timeline *timeline)
{
	const struct rp_view_trace *trace = timeline->question->trace;
	bool is_first = true;

	rp_out_text(timeline->out, "],\"cpus\":[");
	for (size_t i = 0; i < trace->cpu_count; i++) {
		if (!trace->cpus[i] || timeline->question->query->has_tid)
			continue;
		rp_view_comma(timeline->out, &is_first);
		rp_out_text(timeline->out, "{\"cpu\":");
		rp_out_u64(timeline->out, i);
		put_series(timeline, &trace->cpu_series, &trace->cpus[i]->samples, "samples");
		put_series(timeline, &trace->cpu_series, &trace->cpus[i]->events, "events");
		rp_out_char(timeline->out, '}');
	}
	rp_out_char(timeline->out, ']');
}

static int64_t wake_time(const struct rp_view_wait *wait)
{
	return wait->end_ns - (int64_t)wait->runnable_ns;
}

static bool is_wake(const struct view_timeline *timeline, const struct rp_view_wait *wait)
{
	return wait->waker_thread && !wait->is_preempted &&
	       wake_time(wait) >= timeline->question->from &&
	       wake_time(wait) < timeline->question->to;
}

static void put_wakes(struct view_timeline *timeline)
{
	const struct rp_view_trace *trace = timeline->question->trace;
	uint64_t found = 0;
	bool is_first = true;

	for (size_t i = 0; i < trace->wait_count; i++)
		found += is_wake(timeline, &trace->waits[i]);
	rp_out_text(timeline->out, ",\"wakes\":[");
	for (size_t i = 0; found <= WAKES_MAX && i < trace->wait_count; i++) {
		const struct rp_view_wait *wait = &trace->waits[i];

		if (!is_wake(timeline, wait))
			continue;
		rp_view_comma(timeline->out, &is_first);
		rp_out_char(timeline->out, '[');
		rp_json_out_i64(timeline->out, wake_time(wait));
		rp_out_char(timeline->out, ',');
		rp_json_out_u64(timeline->out, wait->waker_thread);
		rp_out_char(timeline->out, ',');
		rp_json_out_u64(timeline->out, trace->threads[wait->thread]->thread);
		rp_out_char(timeline->out, ']');
	}
	rp_out_char(timeline->out, ']');
	if (found > WAKES_MAX) {
		rp_out_text(timeline->out, ",\"wakes_left_out\":");
		rp_out_u64(timeline->out, found);
	}
}

static void put_timeline(struct view_timeline *timeline, size_t left_out)
{
	rp_out_text(timeline->out, "{\"from\":");
	rp_json_out_i64(timeline->out, timeline->question->from);
	rp_out_text(timeline->out, ",\"to\":");
	rp_json_out_i64(timeline->out, timeline->question->to);
	rp_out_text(timeline->out, ",\"bin_ns\":");
	rp_json_out_i64(timeline->out, timeline->bin_ns);
	rp_out_text(timeline->out, ",\"threads\":[");
	for (size_t i = 0; i < timeline->thread_count; i++) {
		if (i)
			rp_out_char(timeline->out, ',');
		put_thread(timeline, timeline->threads[i].thread);
	}
	put_cpus(timeline);
	put_wakes(timeline);
	if (timeline->question->trace->is_range) {
		rp_out_text(timeline->out, ",\"span_names\":");
		rp_view_put_span_names(timeline->out, timeline->question->trace);
	}
	if (left_out) {
		rp_out_text(timeline->out, ",\"threads_left_out\":");
		rp_out_u64(timeline->out, left_out);
	}
	rp_out_char(timeline->out, '}');
}

enum rp_view_status rp_view_answer_timeline(const struct rp_view_question *question,
					    struct rp_format_out *out)
{
	struct view_timeline timeline = { .question = question, .out = out };
	const int64_t length = question->to - question->from;
	const int64_t wanted = question->query->bins ? question->query->bins : 1;
	ssize_t left_out = -ENOMEM;

	timeline.bin_ns = length / wanted + (length % wanted != 0);
	timeline.bins = rp_view_bin_count(question->from, question->to, timeline.bin_ns);
	timeline.counts = calloc(timeline.bins, sizeof(*timeline.counts));
	if (timeline.counts && choose_spans(&timeline) == 0)
		left_out = choose_threads(&timeline);
	if (left_out >= 0)
		put_timeline(&timeline, (size_t)left_out);
	free(timeline.counts);
	free(timeline.threads);
	return left_out >= 0 ? RP_VIEW_OK :
	       rp_view_refuse(out, RP_VIEW_FAILED, "There is no memory.");
}
