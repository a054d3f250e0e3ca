/* SPDX-License-Identifier: MIT */
/* The answers `search` and `counters`. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/formats/json_out.h"
#include "tools/view/view_answers.h"

#define RESULTS_MAX 200u

struct view_search {
	struct rp_format_out *out;
	const char *text;
	uint32_t found;
};

/*
 * Write a result if PROVIDER/NAME, or the name without a provider, contains the search. Without a
 * name, nothing is written.
 */
static void put_result(struct view_search *search, const char *kind, const char *provider,
		       const char *name, uint64_t count, const struct rp_view_thread *thread)
{
	struct rp_format_out *out = search->out;
	char *joined = NULL;

	if (search->found >= RESULTS_MAX || !name ||
	    asprintf(&joined, "%s%s%s", provider ? provider : "", provider ? "/" : "", name) < 0)
		return;
	if (strcasestr(joined, search->text)) {
		if (search->found++)
			rp_out_char(out, ',');
		rp_out_text(out, "{\"kind\":");
		rp_view_text(out, kind);
		rp_out_text(out, ",\"name\":");
		rp_view_text(out, name);
		if (provider) {
			rp_out_text(out, ",\"provider\":");
			rp_view_text(out, provider);
		}
		rp_out_text(out, ",\"count\":");
		rp_json_out_u64(out, count);
		if (thread) {
			rp_out_text(out, ",\"pid\":");
			rp_json_out_u64(out, thread->process);
			rp_out_text(out, ",\"tid\":");
			rp_json_out_u64(out, thread->thread);
		}
		rp_out_char(out, '}');
	}
	free(joined);
}

static void search_threads(struct view_search *search, const struct rp_view_trace *trace)
{
	char id[32];

	for (size_t i = 0; i < trace->thread_count; i++) {
		const struct rp_view_thread *thread = trace->threads[i];
		const char *process = rp_view_trace_process(trace, thread->process);

		snprintf(id, sizeof(id), "%" PRIu64, thread->thread);
		put_result(search, "thread", NULL, thread->name ? thread->name : id,
			   thread->events, thread);
		if (process && (i == 0 || thread->process != trace->threads[i - 1]->process))
			put_result(search, "process", NULL, process, thread->events, thread);
	}
}

/* Count the samples, or else the waits, of all functions. */
static int search_functions(struct view_search *search, const struct rp_view_trace *trace)
{
	const bool has_samples = trace->cpu.tree.weight.count != 0;
	const struct rp_call_tree *tree = has_samples ? &trace->cpu.tree : &trace->offcpu.tree;
	struct rp_call_total *totals;
	size_t count;
	int ret = rp_call_tree_totals(tree, RP_CALL_NONE, &totals, &count);

	if (ret)
		return ret;
	for (size_t i = 0; i < count; i++)
		put_result(search, "function", NULL, tree->functions[totals[i].function].name,
			   totals[i].inclusive.count, NULL);
	free(totals);
	return 0;
}

enum rp_view_status rp_view_answer_search(const struct rp_view_question *question,
					  struct rp_format_out *out)
{
	const struct rp_view_trace *trace = question->trace;
	struct view_search search = { .out = out, .text = question->query->q };

	if (!search.text || !*search.text)
		return rp_view_refuse(out, RP_VIEW_BAD, "There is nothing to search for.");
	rp_out_text(out, "{\"results\":[");
	for (size_t i = 0; i < trace->table.count && trace->table.rows[i].name; i++)
		put_result(&search, "span", trace->table.rows[i].name->provider,
			   trace->table.rows[i].name->name, trace->table.rows[i].latency.count,
			   NULL);
	for (size_t i = 0; i < trace->kind_count; i++)
		put_result(&search, "event", trace->kinds[i].provider, trace->kinds[i].name,
			   trace->kinds[i].count, NULL);
	search_threads(&search, trace);
	if (search_functions(&search, trace) < 0)
		return rp_view_refuse(out, RP_VIEW_FAILED, "There is no memory.");
	rp_out_text(out, "]}");
	return RP_VIEW_OK;
}

static void put_point(struct rp_format_out *out, bool *is_first, const struct rp_view_point *point)
{
	rp_view_comma(out, is_first);
	rp_out_char(out, '[');
	rp_json_out_i64(out, point->time_ns);
	rp_out_char(out, ',');
	rp_json_out_double(out, point->value, false);
	rp_out_char(out, ']');
}

/* Write the lowest and the highest of each group of points, so that no peak is left out. */
static void put_points(struct rp_format_out *out, const struct rp_view_question *question,
		       const struct rp_view_counter *counter)
{
	const uint32_t max = question->query->points > 2 ? question->query->points : 2;
	size_t first = 0, end = counter->count, group;
	bool is_first = true;

	while (first < end && counter->points[first].time_ns < question->from)
		first++;
	while (end > first && counter->points[end - 1].time_ns >= question->to)
		end--;
	group = end - first > max ? (2 * (end - first) + max - 1) / max : 1;
	for (; first < end; first += group) {
		size_t low = first, high = first;

		for (size_t i = first; i < end && i < first + group; i++) {
			if (counter->points[i].value < counter->points[low].value)
				low = i;
			if (counter->points[i].value > counter->points[high].value)
				high = i;
		}
		put_point(out, &is_first, &counter->points[low < high ? low : high]);
		if (low != high)
			put_point(out, &is_first, &counter->points[low < high ? high : low]);
	}
}

enum rp_view_status rp_view_answer_counters(const struct rp_view_question *question,
					    struct rp_format_out *out)
{
	const struct rp_view_trace *trace = question->trace;
	bool is_first = true;

	rp_out_text(out, "{\"counters\":[");
	for (size_t i = 0; i < trace->counter_count; i++) {
		const struct rp_view_counter *counter = &trace->counters[i];

		if (question->query->has_pid && question->query->pid != counter->process)
			continue;
		rp_view_comma(out, &is_first);
		rp_out_text(out, "{\"pid\":");
		rp_json_out_u64(out, counter->process);
		rp_out_text(out, ",\"provider\":");
		rp_view_text(out, counter->provider);
		rp_out_text(out, ",\"name\":");
		rp_view_text(out, counter->name);
		rp_out_text(out, ",\"display\":");
		rp_view_text(out, counter->display);
		rp_out_text(out, ",\"unit\":");
		rp_view_text(out, counter->unit);
		rp_out_text(out, ",\"points\":[");
		put_points(out, question, counter);
		rp_out_text(out, "]}");
	}
	rp_out_text(out, "]}");
	return RP_VIEW_OK;
}
