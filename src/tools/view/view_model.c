/* SPDX-License-Identifier: MIT */
#include "tools/view/view_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "tools/cli/display_text.h"
#include "tools/view/view_model_parts.h"
#include "tools/view/view_ranges.h"

#define STEP_NS 1000u			/* between the times that the page prints */

int rp_view_trace_warn(struct rp_view_trace *trace, const char *format, ...)
{
	char **grown = rp_array_reserve(trace->warnings, trace->warning_count,
					&trace->warning_capacity, 1, sizeof(*grown));
	char *text;
	va_list arguments;
	int length;

	if (!grown)
		return -ENOMEM;
	trace->warnings = grown;
	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		return -ENOMEM;
	trace->warnings[trace->warning_count++] = text;
	return 0;
}

static uint64_t hash_thread(const void *rows, uint32_t number)
{
	const struct rp_view_thread *const *threads = rows;

	return rp_call_hash(threads[number]->process, threads[number]->thread);
}

/* Return: the thread's index in `threads`; SIZE_MAX: the trace has no such thread. */
static size_t find_thread(const struct rp_view_trace *trace, uint64_t process, uint64_t thread)
{
	const size_t mask = trace->by_thread_id.capacity - 1;

	if (!trace->by_thread_id.capacity)
		return SIZE_MAX;
	for (size_t at = rp_call_hash(process, thread) & mask; trace->by_thread_id.slots[at];
	     at = (at + 1) & mask) {
		const uint32_t found = trace->by_thread_id.slots[at] - 1;

		if (trace->threads[found]->process == process &&
		    trace->threads[found]->thread == thread)
			return found;
	}
	return SIZE_MAX;
}

/* Find or add the thread. Threads beyond the bound share the last row, 0 of process 0. */
int rp_view_add_thread(struct rp_view_trace *trace, uint64_t process, uint64_t thread,
		       uint32_t *ret_thread)
{
	struct rp_view_thread **grown;
	size_t at = find_thread(trace, process, thread);

	if (at == SIZE_MAX && trace->thread_count + 1 >= RP_VIEW_THREADS_MAX) {
		process = thread = 0;
		at = find_thread(trace, 0, 0);
	}
	if (at != SIZE_MAX) {
		*ret_thread = (uint32_t)at;
		return 0;
	}
	if (rp_call_index_reserve(&trace->by_thread_id, trace->thread_count, hash_thread,
				  trace->threads))
		return -ENOMEM;
	grown = rp_array_reserve(trace->threads, trace->thread_count, &trace->thread_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	trace->threads = grown;
	grown[trace->thread_count] = calloc(1, sizeof(**grown));
	if (!grown[trace->thread_count])
		return -ENOMEM;
	grown[trace->thread_count]->process = process;
	grown[trace->thread_count]->thread = thread;
	at = rp_call_hash(process, thread) & (trace->by_thread_id.capacity - 1);
	while (trace->by_thread_id.slots[at])
		at = (at + 1) & (trace->by_thread_id.capacity - 1);
	*ret_thread = (uint32_t)trace->thread_count++;
	trace->by_thread_id.slots[at] = *ret_thread + 1;
	return 0;
}

const char *rp_view_trace_process(const struct rp_view_trace *trace, uint64_t process)
{
	const struct rp_processes *processes = &trace->cpu.symbols.tree;
	const char *name = rp_symbols_process(&trace->cpu.symbols, process, trace->last_ns);

	for (size_t i = 0; !name && i < processes->count; i++) {
		if (processes->rows[i].pid == process)
			name = processes->rows[i].name;
	}
	return !name && process == trace->info.process_id ? trace->process_name : name;
}

static int compare_samples(const void *left, const void *right)
{
	const struct rp_view_sample *a = left, *b = right;

	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static int compare_waits(const void *left, const void *right)
{
	const struct rp_view_wait *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

/* A span that contains another one of the same start comes first. */
static int compare_spans(const void *left, const void *right)
{
	const struct rp_view_span *a = left, *b = right;

	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	if (a->duration_ns != b->duration_ns)
		return a->duration_ns > b->duration_ns ? -1 : 1;
	return (a->name > b->name) - (a->name < b->name);
}

/* Give each span of a thread the first row in which no earlier span is still open. */
static void set_depths(struct rp_view_trace *trace, const struct rp_view_thread *thread)
{
	int64_t ends[RP_VIEW_DEPTH_MAX];
	uint16_t used = 0;

	for (size_t i = 0; i < thread->span_count; i++) {
		struct rp_view_span *span =
			&trace->all_spans[trace->by_thread[thread->first_span + i]];
		uint16_t depth = 0;

		while (depth < used && ends[depth] > span->start_ns)
			depth++;
		if (depth == RP_VIEW_DEPTH_MAX)
			depth--;
		if (depth == used)
			used++;
		ends[depth] = span->start_ns + (int64_t)span->duration_ns;
		span->depth = depth;
	}
}

static int sort_spans(struct rp_view_trace *trace)
{
	size_t first = 0;

	if (!trace->span_count)
		return 0;
	qsort(trace->all_spans, trace->span_count, sizeof(*trace->all_spans), compare_spans);
	trace->by_thread = reallocarray(NULL, trace->span_count, sizeof(*trace->by_thread));
	if (!trace->by_thread)
		return -ENOMEM;
	for (size_t i = 0; i < trace->span_count; i++)
		trace->threads[trace->all_spans[i].thread]->span_count++;
	for (size_t i = 0; i < trace->thread_count; i++) {
		trace->threads[i]->first_span = first;
		first += trace->threads[i]->span_count;
		trace->threads[i]->span_count = 0;
	}
	for (size_t i = 0; i < trace->span_count; i++) {
		struct rp_view_thread *thread = trace->threads[trace->all_spans[i].thread];

		trace->by_thread[thread->first_span + thread->span_count++] = (uint32_t)i;
	}
	for (size_t i = 0; i < trace->thread_count; i++)
		set_depths(trace, trace->threads[i]);
	return 0;
}

static int compare_kinds(const void *left, const void *right)
{
	const struct rp_view_kind *a = left, *b = right;
	const int order = strcmp(a->provider, b->provider);

	return order ? order : strcmp(a->name, b->name);
}

/* A file may define an event's type several times. */
static void merge_kinds(struct rp_view_trace *trace)
{
	size_t kept = 0;

	if (trace->kind_count)
		qsort(trace->kinds, trace->kind_count, sizeof(*trace->kinds), compare_kinds);
	for (size_t i = 0; i < trace->kind_count; i++) {
		struct rp_view_kind *kind = &trace->kinds[i];

		if (kept && compare_kinds(&trace->kinds[kept - 1], kind) == 0) {
			trace->kinds[kept - 1].count += kind->count;
			free(kind->provider);
			free(kind->name);
		} else {
			trace->kinds[kept++] = *kind;
		}
	}
	trace->kind_count = kept;
}

static int warn_of_bounds(struct rp_view_trace *trace)
{
	char text[RP_TEXT_MAX];
	int ret = 0;

	if (1ull << trace->series.shift > STEP_NS)
		ret = rp_view_trace_warn(trace, "The numbers of events in a short time are "
					 "estimates: the trace is large, so its events are counted "
					 "in steps of %s.",
					 rp_text_short_time(1ull << trace->series.shift, text));
	if (ret == 0 && trace->sample_step > 1)
		ret = rp_view_trace_warn(trace, "Selections have one sample of %" PRIu64
					 "; the whole trace has all of them.", trace->sample_step);
	if (ret == 0 && trace->wait_min_ns)
		ret = rp_view_trace_warn(trace, "Selections lack waits shorter than %s; the whole "
					 "trace has all of them.",
					 rp_text_short_time(trace->wait_min_ns, text));
	if (ret == 0 && trace->span_min_ns)
		ret = rp_view_trace_warn(trace, "Selections lack spans shorter than %s; the whole "
					 "trace has all of them.",
					 rp_text_short_time(trace->span_min_ns, text));
	if (ret == 0 && trace->cpu.tree.cut + trace->offcpu.tree.cut)
		ret = rp_view_trace_warn(trace, "Cut %s, because they or the call tree became too "
					 "large.",
					 rp_text_counted(trace->cpu.tree.cut +
							 trace->offcpu.tree.cut, "stack",
							 text));
	if (ret == 0 && trace->cpu.symbols.ignored)
		ret = rp_view_trace_warn(trace, "Ignored mappings and functions: %s.",
					 rp_text_count(trace->cpu.symbols.ignored, text));
	if (ret == 0 && trace->thread_count + 1 >= RP_VIEW_THREADS_MAX)
		ret = rp_view_trace_warn(trace, "Threads beyond the first %u are shown as one, "
					 "thread 0 of process 0.", RP_VIEW_THREADS_MAX - 2);
	if (ret == 0 && trace->stats.lost)
		ret = rp_view_trace_warn(trace, "The recording lost %s.",
					 rp_text_counted(trace->stats.lost, "event", text));
	if (ret == 0 && trace->spans.open_count)
		ret = rp_view_trace_warn(trace, "Left out %s that did not stop.",
					 rp_text_counted(trace->spans.open_count, "span",
							 text));
	return ret;
}

/* Sort all, after the last event. */
static int finish(struct rp_view_trace *trace)
{
	int ret;

	rp_call_tree_finish(&trace->cpu.tree);
	rp_call_tree_finish(&trace->offcpu.tree);
	rp_view_series_sort(&trace->series);
	rp_view_series_sort(&trace->cpu_series);
	if (trace->sample_count)
		qsort(trace->samples, trace->sample_count, sizeof(*trace->samples),
		      compare_samples);
	if (trace->wait_count)
		qsort(trace->waits, trace->wait_count, sizeof(*trace->waits), compare_waits);
	for (size_t i = trace->wait_count; i-- > 0;) {
		trace->threads[trace->waits[i].thread]->first_wait = i;
		trace->threads[trace->waits[i].thread]->wait_count++;
	}
	merge_kinds(trace);
	if (trace->is_excerpt && !trace->is_range) {
		trace->first_ns = trace->index->first_ns;
		trace->last_ns = trace->index->last_ns;
		trace->stats.events = trace->index->events;
		trace->stats.lost = 0;
	}
	ret = sort_spans(trace);
	if (ret == 0)
		ret = rp_view_finish_parts(trace);
	rp_span_table_sort(&trace->table);
	trace->end_ns = trace->last_ns > 0 ? trace->last_ns : 0;
	trace->end_ns = trace->end_ns < RP_VIEW_TIME_MAX ? trace->end_ns + 1 : RP_VIEW_TIME_MAX;
	return ret || trace->is_excerpt || trace->is_range ? ret : warn_of_bounds(trace);
}

static int init(struct rp_view_trace *trace, const char *path)
{
	*trace = (struct rp_view_trace){
		.path = strdup(path), .sample_step = 1, .info = RP_READER_INFO_INIT,
		.from_ns = INT64_MIN, .to_ns = INT64_MAX,
		.stats = RP_READER_STATS_INIT,
	};
	return trace->path ? 0 : -ENOMEM;
}

static int read_and_finish(struct rp_view_trace *trace, int signal_fd)
{
	const int ret = rp_view_read(trace, signal_fd);

	return ret ? ret : finish(trace);
}

int rp_view_trace_open(struct rp_view_trace *trace, const char *path, int signal_fd,
		       bool may_excerpt)
{
	int ret = init(trace, path);

	if (ret)
		return ret;
	/* A file that cannot be opened is reported when it is read. */
	ret = access(path, R_OK) == 0 ? rp_trace_index_open(path, signal_fd, &trace->index) : 0;
	if (ret && ret != -ESPIPE)
		return ret;
	/* An index ends at the first damage. The reader skips damage and needs the whole file. */
	if (trace->index && !trace->index->is_whole) {
		rp_trace_index_close(trace->index);
		trace->index = NULL;
	}
	trace->is_excerpt = may_excerpt && trace->index &&
			    trace->index->events > RP_VIEW_WHOLE_EVENTS;
	if (trace->is_excerpt) {
		trace->ranges = rp_view_ranges_create();
		if (!trace->ranges)
			return -ENOMEM;
	}
	return read_and_finish(trace, signal_fd);
}

int rp_view_trace_open_whole(struct rp_view_trace *trace, const struct rp_view_trace *excerpt,
			     int signal_fd, uint32_t *permille)
{
	int ret = init(trace, excerpt->path);

	if (ret)
		return ret;
	trace->index = excerpt->index;
	trace->permille = permille;
	return read_and_finish(trace, signal_fd);
}

int rp_view_trace_open_range(struct rp_view_trace *trace, const struct rp_view_trace *excerpt,
			     int64_t from_ns, int64_t to_ns, int signal_fd)
{
	int ret = init(trace, excerpt->path);

	if (ret)
		return ret;
	trace->index = excerpt->index;
	trace->is_range = true;
	trace->from_ns = from_ns;
	trace->to_ns = to_ns;
	trace->is_excerpt = rp_view_count_range(trace->index, from_ns, to_ns) >
			    RP_VIEW_RANGE_EVENTS;
	if (!trace->is_excerpt)
		rp_view_widen_range(trace);
	ret = rp_view_read_range(trace, excerpt, signal_fd);
	return ret ? ret : finish(trace);
}

static void free_threads(struct rp_view_trace *trace)
{
	for (size_t i = 0; i < trace->thread_count; i++) {
		rp_view_series_fini(&trace->threads[i]->event_series);
		rp_view_series_fini(&trace->threads[i]->sample_series);
		rp_view_series_fini(&trace->threads[i]->span_series);
		free(trace->threads[i]->name);
		free(trace->threads[i]);
	}
	free(trace->threads);
	free(trace->by_thread_id.slots);
	for (size_t i = 0; i < trace->cpu_count; i++) {
		if (!trace->cpus[i])
			continue;
		rp_view_series_fini(&trace->cpus[i]->events);
		rp_view_series_fini(&trace->cpus[i]->samples);
		free(trace->cpus[i]);
	}
	free(trace->cpus);
}

void rp_view_trace_close(struct rp_view_trace *trace)
{
	rp_view_ranges_destroy(trace->ranges);
	free_threads(trace);
	for (size_t i = 0; i < trace->kind_count; i++) {
		free(trace->kinds[i].provider);
		free(trace->kinds[i].name);
	}
	for (size_t i = 0; i < trace->counter_count; i++) {
		free(trace->counters[i].provider);
		free(trace->counters[i].name);
		free(trace->counters[i].display);
		free(trace->counters[i].unit);
		free(trace->counters[i].points);
	}
	for (size_t i = 0; i < trace->warning_count; i++)
		free(trace->warnings[i]);
	free(trace->warnings);
	free(trace->kinds);
	free(trace->counters);
	free(trace->samples);
	free(trace->waits);
	free(trace->all_spans);
	free(trace->by_thread);
	rp_span_table_fini(&trace->table);
	rp_recorded_kinds_fini(&trace->recorded);
	rp_trace_spans_fini(&trace->spans);
	rp_profile_fini(&trace->offcpu);
	rp_profile_fini(&trace->cpu);
	rp_trace_index_close(trace->index);
	free(trace->stretches);
	free(trace->process_name);
	free(trace->path);
	*trace = (struct rp_view_trace){ 0 };
}
