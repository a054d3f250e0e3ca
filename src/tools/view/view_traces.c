/* SPDX-License-Identifier: MIT */
/* The answer `traces`: what each file has. */
#include <errno.h>
#include <stdlib.h>

#include "tools/formats/json_out.h"
#include "tools/view/view_answers.h"

static int compare_threads(const void *left, const void *right)
{
	const struct rp_view_thread *a = *(const struct rp_view_thread *const *)left;
	const struct rp_view_thread *b = *(const struct rp_view_thread *const *)right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

static void put_thread(struct rp_format_out *out, const struct rp_view_thread *thread)
{
	rp_out_text(out, "{\"tid\":");
	rp_json_out_u64(out, thread->thread);
	rp_out_text(out, ",\"name\":");
	rp_view_text(out, thread->name);
	rp_out_text(out, ",\"events\":");
	rp_json_out_u64(out, thread->events);
	rp_out_text(out, ",\"samples\":");
	rp_json_out_u64(out, thread->samples);
	rp_out_text(out, ",\"spans\":");
	rp_json_out_u64(out, thread->spans);
	rp_out_char(out, '}');
}

/* Write the processes by their ids, and the threads of each. */
static void put_processes(struct rp_format_out *out, const struct rp_view_trace *trace)
{
	struct rp_view_thread **sorted = calloc(trace->thread_count + 1, sizeof(*sorted));

	if (!sorted) {
		out->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < trace->thread_count; i++)
		sorted[i] = trace->threads[i];
	qsort(sorted, trace->thread_count, sizeof(*sorted), compare_threads);
	for (size_t i = 0; i < trace->thread_count; i++) {
		if (i && sorted[i]->process == sorted[i - 1]->process) {
			rp_out_char(out, ',');
			put_thread(out, sorted[i]);
			continue;
		}
		rp_out_text(out, i ? "]},{\"pid\":" : "{\"pid\":");
		rp_json_out_u64(out, sorted[i]->process);
		rp_out_text(out, ",\"name\":");
		rp_view_text(out, rp_view_trace_process(trace, sorted[i]->process));
		rp_out_text(out, ",\"threads\":[");
		put_thread(out, sorted[i]);
	}
	if (trace->thread_count)
		rp_out_text(out, "]}");
	free(sorted);
}

void rp_view_put_span_names(struct rp_format_out *out, const struct rp_view_trace *trace)
{
	rp_out_char(out, '[');
	for (size_t i = 0; i < trace->spans.name_count; i++) {
		rp_out_text(out, i ? ",{\"provider\":" : "{\"provider\":");
		rp_view_text(out, trace->spans.names[i]->provider);
		rp_out_text(out, ",\"name\":");
		rp_view_text(out, trace->spans.names[i]->name);
		rp_out_char(out, '}');
	}
	rp_out_char(out, ']');
}

void rp_view_put_excerpt(struct rp_format_out *out, const struct rp_view_trace *trace)
{
	if (!trace->is_excerpt) {
		rp_out_text(out, "null");
		return;
	}
	rp_out_text(out, "{\"read\":");
	rp_json_out_u64(out, trace->read_events);
	rp_out_text(out, ",\"events\":");
	rp_json_out_u64(out, trace->range_events);
	rp_out_char(out, '}');
}

static void put_flag(struct rp_format_out *out, const char *key, bool value, const char *end)
{
	rp_out_char(out, '"');
	rp_out_text(out, key);
	rp_out_text(out, value ? "\":true" : "\":false");
	rp_out_text(out, end);
}

/* The parts of an excerpt may lack events that the trace has. */
static bool has_events(const struct rp_view_trace *trace, enum rp_profile_event kind)
{
	const struct rp_call_tree *tree = kind == RP_PROFILE_SWITCH ? &trace->offcpu.tree :
					  &trace->cpu.tree;

	return tree->weight.count || (trace->is_excerpt && trace->cpu.seen[kind]);
}

static void put_trace(struct rp_format_out *out, const struct rp_traces *view,
		      const struct rp_view_trace *trace)
{
	bool is_first = true;

	rp_out_text(out, "{\"name\":");
	rp_view_text(out, trace->path);
	rp_out_text(out, ",\"start_utc_ns\":\"");
	rp_out_i64(out, trace->info.start_utc_ns);
	rp_out_text(out, "\",\"duration_ns\":");
	rp_json_out_i64(out, trace->end_ns);
	rp_out_text(out, ",\"events\":");
	rp_json_out_u64(out, trace->stats.events);
	rp_out_text(out, ",\"lost\":");
	rp_json_out_u64(out, trace->stats.lost);
	rp_out_text(out, ",\"processors\":");
	rp_json_out_u64(out, trace->info.processors);
	rp_out_text(out, ",\"has\":{");
	put_flag(out, "samples", has_events(trace, RP_PROFILE_SAMPLE) ||
		 has_events(trace, RP_PROFILE_THREAD_SAMPLE), ",");
	put_flag(out, "waits", has_events(trace, RP_PROFILE_SWITCH), ",");
	put_flag(out, "spans", trace->table.count != 0, ",");
	put_flag(out, "counters", trace->counter_count != 0, "},\"processes\":[");
	put_processes(out, trace);
	rp_out_text(out, "],\"span_names\":");
	rp_view_put_span_names(out, trace);
	rp_out_text(out, ",\"warnings\":[");
	for (size_t i = 0; i < trace->warning_count; i++) {
		rp_view_comma(out, &is_first);
		rp_view_text(out, trace->warnings[i]);
	}
	rp_out_text(out, "],\"excerpt\":");
	rp_view_put_excerpt(out, trace);
	rp_out_text(out, ",\"loading\":");
	if (__atomic_load_n(&trace->is_loading, __ATOMIC_RELAXED))
		rp_json_out_double(out, __atomic_load_n(&view->permille, __ATOMIC_RELAXED) / 1e3,
				   false);
	else
		rp_out_text(out, "null");
	rp_out_char(out, '}');
}

void rp_view_answer_traces(const struct rp_traces *view, struct rp_format_out *out)
{
	rp_out_text(out, "{\"traces\":[");
	for (size_t i = 0; i < view->count; i++) {
		if (i)
			rp_out_char(out, ',');
		put_trace(out, view, &view->traces[i]);
	}
	rp_out_text(out, "]}");
}
