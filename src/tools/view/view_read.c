/* SPDX-License-Identifier: MIT */
/* Reads a trace into its model. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cursor.h"
#include "tools/cli/progress.h"
#include "tools/formats/shown_event.h"
#include "tools/trace/event_names.h"
#include "tools/trace/input.h"
#include "tools/trace/system_event.h"
#include "tools/view/view_model_parts.h"

#define PROGRESS_EVENTS 65536u		/* events between two looks at the clock */

struct view_reading {
	struct rp_view_trace *trace;
	const struct rp_reader_event *event;
	uint64_t process;
	uint32_t thread;		/* of the event */
	bool has_events;
	uint64_t sample_seen;
	uint32_t gaps;			/* before the last event */
	/* The latest `cswitch`, whose details are the next event of its thread. */
	bool has_switch, is_kept;
	uint64_t switch_tid;
	uint32_t switch_group, switch_node;
};

typedef int (*view_take)(struct view_reading *reading, struct rp_reader_event *event);

/* Take an event of the first reading. */
static int take_names(struct view_reading *reading, struct rp_reader_event *event)
{
	struct rp_profile *cpu = &reading->trace->cpu;
	int ret;

	/* The parts of an excerpt may lack the events that state what was recorded. */
	ret = reading->trace->is_excerpt ?
	      rp_recorded_kinds_take(&reading->trace->recorded, event) : 0;
	if (ret)
		return ret;
	if (!reading->trace->index) {
		cpu->seen[rp_profile_classify(event)]++;
		if (event->time_ns > cpu->last_ns)
			cpu->last_ns = event->time_ns;
	}
	return rp_symbols_take(&cpu->symbols, event);
}

/* Take what the index knows, so that the first reading needs only the blocks with names. */
static void take_types(struct rp_view_trace *trace)
{
	struct rp_profile *cpu = &trace->cpu;

	for (size_t i = 0; i < trace->index->type_count; i++) {
		const struct rp_index_type *known = &trace->index->types[i];
		struct rp_reader_type type = {
			.provider = known->provider, .name = known->name, .id = known->id,
		};

		cpu->seen[rp_profile_classify(&(struct rp_reader_event){ .type = &type })] +=
			known->events;
		if (trace->is_excerpt)
			rp_recorded_kinds_take_type(&trace->recorded, &type);
	}
	cpu->last_ns = trace->index->last_ns;
}

static int add_sample(struct view_reading *reading, const struct rp_reader_event *event)
{
	struct rp_view_trace *trace = reading->trace;
	struct rp_view_thread *thread = trace->threads[reading->thread];
	const struct rp_call_weight weight = { .count = 1 };
	struct rp_view_sample *grown;
	uint32_t group, node;
	int ret = rp_profile_add(&trace->cpu, event, reading->process, &weight, &group, &node);

	if (ret)
		return ret;
	thread->samples++;
	if (event->processor < trace->cpu_count && trace->cpus[event->processor])
		ret = rp_view_series_add(&trace->cpu_series,
					 &trace->cpus[event->processor]->samples, event->time_ns);
	if (ret == 0)
		ret = rp_view_series_add(&trace->series, &thread->sample_series, event->time_ns);
	if (ret || reading->sample_seen++ % trace->sample_step)
		return ret;
	if (trace->sample_count == RP_VIEW_SAMPLES_MAX) {
		for (size_t i = 0; i < RP_VIEW_SAMPLES_MAX / 2; i++)
			trace->samples[i] = trace->samples[2 * i];
		trace->sample_count /= 2;
		trace->sample_step *= 2;
	}
	grown = rp_array_reserve(trace->samples, trace->sample_count, &trace->sample_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	trace->samples = grown;
	grown[trace->sample_count++] = (struct rp_view_sample){
		.time_ns = event->time_ns, .thread = reading->thread, .node = node,
	};
	return 0;
}

/* Drop the shortest waits until half of the space is free. */
static void drop_waits(struct rp_view_trace *trace)
{
	while (trace->wait_count > RP_VIEW_WAITS_MAX / 2) {
		size_t kept = 0;

		trace->wait_min_ns = trace->wait_min_ns ? 2 * trace->wait_min_ns : 1024;
		for (size_t i = 0; i < trace->wait_count; i++) {
			if (trace->waits[i].duration_ns >= trace->wait_min_ns)
				trace->waits[kept++] = trace->waits[i];
		}
		trace->wait_count = kept;
		if (trace->wait_min_ns >> 62)
			break;
	}
}

static int add_wait(struct view_reading *reading, const struct rp_reader_event *event)
{
	struct rp_cursor payload = rp_cursor_over(event->payload, event->payload_bytes);
	struct rp_view_trace *trace = reading->trace;
	struct rp_call_weight weight = { .count = 1 };
	struct rp_view_wait *grown;
	int ret;

	weight.time_ns = rp_system_take_number(&payload);
	reading->has_switch = true;
	reading->switch_tid = event->thread;
	ret = rp_profile_add(&trace->offcpu, event, reading->process, &weight,
			     &reading->switch_group, &reading->switch_node);
	reading->is_kept = weight.time_ns >= trace->wait_min_ns;
	if (ret || !reading->is_kept)
		return ret;
	if (trace->wait_count == RP_VIEW_WAITS_MAX)
		drop_waits(trace);
	if (trace->wait_count == RP_VIEW_WAITS_MAX) {
		reading->is_kept = false;
		return 0;
	}
	grown = rp_array_reserve(trace->waits, trace->wait_count, &trace->wait_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	trace->waits = grown;
	grown[trace->wait_count++] = (struct rp_view_wait){
		.end_ns = event->time_ns,
		.duration_ns = weight.time_ns < RP_VIEW_TIME_MAX ? weight.time_ns :
			       RP_VIEW_TIME_MAX,
		.thread = reading->thread, .node = reading->switch_node,
	};
	return 0;
}

/* Add the details of the wait whose event came just before. */
static void add_wait_details(struct view_reading *reading, const struct rp_reader_event *event)
{
	struct rp_view_trace *trace = reading->trace;
	struct rp_call_weight weight = { 0 };
	struct rp_view_wait *wait;

	if (!reading->has_switch || reading->switch_tid != event->thread)
		return;
	reading->has_switch = false;
	weight.runnable_ns = rp_profile_number(event, "runnable_ns");
	rp_call_tree_add_to(&trace->offcpu.tree, reading->switch_group, reading->switch_node,
			    &weight);
	if (!reading->is_kept || !trace->wait_count)
		return;
	wait = &trace->waits[trace->wait_count - 1];
	wait->runnable_ns = weight.runnable_ns < wait->duration_ns ? weight.runnable_ns :
			    wait->duration_ns;
	wait->is_preempted = rp_profile_number(event, "state") == 0;
	wait->waker_thread = rp_profile_number(event, "waker_thread");
}

static int start_span(struct rp_trace_span *span, void *data)
{
	struct view_reading *reading = data;

	span->user = (void *)((uintptr_t)reading->thread + 1);
	return 0;
}

/* Drop the shortest spans until half of the space is free. */
static void drop_spans(struct rp_view_trace *trace)
{
	while (trace->span_count > RP_VIEW_SPANS_MAX / 2) {
		size_t kept = 0;

		trace->span_min_ns = trace->span_min_ns ? 2 * trace->span_min_ns : 1024;
		for (size_t i = 0; i < trace->span_count; i++) {
			if (trace->all_spans[i].duration_ns >= trace->span_min_ns)
				trace->all_spans[kept++] = trace->all_spans[i];
		}
		trace->span_count = kept;
		if (trace->span_min_ns >> 62)
			break;
	}
}

static int add_span(const struct rp_trace_span *span, void *data)
{
	struct view_reading *reading = data;
	struct rp_view_trace *trace = reading->trace;
	const uint32_t row = (uint32_t)((uintptr_t)span->user - 1);
	const uint64_t duration = rp_span_duration(span);
	struct rp_view_span *grown;
	int ret = rp_span_table_add(&trace->table, span->name, duration, span->has_error);

	if (ret == 0)
		ret = rp_view_series_add(&trace->series, &trace->threads[row]->span_series,
					 span->start_ns);
	if (ret)
		return ret;
	trace->threads[row]->spans++;
	if (trace->span_count == RP_VIEW_SPANS_MAX)
		drop_spans(trace);
	if (duration < trace->span_min_ns || trace->span_count == RP_VIEW_SPANS_MAX)
		return 0;
	grown = rp_array_reserve(trace->all_spans, trace->span_count, &trace->span_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	trace->all_spans = grown;
	grown += trace->span_count++;
	*grown = (struct rp_view_span){
		.start_ns = span->start_ns, .duration_ns = duration, .process = span->process,
		.tid = span->thread, .stop_tid = span->stop_thread, .span_id = span->span_id,
		.activity = span->activity, .parent = span->parent,
		.name = (uint32_t)span->name->index, .thread = row,
		.has_error = span->has_error,
	};
	memcpy(grown->trace_id, span->trace_id, sizeof(grown->trace_id));
	return 0;
}

/* Take the name of the traced process. Without memory, the process has no name. */
static void take_process_name(struct rp_view_trace *trace, const struct rp_reader_event *event)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	char command[4096];

	if (trace->process_name || strcmp(event->type->name, "ProcessInfo") != 0 ||
	    strcmp(event->type->provider, "Microsoft-DotNETCore-EventPipe") != 0)
		return;
	rp_reader_get_fields(event, &fields);
	if (rp_fields_find(&fields, "CommandLine", &value) == 0 &&
	    rp_value_get_text(&value, command, sizeof(command)) > 0)
		trace->process_name = rp_process_name_of(command);
}

static int count_kind(struct rp_view_trace *trace, const struct rp_reader_event *event)
{
	const uintptr_t index = (uintptr_t)event->type->user;
	char buffer[RP_SHOWN_NAME];
	struct rp_view_kind *kind;

	if (index) {
		trace->kinds[index - 1].count++;
		return 0;
	}
	if (trace->kind_count == RP_VIEW_KINDS_MAX)
		return 0;
	kind = rp_array_reserve(trace->kinds, trace->kind_count, &trace->kind_capacity, 1,
				sizeof(*kind));
	if (!kind)
		return -ENOMEM;
	trace->kinds = kind;
	kind += trace->kind_count;
	*kind = (struct rp_view_kind){
		strdup(event->type->provider),
		strdup(rp_shown_event_name(event->type, buffer)), 1,
	};
	if (!kind->provider || !kind->name) {
		free(kind->provider);
		free(kind->name);
		return -ENOMEM;
	}
	trace->kind_count++;
	event->type->user = (void *)trace->kind_count;
	take_process_name(trace, event);
	return 0;
}

static int count_cpu(struct rp_view_trace *trace, const struct rp_reader_event *event)
{
	if (event->processor >= RP_VIEW_CPUS_MAX)
		return 0;
	if (event->processor >= trace->cpu_count) {
		struct rp_view_cpu **grown = reallocarray(trace->cpus, event->processor + 1,
							  sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		trace->cpus = grown;
		while (trace->cpu_count <= event->processor)
			grown[trace->cpu_count++] = NULL;
	}
	if (!trace->cpus[event->processor])
		trace->cpus[event->processor] = calloc(1, sizeof(struct rp_view_cpu));
	return trace->cpus[event->processor] ?
	       rp_view_series_add(&trace->cpu_series, &trace->cpus[event->processor]->events,
				  event->time_ns) : -ENOMEM;
}

static int count_event(struct view_reading *reading, const struct rp_reader_event *event)
{
	struct rp_view_trace *trace = reading->trace;
	struct rp_view_thread *thread;
	int ret = rp_view_add_thread(trace, reading->process, event->thread, &reading->thread);

	if (ret)
		return ret;
	if (!reading->has_events || event->time_ns < trace->first_ns)
		trace->first_ns = event->time_ns;
	if (!reading->has_events || event->time_ns > trace->last_ns)
		trace->last_ns = event->time_ns;
	reading->has_events = true;
	thread = trace->threads[reading->thread];
	thread->events++;
	if (!thread->name && *event->thread_name) {
		thread->name = strdup(event->thread_name);
		ret = thread->name ? 0 : -ENOMEM;
	}
	if (ret == 0)
		ret = rp_view_series_add(&trace->series, &thread->event_series, event->time_ns);
	if (ret == 0)
		ret = count_cpu(trace, event);
	return ret ? ret : count_kind(trace, event);
}

/* Take an event of the second reading. */
static int take_all(struct view_reading *reading, struct rp_reader_event *event)
{
	struct rp_view_trace *trace = reading->trace;
	enum rp_profile_event kind = rp_profile_classify(event);
	int ret = rp_profile_process(&trace->cpu, event, &reading->process);

	event->process = reading->process;
	if (ret == 0)
		ret = count_event(reading, event);
	if (ret == 0 && !trace->is_excerpt && !trace->is_range)
		ret = rp_recorded_kinds_take(&trace->recorded, event);
	if (ret == 0)
		ret = rp_trace_spans_take(&trace->spans, event);
	if (ret)
		return ret;
	if (kind == RP_PROFILE_SWITCH)
		return add_wait(reading, event);
	if (kind == RP_PROFILE_WAIT)
		add_wait_details(reading, event);
	else if (rp_profile_is_sample(&trace->cpu, event))
		return add_sample(reading, event);
	return rp_shown_as_counter(event->type) ?
	       rp_view_take_counter(trace, event, reading->process) : 0;
}

static bool is_interrupted(int signal_fd)
{
	struct pollfd waiting = { .fd = signal_fd, .events = POLLIN };

	return signal_fd >= 0 && poll(&waiting, 1, 0) > 0;
}

/* Choose what the first or the last reading needs. Return: 0; -ENOMEM. */
static int select_blocks(const struct rp_view_trace *trace, bool is_last, struct rp_reader *reader)
{
	static const struct rp_trace_query names = {
		.from_ns = INT64_MAX, .to_ns = INT64_MIN, .has_descriptions = true,
	};
	const struct rp_trace_query events = {
		.from_ns = trace->from_ns, .to_ns = trace->to_ns,
		.part_count = trace->is_excerpt ? RP_VIEW_PARTS : 0,
		.part_events = RP_VIEW_PART_EVENTS,
	};

	if (!trace->index || (is_last && !trace->is_excerpt && !trace->is_range))
		return 0;
	return rp_trace_index_select(trace->index, is_last ? &events : &names, reader);
}

/* Begin a part: the event before a gap and the one after it have nothing to do with each other. */
static void begin_part(struct view_reading *reading, uint32_t gaps, int64_t time_ns)
{
	struct rp_view_trace *trace = reading->trace;
	const size_t count = trace->part_count;
	const int64_t low_ns = count ? trace->parts[count - 1].first_ns : 0;

	reading->gaps = gaps;
	reading->has_switch = false;
	rp_trace_spans_forget_open(&trace->spans);
	if (count <= RP_VIEW_PARTS)
		trace->parts[trace->part_count++].first_ns = time_ns < low_ns ? low_ns :
			time_ns < RP_VIEW_TIME_MAX ? time_ns : RP_VIEW_TIME_MAX;
}

static void count_in_part(struct view_reading *reading, const struct rp_reader *reader,
			  int64_t time_ns)
{
	struct rp_view_trace *trace = reading->trace;

	if (!trace->is_excerpt)
		return;
	if (!trace->part_count || rp_trace_index_gaps(reader) != reading->gaps)
		begin_part(reading, rp_trace_index_gaps(reader), time_ns);
	trace->parts[trace->part_count - 1].read++;
}

static void show_progress(const struct rp_view_trace *trace, struct rp_progress *progress,
			  const struct rp_input *input)
{
	if (trace->is_range)
		return;
	if (!trace->permille)
		rp_progress_show(progress, input->taken, input->bytes);
	else if (input->bytes)
		__atomic_store_n(trace->permille, (uint32_t)(input->taken * 1000 / input->bytes),
				 __ATOMIC_RELAXED);
}

/* Read the file once. Return: as rp_reader_next(), but 0 at the end; what `take` returned. */
static int read_once(struct view_reading *reading, int signal_fd, bool is_last, view_take take)
{
	struct rp_view_trace *trace = reading->trace;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_progress progress;
	struct rp_input input;
	struct rp_reader *reader;
	unsigned int until_look = PROGRESS_EVENTS;
	const char *said;
	char buffer[512];
	int ret = rp_input_open(&input, trace->path, signal_fd, &reader), damage = 0;

	if (ret)
		return ret;
	rp_progress_begin(&progress, false);
	rp_reader_get_info(reader, &trace->info);
	rp_profile_set_reader(&trace->cpu, reader);
	trace->offcpu.pointer_bytes = trace->cpu.pointer_bytes;
	ret = select_blocks(trace, is_last, reader);
	while (ret == 0 && (damage = rp_reader_next(reader, &event)) == 1) {
		if (is_last)
			count_in_part(reading, reader, event.time_ns);
		ret = take(reading, &event);
		if (--until_look)
			continue;
		until_look = PROGRESS_EVENTS;
		show_progress(trace, &progress, &input);
		if (is_interrupted(signal_fd))
			ret = -ECANCELED;
	}
	rp_progress_end(&progress);
	if (ret == 0 && (damage == -ENOMEM || damage == -ECANCELED))
		ret = damage;
	rp_reader_get_stats(reader, &trace->stats);
	said = rp_input_explain(reader, ret == 0 ? damage : 0, buffer, sizeof(buffer));
	if (ret == 0 && said && is_last)
		ret = rp_view_trace_warn(trace, "%s; the view has %s.", said,
					 rp_input_given(reader));
	rp_reader_close(reader);
	rp_input_close(&input);
	return ret;
}

/* Read all but the names, for which the profile of samples is ready. */
static int read_events(struct view_reading *reading, int signal_fd)
{
	struct rp_view_trace *trace = reading->trace;
	int ret = rp_profile_init_shared(&trace->offcpu, RP_PROFILE_BY_FUNCTION, &trace->cpu);

	if (ret)
		return ret;
	trace->offcpu.has_kernel = false;
	trace->spans = (struct rp_trace_spans){
		.visit = add_span, .started = start_span, .data = reading,
	};
	ret = read_once(reading, signal_fd, true, take_all);
	trace->spans.data = NULL;
	return ret;
}

int rp_view_read(struct rp_view_trace *trace, int signal_fd)
{
	struct view_reading reading = { .trace = trace };
	int ret = rp_profile_init(&trace->cpu, RP_PROFILE_BY_FUNCTION, NULL,
				  &RP_TIME_RANGE_ALL);

	if (ret == 0 && trace->index)
		take_types(trace);
	if (ret == 0)
		ret = read_once(&reading, signal_fd, false, take_names);
	if (ret == 0)
		ret = rp_symbols_sort(&trace->cpu.symbols);
	return ret ? ret : read_events(&reading, signal_fd);
}

int rp_view_read_range(struct rp_view_trace *trace, const struct rp_view_trace *excerpt,
		       int signal_fd)
{
	struct view_reading reading = { .trace = trace };
	int ret = rp_profile_init_shared(&trace->cpu, RP_PROFILE_BY_FUNCTION, &excerpt->cpu);

	return ret ? ret : read_events(&reading, signal_fd);
}
