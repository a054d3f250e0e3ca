/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/rows.h"
#include "tools/trace/summary.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"
#include "tools/trace/loss_event.h"

static uint64_t duration_ns(const struct rp_summary *summary)
{
	return summary->last_ns > summary->from_ns ?
	       (uint64_t)(summary->last_ns - summary->from_ns) : 0;
}

/* The losses of one reason, in all rings or outside of rings. */
struct reason_losses {
	const char *reason;
	uint64_t count, rings;
	const struct rp_loss *worst;
};

static int compare_reasons(const void *left, const void *right)
{
	const struct rp_loss *a = *(struct rp_loss *const *)left;
	const struct rp_loss *b = *(struct rp_loss *const *)right;
	const int order = strcmp(a->reason, b->reason);

	return order ? order : (a->ring > b->ring) - (a->ring < b->ring);
}

static int compare_counts(const void *left, const void *right)
{
	const struct reason_losses *a = left, *b = right;

	return a->count != b->count ? (a->count < b->count) - (a->count > b->count) :
				      strcmp(a->reason, b->reason);
}

/* Return: the number of reasons. `reasons` has space for each loss. The losses are sorted. */
static size_t sum_by_reason(const struct rp_summary *summary, struct reason_losses *reasons)
{
	size_t count = 0;

	qsort(summary->losses, summary->loss_count, sizeof(*summary->losses), compare_reasons);
	for (size_t i = 0; i < summary->loss_count; i++) {
		const struct rp_loss *loss = summary->losses[i];
		struct reason_losses *last = count ? &reasons[count - 1] : NULL;

		/* Losses outside of rings have a row of their own. */
		if (!last || loss->ring == RP_LOSS_NO_RING ||
		    strcmp(last->reason, loss->reason) != 0) {
			last = &reasons[count++];
			*last = (struct reason_losses){ .reason = loss->reason, .worst = loss };
		}
		last->count += loss->count;
		last->rings++;
		if (loss->count > last->worst->count)
			last->worst = loss;
	}
	qsort(reasons, count, sizeof(*reasons), compare_counts);
	return count;
}

/*
 * A machine with many processors has many rings, so each reason has one row. Return: false without
 * memory.
 */
static bool print_reason(const struct reason_losses *losses)
{
	char text[RP_TEXT_MAX], *reason = rp_text_clean(losses->reason, true);

	if (!reason)
		return false;
	printf("           %s", rp_text_count(losses->count, text));
	if (losses->rings > 1)
		printf(" in %" PRIu64 " rings, %s of them", losses->rings,
		       rp_text_count(losses->worst->count, text));
	if (losses->worst->ring != RP_LOSS_NO_RING)
		printf(" in ring %" PRIu32, losses->worst->ring);
	printf(": %s\n", reason);
	free(reason);
	return true;
}

/* Return: the exit status; without memory, an error, because the reasons are missing. */
static int print_losses(const struct rp_summary *summary)
{
	struct reason_losses *reasons;
	char text[RP_TEXT_MAX];
	bool is_complete;
	size_t count;

	printf("Lost       %s\n", rp_text_count(summary->stats.lost, text));
	if (!summary->loss_count)
		return RP_EXIT_OK;
	reasons = calloc(summary->loss_count, sizeof(*reasons));
	is_complete = reasons != NULL;
	count = reasons ? sum_by_reason(summary, reasons) : 0;
	for (size_t i = 0; is_complete && i < count; i++)
		is_complete = print_reason(&reasons[i]);
	free(reasons);
	if (is_complete)
		return RP_EXIT_OK;
	rp_tool_error("out of memory");
	return RP_EXIT_FAILURE;
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
	char events[RP_TEXT_MAX], lost[RP_TEXT_MAX], parent[RP_TEXT_MAX];

	printf("Processes  %zu\n", processes->count);
	for (size_t i = 0; i < processes->count; i++) {
		const struct rp_process *process = &processes->rows[i];
		char *name = rp_text_clean(process->name, true);

		parent[0] = '\0';
		if (process->parent)
			snprintf(parent, sizeof(parent), " (of %" PRIu32 ")", process->parent);
		printf("           %" PRIu32 " %s%s: %s, %s lost%s\n",
		       process->pid, name ? name : "?", parent,
		       rp_text_counted(process->events, "event", events),
		       rp_text_count(process->lost, lost),
		       process->complete ? "" : ", stops before its end");
		free(name);
	}
}

static void print_text_row(const char *title, const char *value)
{
	char *text = *value ? rp_text_clean(value, true) : NULL;

	if (text)
		printf("%s %s\n", title, text);
	free(text);
}

/* Print where the trace is from; perf.data does not have all of this. */
static void print_origin(const struct rp_summary *summary)
{
	char text[RP_TEXT_MAX], processors[RP_TEXT_MAX];

	print_text_row("Host      ", summary->host);
	if (summary->info.process_id)
		printf("Process    %" PRIu32 " on %s\n",
		       summary->info.process_id,
		       rp_text_counted(summary->info.processors, "processor", processors));
	else if (summary->info.processors)
		printf("Processors %" PRIu32 "\n", summary->info.processors);
	if (summary->processes.count)
		print_processes(&summary->processes);
	else
		print_text_row("Command   ", summary->command);
	if (summary->info.start_utc_ns)
		printf("Started    %s UTC\n", rp_text_utc(summary->info.start_utc_ns, text));
}

/* Return: the exit status. */
static int print_header(const struct rp_summary *summary, const struct rp_summary_view *view)
{
	char text[RP_TEXT_MAX], more[RP_TEXT_MAX];
	char *path = rp_text_clean(view->path, true);
	int status;

	printf("File       %s, %s\n", path ? path : "?",
	       rp_text_bytes(summary->stats.bytes, text));
	free(path);
	print_origin(summary);
	printf("Duration   %s\n", rp_text_duration(duration_ns(summary), text));
	print_window(summary);
	if (summary->step_ns)
		printf("Times      coarse, from a clock that advances each %s\n",
		       rp_text_duration(summary->step_ns, text));
	printf("Events     %s, %s a second\n", rp_text_count(summary->stats.events, text),
	       rp_text_rate(summary->stats.events, duration_ns(summary), more));
	status = print_losses(summary);
	if (summary->skipped)
		printf("Skipped    %s, by the events' limits\n",
		       rp_text_count(summary->skipped, text));
	printf("Threads    %s\n", rp_text_count(summary->threads, text));
	printf("Stacks     %s", rp_text_count(summary->stacks, text));
	if (summary->stacks_cut)
		printf(", %s of them cut", rp_text_count(summary->stacks_cut, text));
	else if (summary->rules_missing)
		fputs(", some may be cut", stdout);
	if (summary->rules_missing)
		printf(": %s not cached yet",
		       rp_text_counted(summary->rules_missing, "unwind rule", text));
	putchar('\n');
	if (summary->activities.count)
		printf("Activities %s\n", rp_text_count(summary->activities.count, text));
	if (summary->stats.unordered)
		printf("Unordered  %s\n", rp_text_count(summary->stats.unordered, text));
	if (view->error)
		printf("Complete   no: %s\n", view->error);
	else
		printf("Complete   %s\n", summary->stats.ended ? "yes" : "no");
	return status;
}

static void add_stats(struct rp_rows *rows, uint64_t events, uint64_t bytes, uint64_t ns)
{
	char text[RP_TEXT_MAX];

	rp_rows_add(rows, NULL, rp_text_count(events, text));
	rp_rows_add(rows, NULL, rp_text_rate(events, ns, text));
	rp_rows_add(rows, NULL, rp_text_bytes(bytes, text));
}

static int descending(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a < b) - (a > b);
}

/*
 * The count of the top-th kind; kinds with fewer events are omitted. Without memory: 0, so all are
 * shown.
 */
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

/* Adds the name, with the version if another kind has the same id. */
static void add_name(struct rp_rows *rows, const struct rp_provider_sum *sum,
		     const struct rp_kind *kind)
{
	bool is_only = true;

	for (size_t i = 0; i < sum->kind_count && is_only; i++)
		is_only = sum->kinds[i] == kind || sum->kinds[i]->id != kind->id;
	if (is_only)
		rp_rows_addf(rows, NULL, "  %s (%" PRIu32 ")", kind->name, kind->id);
	else
		rp_rows_addf(rows, NULL, "  %s (%" PRIu32 ", version %" PRIu32 ")", kind->name,
			      kind->id, kind->version);
}

/* Selects the kinds of events to show. */
struct choice {
	bool all;			/* internal kinds too */
	uint64_t at_least;		/* kinds with fewer events are omitted */
};

static struct choice choose(const struct rp_summary *summary, const struct rp_summary_view *view)
{
	return (struct choice){ .all = view->all, .at_least = threshold(summary, view->top) };
}

/* The provider's totals without the internal kinds that are not shown. */
static struct rp_provider_sum shown_of(const struct rp_provider_sum *sum,
				       const struct choice *choice)
{
	struct rp_provider_sum shown = *sum;

	for (size_t k = 0; k < sum->kind_count && !choice->all; k++) {
		if (!sum->kinds[k]->is_internal)
			continue;
		shown.kind_count--;
		shown.events -= sum->kinds[k]->events;
		shown.payload_bytes -= sum->kinds[k]->payload_bytes;
	}
	return shown;
}

static bool is_kind_shown(const struct rp_kind *kind, const struct choice *choice)
{
	return (choice->all || !kind->is_internal) && kind->events >= choice->at_least;
}

/* Counts what the table omits. */
struct omitted {
	size_t kinds;			/* kinds with too few events */
	uint64_t internal_events;
};

static void add_provider(struct rp_rows *rows, const struct rp_summary *summary, size_t i,
			 const struct choice *choice, struct omitted *omitted)
{
	const struct rp_provider_sum *sum = &summary->providers[i];
	const struct rp_provider_sum shown = shown_of(sum, choice);

	omitted->internal_events += sum->events - shown.events;
	if (!shown.kind_count)
		return;
	omitted->kinds += shown.kind_count;
	add_stats(rows, shown.events, shown.payload_bytes, duration_ns(summary));
	rp_rows_add(rows, NULL, sum->name);
	for (size_t k = 0; k < sum->kind_count; k++) {
		const struct rp_kind *kind = sum->kinds[k];

		if (!is_kind_shown(kind, choice))
			continue;
		omitted->kinds--;
		add_stats(rows, kind->events, kind->payload_bytes, duration_ns(summary));
		add_name(rows, sum, kind);
	}
}

static int print_text(struct rp_summary *summary, const struct rp_summary_view *view)
{
	static const struct rp_column columns[] = {
		{ .title = "EVENTS", .is_right = true }, { .title = "A SECOND", .is_right = true },
		{ .title = "PAYLOAD", .is_right = true }, { .title = "PROVIDER / EVENT" },
	};
	const struct choice choice = choose(summary, view);
	struct omitted omitted = { 0 };
	int status = print_header(summary, view);
	struct rp_rows rows;
	char text[RP_TEXT_MAX];

	if (status || !summary->kind_count)
		return status;
	rp_rows_init(&rows, RP_FORMAT_TEXT, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < summary->provider_count; i++)
		add_provider(&rows, summary, i, &choice, &omitted);
	if (rows.cell_count) {
		putchar('\n');
		status = rp_rows_print(&rows);
	}
	if (omitted.kinds)
		printf("\nNot shown: %s of less frequent events.\n",
		       rp_text_counted(omitted.kinds, "more kind", text));
	if (omitted.internal_events)
		printf(omitted.internal_events == 1 ?
		       "\n%s event for .NET's tools is not shown; --all shows it.\n" :
		       "\n%s events for .NET's tools are not shown; --all shows them.\n",
		       rp_text_count(omitted.internal_events, text));
	rp_rows_fini(&rows);
	return status ? status : rp_hot_functions_print(&summary->hot);
}

static struct json_object *rate_to_json(uint64_t events, uint64_t ns)
{
	return ns ? json_object_new_double((double)events * 1e9 / (double)ns) : NULL;
}

/* Columns of CSV; in JSON each provider lists the rest of its kinds. */
static const struct rp_column kind_columns[] = {
	{ .key = "provider" }, { .key = "event" }, { .key = "id" }, { .key = "version" },
	{ .key = "level" }, { .key = "opcode" }, { .key = "keywords" }, { .key = "events" },
	{ .key = "events_per_second" }, { .key = "payload_bytes" },
};
#define KIND_COLUMNS (sizeof(kind_columns) / sizeof(kind_columns[0]))

static void add_kinds(struct rp_rows *rows, const struct rp_summary *summary, size_t provider,
		      const struct choice *choice)
{
	const struct rp_provider_sum *sum = &summary->providers[provider];

	for (size_t k = 0; k < sum->kind_count; k++) {
		const struct rp_kind *kind = sum->kinds[k];

		if (!is_kind_shown(kind, choice))
			continue;
		if (rows->format == RP_FORMAT_CSV)
			rp_rows_add_string(rows, sum->name);
		rp_rows_add_string(rows, kind->name);
		rp_rows_add_u64(rows, kind->id);
		rp_rows_add_u64(rows, kind->version);
		rp_rows_add_u64(rows, kind->level);
		rp_rows_add_u64(rows, kind->opcode);
		rp_rows_add_u64(rows, kind->keywords);
		rp_rows_add_u64(rows, kind->events);
		rp_rows_add(rows, rate_to_json(kind->events, duration_ns(summary)), NULL);
		rp_rows_add_u64(rows, kind->payload_bytes);
	}
}

static int print_csv(const struct rp_summary *summary, const struct rp_summary_view *view)
{
	const struct choice choice = choose(summary, view);
	struct rp_rows rows;
	int status;

	rp_rows_init(&rows, RP_FORMAT_CSV, kind_columns, KIND_COLUMNS);
	for (size_t i = 0; i < summary->provider_count; i++)
		add_kinds(&rows, summary, i, &choice);
	status = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return status;
}

static void add_provider_row(struct rp_rows *rows, const struct rp_summary *summary, size_t i,
			     const struct choice *choice)
{
	const struct rp_provider_sum shown = shown_of(&summary->providers[i], choice);
	struct rp_rows kinds;

	if (!shown.kind_count)
		return;
	rp_rows_init(&kinds, RP_FORMAT_JSON, kind_columns + 1, KIND_COLUMNS - 1);
	add_kinds(&kinds, summary, i, choice);
	rp_rows_add_string(rows, shown.name);
	rp_rows_add_u64(rows, shown.events);
	rp_rows_add(rows, rate_to_json(shown.events, duration_ns(summary)), NULL);
	rp_rows_add_u64(rows, shown.payload_bytes);
	rp_rows_add(rows, rp_rows_take_json(&kinds), NULL);
	rp_rows_fini(&kinds);
}

static struct json_object *providers_to_json(const struct rp_summary *summary,
					     const struct rp_summary_view *view)
{
	static const struct rp_column columns[] = {
		{ .key = "provider" }, { .key = "events" }, { .key = "events_per_second" },
		{ .key = "payload_bytes" }, { .key = "kinds" },
	};
	const struct choice choice = choose(summary, view);
	struct json_object *providers;
	struct rp_rows rows;

	rp_rows_init(&rows, RP_FORMAT_JSON, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < summary->provider_count; i++)
		add_provider_row(&rows, summary, i, &choice);
	providers = rp_rows_take_json(&rows);
	rp_rows_fini(&rows);
	return providers;
}

static struct json_object *losses_to_json(const struct rp_summary *summary)
{
	static const struct rp_column columns[] = {
		{ .key = "ring" }, { .key = "reason" }, { .key = "lost" },
	};
	struct json_object *losses;
	struct rp_rows rows;

	rp_rows_init(&rows, RP_FORMAT_JSON, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < summary->loss_count; i++) {
		if (summary->losses[i]->ring == RP_LOSS_NO_RING)
			rp_rows_add(&rows, NULL, NULL);
		else
			rp_rows_add_u64(&rows, summary->losses[i]->ring);
		rp_rows_add_string(&rows, summary->losses[i]->reason);
		rp_rows_add_u64(&rows, summary->losses[i]->count);
	}
	losses = rp_rows_take_json(&rows);
	rp_rows_fini(&rows);
	return losses;
}

/* Nanoseconds since the trace's start, like the times of events. */
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
	static const struct rp_column columns[] = {
		{ .key = "process_id" }, { .key = "parent_id" }, { .key = "name" },
		{ .key = "command" }, { .key = "events" }, { .key = "lost" },
		{ .key = "complete" },
	};
	struct json_object *array;
	struct rp_rows rows;

	rp_rows_init(&rows, RP_FORMAT_JSON, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < processes->count; i++) {
		const struct rp_process *process = &processes->rows[i];

		rp_rows_add_u64(&rows, process->pid);
		rp_rows_add_u64(&rows, process->parent);
		rp_rows_add_string(&rows, process->name);
		rp_rows_add_string(&rows, process->command_line);
		rp_rows_add_u64(&rows, process->events);
		rp_rows_add_u64(&rows, process->lost);
		rp_rows_add(&rows, json_object_new_boolean(process->complete), NULL);
	}
	array = rp_rows_take_json(&rows);
	rp_rows_fini(&rows);
	return array;
}

static struct json_object *text_or_null(const char *text)
{
	return *text ? rp_json_string(text) : NULL;
}

static struct json_object *to_json(struct rp_summary *summary,
				   const struct rp_summary_view *view)
{
	const struct rp_reader_stats *stats = &summary->stats;
	struct json_object *out = json_object_new_object();
	uint64_t ns = duration_ns(summary);
	char text[RP_TEXT_MAX];

	json_object_object_add(out, "file", rp_json_string(view->path));
	json_object_object_add(out, "bytes", json_object_new_uint64(stats->bytes));
	json_object_object_add(out, "host", text_or_null(summary->host));
	json_object_object_add(out, "process_id", summary->info.process_id ?
			       json_object_new_int64(summary->info.process_id) : NULL);
	json_object_object_add(out, "command", text_or_null(summary->command));
	json_object_object_add(out, "processors", json_object_new_int64(summary->info.processors));
	json_object_object_add(out, "start_utc", summary->info.start_utc_ns ?
			       rp_json_string(rp_text_utc_ns(summary->info.start_utc_ns, text)) :
			       NULL);
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
	json_object_object_add(out, "skipped", json_object_new_uint64(summary->skipped));
	if (summary->processes.count)
		json_object_object_add(out, "processes", processes_to_json(&summary->processes));
	json_object_object_add(out, "threads", json_object_new_uint64(summary->threads));
	json_object_object_add(out, "stacks", json_object_new_uint64(summary->stacks));
	json_object_object_add(out, "stacks_cut", json_object_new_uint64(summary->stacks_cut));
	json_object_object_add(out, "unwind_rules_missing",
			       json_object_new_uint64(summary->rules_missing));
	json_object_object_add(out, "activities",
			       json_object_new_uint64(summary->activities.count));
	json_object_object_add(out, "unordered", json_object_new_uint64(stats->unordered));
	json_object_object_add(out, "sequence_points",
			       json_object_new_uint64(stats->sequence_points));
	if (summary->hot.samples)
		json_object_object_add(out, "hot_functions",
				       rp_hot_functions_to_json(&summary->hot));
	json_object_object_add(out, "providers", providers_to_json(summary, view));
	return out;
}

int rp_summary_print(struct rp_summary *summary, const struct rp_summary_view *view,
		     enum rp_format format)
{
	switch (format) {
	case RP_FORMAT_JSON:
		return rp_json_print(to_json(summary, view));
	case RP_FORMAT_CSV:
		return print_csv(summary, view);
	case RP_FORMAT_TEXT:
		break;
	}
	return print_text(summary, view);
}
