/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool/json.h"
#include "tool/summary.h"
#include "tool/table.h"
#include "tool/text.h"
#include "tool/tool.h"

static uint64_t duration_ns(const struct rp_summary *summary)
{
	return summary->last_ns > 0 ? (uint64_t)summary->last_ns : 0;
}

static void print_losses(const struct rp_summary *summary)
{
	char text[RP_TEXT_MAX];

	printf("Lost       %s\n", rp_text_count(summary->stats.lost, text));
	for (size_t i = 0; i < summary->loss_count; i++) {
		const struct rp_loss *loss = summary->losses[i];
		char *reason = rp_text_clean(loss->reason, true);

		printf("           %s in ring %" PRIu32 ": %s\n", rp_text_count(loss->count, text),
		       loss->ring, reason ? reason : "?");
		free(reason);
	}
}

static void print_window(const struct rp_summary *summary)
{
	char from[RP_TEXT_MAX], to[RP_TEXT_MAX], time[RP_TEXT_MAX];
	struct rp_summary_window window;

	if (rp_summary_get_window(summary, &window))
		printf("Window     %s to %s UTC, %s\n", rp_text_utc(window.from_utc_ns, from),
		       rp_text_utc(window.to_utc_ns, to),
		       rp_text_duration((uint64_t)(window.to_utc_ns - window.from_utc_ns), time));
}

static void print_processes(const struct rp_processes *processes)
{
	char events[RP_TEXT_MAX], lost[RP_TEXT_MAX];

	printf("Processes  %zu\n", processes->count);
	for (size_t i = 0; i < processes->count; i++) {
		const struct rp_process *process = &processes->rows[i];
		char *name = rp_text_clean(process->name, true);

		printf("           %" PRIu32 " %s (of %" PRIu32 "): %s events, %s lost%s\n",
		       process->pid, name ? name : "?", process->parent,
		       rp_text_count(process->events, events), rp_text_count(process->lost, lost),
		       process->complete ? "" : ", stops before its end");
		free(name);
	}
}

static void print_head(const struct rp_summary *summary, const struct rp_summary_view *view)
{
	char text[RP_TEXT_MAX], more[RP_TEXT_MAX];
	char *path = rp_text_clean(view->path, true);

	printf("File       %s, %s\n", path ? path : "?",
	       rp_text_bytes(summary->stats.bytes, text));
	free(path);
	printf("Process    %" PRIu32 " on %" PRIu32 " processors\n", summary->info.process_id,
	       summary->info.processors);
	if (summary->processes.count)
		print_processes(&summary->processes);
	printf("Started    %s UTC\n", rp_text_utc(summary->info.start_utc_ns, text));
	printf("Duration   %s\n", rp_text_duration(duration_ns(summary), text));
	print_window(summary);
	if (summary->step_ns)
		printf("Times      coarse: of a clock that moves each %s\n",
		       rp_text_duration(summary->step_ns, text));
	printf("Events     %s, %s a second\n", rp_text_count(summary->stats.events, text),
	       rp_text_rate(summary->stats.events, duration_ns(summary), more));
	print_losses(summary);
	printf("Threads    %s\n", rp_text_count(summary->stats.threads, text));
	printf("Stacks     %s\n", rp_text_count(summary->stacks, text));
	if (summary->stats.unordered)
		printf("Unordered  %s\n", rp_text_count(summary->stats.unordered, text));
	if (view->error)
		printf("Complete   no: %s\n", view->error);
	else
		printf("Complete   %s\n", summary->stats.ended ? "yes" : "no");
}

static void add_figures(struct rp_table *table, uint64_t events, uint64_t bytes, uint64_t ns)
{
	char text[RP_TEXT_MAX];

	rp_table_add(table, rp_text_count(events, text));
	rp_table_add(table, rp_text_rate(events, ns, text));
	rp_table_add(table, rp_text_bytes(bytes, text));
}

static int descending(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a < b) - (a > b);
}

/* The count of the top-th kind: kinds with fewer events are left out. 0, all, without memory. */
static uint64_t threshold(const struct rp_summary *summary, uint64_t top)
{
	uint64_t *counts, at_least;

	if (top >= summary->kind_count)
		return 0;
	counts = malloc(summary->kind_count * sizeof(*counts));
	if (!counts)
		return 0;
	for (size_t i = 0; i < summary->kind_count; i++)
		counts[i] = summary->kinds[i]->events;
	qsort(counts, summary->kind_count, sizeof(*counts), descending);
	at_least = counts[top - 1];
	free(counts);
	return at_least;
}

void rp_summary_print_text(const struct rp_summary *summary, const struct rp_summary_view *view)
{
	static const char *const titles[] = { "EVENTS", "A SECOND", "PAYLOAD", "PROVIDER / EVENT",
					      NULL };
	uint64_t at_least = threshold(summary, view->top);
	struct rp_table table;
	size_t left_out = 0;

	print_head(summary, view);
	if (!summary->kind_count)
		return;
	rp_table_init(&table, titles, "rrrl");
	for (size_t i = 0; i < summary->provider_count; i++) {
		const struct rp_provider_sum *sum = &summary->providers[i];

		add_figures(&table, sum->events, sum->payload_bytes, duration_ns(summary));
		rp_table_add(&table, sum->name);
		for (size_t k = 0; k < sum->kind_count; k++) {
			const struct rp_kind *kind = sum->kinds[k];

			if (kind->events < at_least) {
				left_out++;
				continue;
			}
			add_figures(&table, kind->events, kind->payload_bytes,
				    duration_ns(summary));
			rp_table_addf(&table, "  %s (%" PRIu32 ")", kind->name, kind->id);
		}
	}
	putchar('\n');
	if (rp_table_print(&table))
		rp_tool_error("out of memory");
	if (left_out)
		printf("\n%zu more kinds of events came less often.\n", left_out);
	rp_table_fini(&table);
}

static struct json_object *rate_to_json(uint64_t events, uint64_t ns)
{
	return ns ? json_object_new_double((double)events * 1e9 / (double)ns) : NULL;
}

static struct json_object *kind_to_json(const struct rp_kind *kind, uint64_t ns)
{
	struct json_object *row = json_object_new_object();

	json_object_object_add(row, "name", rp_json_string(kind->name));
	json_object_object_add(row, "id", json_object_new_int64(kind->id));
	json_object_object_add(row, "version", json_object_new_int64(kind->version));
	json_object_object_add(row, "level", json_object_new_int64(kind->level));
	json_object_object_add(row, "opcode", json_object_new_int64(kind->opcode));
	json_object_object_add(row, "keywords", json_object_new_uint64(kind->keywords));
	json_object_object_add(row, "events", json_object_new_uint64(kind->events));
	json_object_object_add(row, "events_per_second", rate_to_json(kind->events, ns));
	json_object_object_add(row, "payload_bytes", json_object_new_uint64(kind->payload_bytes));
	return row;
}

static struct json_object *providers_to_json(const struct rp_summary *summary, uint64_t at_least)
{
	struct json_object *rows = json_object_new_array();
	uint64_t ns = duration_ns(summary);

	for (size_t i = 0; i < summary->provider_count; i++) {
		const struct rp_provider_sum *sum = &summary->providers[i];
		struct json_object *row = json_object_new_object();
		struct json_object *kinds = json_object_new_array();

		for (size_t k = 0; k < sum->kind_count; k++) {
			if (sum->kinds[k]->events >= at_least)
				json_object_array_add(kinds, kind_to_json(sum->kinds[k], ns));
		}
		json_object_object_add(row, "name", rp_json_string(sum->name));
		json_object_object_add(row, "events", json_object_new_uint64(sum->events));
		json_object_object_add(row, "events_per_second", rate_to_json(sum->events, ns));
		json_object_object_add(row, "payload_bytes",
				       json_object_new_uint64(sum->payload_bytes));
		json_object_object_add(row, "kinds", kinds);
		json_object_array_add(rows, row);
	}
	return rows;
}

static struct json_object *losses_to_json(const struct rp_summary *summary)
{
	struct json_object *rows = json_object_new_array();

	for (size_t i = 0; i < summary->loss_count; i++) {
		const struct rp_loss *loss = summary->losses[i];
		struct json_object *row = json_object_new_object();

		json_object_object_add(row, "ring", json_object_new_int64(loss->ring));
		json_object_object_add(row, "reason", rp_json_string(loss->reason));
		json_object_object_add(row, "count", json_object_new_uint64(loss->count));
		json_object_array_add(rows, row);
	}
	return rows;
}

/* Nanoseconds since the trace's start, as its events' times are. */
static struct json_object *window_to_json(const struct rp_summary *summary)
{
	struct rp_summary_window window;
	struct json_object *out;

	if (!rp_summary_get_window(summary, &window))
		return NULL;
	out = json_object_new_object();
	json_object_object_add(out, "from_ns", json_object_new_int64(window.from_utc_ns -
							summary->info.start_utc_ns));
	json_object_object_add(out, "to_ns", json_object_new_int64(window.to_utc_ns -
						      summary->info.start_utc_ns));
	return out;
}

static struct json_object *processes_to_json(const struct rp_processes *processes)
{
	struct json_object *rows = json_object_new_array();

	for (size_t i = 0; i < processes->count; i++) {
		const struct rp_process *process = &processes->rows[i];
		struct json_object *row = json_object_new_object();

		json_object_object_add(row, "process_id", json_object_new_int64(process->pid));
		json_object_object_add(row, "parent_id", json_object_new_int64(process->parent));
		json_object_object_add(row, "name", rp_json_string(process->name));
		json_object_object_add(row, "command", rp_json_string(process->command_line));
		json_object_object_add(row, "events", json_object_new_uint64(process->events));
		json_object_object_add(row, "lost", json_object_new_uint64(process->lost));
		json_object_object_add(row, "complete",
				       json_object_new_boolean(process->complete));
		json_object_array_add(rows, row);
	}
	return rows;
}

struct json_object *rp_summary_to_json(const struct rp_summary *summary,
				       const struct rp_summary_view *view)
{
	const struct rp_reader_stats *stats = &summary->stats;
	struct json_object *out = json_object_new_object();
	uint64_t ns = duration_ns(summary);
	char text[RP_TEXT_MAX];

	rp_text_utc(summary->info.start_utc_ns, text);
	json_object_object_add(out, "file", rp_json_string(view->path));
	json_object_object_add(out, "bytes", json_object_new_uint64(stats->bytes));
	json_object_object_add(out, "process_id", json_object_new_int64(summary->info.process_id));
	json_object_object_add(out, "processors", json_object_new_int64(summary->info.processors));
	json_object_object_add(out, "start_utc", rp_json_string(text));
	json_object_object_add(out, "duration_ns", json_object_new_uint64(ns));
	json_object_object_add(out, "window", window_to_json(summary));
	json_object_object_add(out, "time_step_ns", summary->step_ns ?
			       json_object_new_uint64(summary->step_ns) : NULL);
	json_object_object_add(out, "complete",
			       json_object_new_boolean(stats->ended && !view->error));
	json_object_object_add(out, "error", rp_json_string(view->error));
	json_object_object_add(out, "events", json_object_new_uint64(stats->events));
	json_object_object_add(out, "events_per_second", rate_to_json(stats->events, ns));
	json_object_object_add(out, "lost", json_object_new_uint64(stats->lost));
	json_object_object_add(out, "lost_by", losses_to_json(summary));
	if (summary->processes.count)
		json_object_object_add(out, "processes", processes_to_json(&summary->processes));
	json_object_object_add(out, "threads", json_object_new_uint64(stats->threads));
	json_object_object_add(out, "stacks", json_object_new_uint64(summary->stacks));
	json_object_object_add(out, "activities", json_object_new_uint64(summary->activities));
	json_object_object_add(out, "unordered", json_object_new_uint64(stats->unordered));
	json_object_object_add(out, "sequence_points",
			       json_object_new_uint64(stats->sequence_points));
	json_object_object_add(out, "providers",
			       providers_to_json(summary, threshold(summary, view->top)));
	return out;
}
