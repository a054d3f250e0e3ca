/* SPDX-License-Identifier: MIT */
#include "tools/analysis/span_path.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* An event with the activity id of a span that moves. */
struct rp_path_mark {
	size_t owner, number;
	int64_t time_ns;
	uint64_t thread;
	uint64_t change;		/* of the thread's activity, so far */
};

/* The activity of the last event of a thread that had one. */
struct path_thread {
	uint64_t process, thread;
	struct rp_guid activity;
	uint64_t changes;
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_times(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_threads(const void *left, const void *right)
{
	const struct path_thread *a = left, *b = right;
	const int order = compare_numbers(a->thread, b->thread);

	return order ? order : compare_numbers(a->process, b->process);
}

static int compare_moving(const void *left, const void *right, void *data)
{
	const struct rp_trace_span *spans = data;
	const size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return memcmp(&spans[a].activity, &spans[b].activity, sizeof(spans[a].activity));
}

static int compare_marks(const void *left, const void *right)
{
	const struct rp_path_mark *a = left, *b = right;
	int order = compare_numbers(a->owner, b->owner);

	if (order == 0)
		order = compare_times(a->time_ns, b->time_ns);
	return order ? order : compare_numbers(a->number, b->number);
}

static int compare_owners(const void *left, const void *right)
{
	const struct rp_thread_interval *a = *(struct rp_thread_interval *const *)left;
	const struct rp_thread_interval *b = *(struct rp_thread_interval *const *)right;
	const int order = compare_numbers(a->owner, b->owner);

	return order ? order : compare_times(a->from_ns, b->from_ns);
}

static bool is_zero(const struct rp_guid *guid)
{
	static const struct rp_guid none;

	return memcmp(guid, &none, sizeof(none)) == 0;
}

static bool is_moving(const struct rp_trace_span *span)
{
	return span->thread != span->stop_thread && !is_zero(&span->activity);
}

int rp_span_path_begin(struct rp_span_path *path, const struct rp_trace_span *spans, size_t count)
{
	*path = (struct rp_span_path){
		.spans = spans, .count = count,
		.moving = reallocarray(NULL, count, sizeof(*path->moving)),
	};
	if (!path->moving)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (is_moving(&spans[i]))
			path->moving[path->moving_count++] = i;
	}
	qsort_r(path->moving, path->moving_count, sizeof(*path->moving), compare_moving,
		(void *)spans);
	return 0;
}

/* Return: the thread of the event, whose activity may have changed; NULL: no memory. */
static struct path_thread *note_thread(struct rp_span_path *path,
				       const struct rp_reader_event *event)
{
	struct path_thread key = { .process = event->process, .thread = event->thread };
	struct path_thread **found = tfind(&key, &path->thread_tree, compare_threads), *thread;

	if (found) {
		thread = *found;
	} else {
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		*thread = key;
		if (!tsearch(thread, &path->thread_tree, compare_threads)) {
			free(thread);
			return NULL;
		}
	}
	if (memcmp(&thread->activity, &event->activity, sizeof(event->activity)) != 0) {
		thread->activity = event->activity;
		thread->changes++;
	}
	return thread;
}

/* Return: the first index into path->moving whose activity is not before that of the event. */
static size_t find_moving(const struct rp_span_path *path, const struct rp_guid *activity)
{
	return RP_PARTITION_POINT(i, path->moving_count,
				  memcmp(&path->spans[path->moving[i]].activity, activity,
					 sizeof(*activity)) < 0);
}

int rp_span_path_take(struct rp_span_path *path, const struct rp_reader_event *event)
{
	const struct path_thread *thread;

	if (is_zero(&event->activity))
		return 0;
	thread = note_thread(path, event);
	if (!thread)
		return -ENOMEM;
	for (size_t i = find_moving(path, &event->activity); i < path->moving_count; i++) {
		const struct rp_trace_span *span = &path->spans[path->moving[i]];
		struct rp_path_mark *grown;

		if (memcmp(&span->activity, &event->activity, sizeof(event->activity)) != 0)
			return 0;
		if (span->process != event->process || event->time_ns < span->start_ns ||
		    event->time_ns > span->stop_ns)
			continue;
		if (path->mark_count >= RP_PATH_MARKS_MAX)
			return 0;
		grown = rp_array_reserve(path->marks, path->mark_count, &path->mark_capacity, 1,
					 sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		path->marks = grown;
		grown[path->mark_count] = (struct rp_path_mark){
			.owner = path->moving[i], .number = path->mark_count,
			.time_ns = event->time_ns, .thread = event->thread,
			.change = thread->changes,
		};
		path->mark_count++;
	}
	return 0;
}

static struct rp_thread_interval interval_of(const struct rp_trace_span *span, size_t owner)
{
	return (struct rp_thread_interval){
		.process = span->process, .thread = span->thread, .from_ns = span->start_ns,
		.to_ns = span->stop_ns, .owner = owner, .span = span,
	};
}

int rp_span_path_intervals(struct rp_span_path *path, struct rp_thread_interval **ret_intervals,
			   size_t *ret_count)
{
	struct rp_thread_interval *intervals = calloc(path->count + path->mark_count,
						      sizeof(*intervals));
	const struct rp_path_mark *before = NULL;
	size_t count = 0;

	if (!intervals)
		return -ENOMEM;
	for (size_t i = 0; i < path->count; i++) {
		if (!is_moving(&path->spans[i]))
			intervals[count++] = interval_of(&path->spans[i], i);
	}
	if (path->mark_count)
		qsort(path->marks, path->mark_count, sizeof(*path->marks), compare_marks);
	for (size_t i = 0; i < path->mark_count; i++) {
		const struct rp_path_mark *mark = &path->marks[i];

		/* One interval for all the time between changes. */
		if (before && before->owner == mark->owner && before->thread == mark->thread &&
		    before->change == mark->change) {
			intervals[count - 1].to_ns = mark->time_ns;
		} else {
			intervals[count] = interval_of(&path->spans[mark->owner], mark->owner);
			intervals[count].thread = mark->thread;
			intervals[count].from_ns = intervals[count].to_ns = mark->time_ns;
			count++;
		}
		before = mark;
	}
	*ret_intervals = intervals;
	*ret_count = count;
	return 0;
}

static int add_piece(struct rp_thread_interval *joined, const struct rp_time_piece *piece)
{
	struct rp_time_piece *grown;

	if (piece->from_ns >= piece->to_ns)
		return 0;
	grown = rp_array_reserve(joined->pieces, joined->piece_count, &joined->piece_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	joined->pieces = grown;
	grown[joined->piece_count++] = *piece;
	joined->parts_ns[piece->part] += (uint64_t)piece->to_ns - (uint64_t)piece->from_ns;
	return 0;
}

static int add_gap(struct rp_thread_interval *joined, int64_t from_ns, int64_t to_ns)
{
	return add_piece(joined, &(struct rp_time_piece){
		.part = RP_TIME_UNEXPLAINED, .from_ns = from_ns, .to_ns = to_ns });
}

/* Add what an interval has, which begins at or after `*at_ns`. */
static int add_interval(struct rp_thread_interval *joined,
			const struct rp_thread_interval *interval, int64_t *at_ns)
{
	const char **functions;
	int ret = add_gap(joined, *at_ns, interval->from_ns);

	for (size_t i = 0; ret == 0 && i < interval->piece_count; i++)
		ret = add_piece(joined, &interval->pieces[i]);
	*at_ns = interval->to_ns;
	if (ret || interval->function_count == 0)
		return ret;
	functions = rp_array_reserve(joined->functions, joined->function_count,
				     &joined->function_capacity, interval->function_count,
				     sizeof(*functions));
	if (!functions)
		return -ENOMEM;
	joined->functions = functions;
	memcpy(functions + joined->function_count, interval->functions,
	       interval->function_count * sizeof(*functions));
	joined->function_count += interval->function_count;
	return 0;
}

static int join(const struct rp_span_path *path, struct rp_thread_interval **sorted, size_t count,
		struct rp_thread_interval *joined)
{
	size_t at = 0;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < path->count; i++) {
		int64_t at_ns = path->spans[i].start_ns;

		joined[i] = interval_of(&path->spans[i], i);
		for (; ret == 0 && at < count && sorted[at]->owner == i; at++)
			ret = add_interval(&joined[i], sorted[at], &at_ns);
		if (ret == 0)
			ret = add_gap(&joined[i], at_ns, path->spans[i].stop_ns);
	}
	return ret;
}

int rp_span_path_join(const struct rp_span_path *path, struct rp_thread_interval *intervals,
		      size_t count, struct rp_thread_interval **ret_joined)
{
	struct rp_thread_interval *joined = calloc(path->count, sizeof(*joined));
	struct rp_thread_interval **sorted = reallocarray(NULL, count + 1, sizeof(intervals));
	int ret = joined && sorted ? 0 : -ENOMEM;

	if (ret == 0) {
		for (size_t i = 0; i < count; i++)
			sorted[i] = &intervals[i];
		qsort(sorted, count, sizeof(intervals), compare_owners);
		ret = join(path, sorted, count, joined);
	}
	free(sorted);
	if (ret < 0)
		rp_span_path_free_joined(joined, path->count);
	else
		*ret_joined = joined;
	return ret;
}

void rp_span_path_free_joined(struct rp_thread_interval *joined, size_t count)
{
	for (size_t i = 0; joined && i < count; i++) {
		free(joined[i].pieces);
		free(joined[i].functions);
	}
	free(joined);
}

void rp_span_path_fini(struct rp_span_path *path)
{
	tdestroy(path->thread_tree, free);
	free(path->moving);
	free(path->marks);
	*path = (struct rp_span_path){ 0 };
}
