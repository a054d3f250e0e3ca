/* SPDX-License-Identifier: MIT */
/*
 * ringpipe report FILE losses: when which events were lost, and why. The library writes new losses
 * as events EventsLost before each sequence point, so they came after the last event before the
 * previous point. The recorder of the machine writes new losses as events Loss when it notices
 * them. A damaged part of the trace is a loss of another kind: where it is and why is known, but
 * only the sum of the events that all such parts lost.
 *
 * A range has the losses that may have occurred in it: those after whose first time and up to whose
 * second time the range has a time.
 */
#include "tools/ringpipe/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "nettrace/reader_parts.h"
#include "tools/cli/display_text.h"
#include "tools/cli/rows.h"
#include "tools/trace/loss_event.h"
#include "tools/trace/processes.h"

struct loss_report {
	const struct rp_report *report;
	struct rp_processes processes;
	struct rp_rows out;
	struct rp_reader_stats stats;
	int64_t previous_ns;		/* time of the event before */
	int64_t point_ns;		/* of the last event before the last sequence point */
	uint64_t total;
	uint64_t gaps;			/* lost events of the range, by the numbers of events */
	size_t rows;
};

/* After the range, the reader skips blocks, so it does not know the last sequence point. */
static bool overlaps_range(const struct loss_report *losses, int64_t after_ns, int64_t reported_ns,
			   bool is_of_machine)
{
	const struct rp_time_range *range = &losses->report->range;

	if (rp_time_range_is_all(range))
		return true;
	if (!is_of_machine && rp_trace_index_is_past(losses->report->reader))
		return false;
	return reported_ns >= range->from_ns && after_ns < range->to_ns;
}

static void add_row(struct loss_report *losses, const struct rp_reader_event *event)
{
	struct rp_rows *out = &losses->out;
	struct rp_loss_event loss;
	char text[RP_TEXT_MAX];
	int64_t after_ns;

	if (!rp_report_takes(losses->report, event, event->process) ||
	    !rp_loss_event_read(event, &loss))
		return;
	after_ns = loss.is_of_machine ? 0 : losses->point_ns;
	if (!overlaps_range(losses, after_ns, event->time_ns, loss.is_of_machine))
		return;
	rp_rows_addf(out, json_object_new_int64(after_ns), "%.6f s", (double)after_ns / 1e9);
	rp_rows_addf(out, json_object_new_int64(event->time_ns), "%.6f s",
		     (double)event->time_ns / 1e9);
	rp_rows_add_u64(out, event->process);
	if (loss.ring == RP_LOSS_NO_RING)
		rp_rows_add(out, NULL, NULL);
	else
		rp_rows_add_u64(out, loss.ring);
	rp_rows_add_string(out, loss.reason);
	rp_rows_add(out, json_object_new_uint64(loss.lost), rp_text_count(loss.lost, text));
	rp_rows_add(out, NULL, NULL);
	rp_rows_add(out, NULL, NULL);
	losses->total += loss.lost;
	losses->rows++;
}

/* Add a row for each damaged part, of which text shows sentences instead. */
static void add_damage(struct loss_report *losses)
{
	struct rp_reader_damage damage = RP_READER_DAMAGE_INIT;
	struct rp_rows *out = &losses->out;

	for (uint64_t i = 0; rp_reader_get_damage(losses->report->reader, i, &damage) == 0; i++) {
		for (int column = 0; column < 4; column++)
			rp_rows_add(out, NULL, NULL);
		rp_rows_add_string(out, damage.reason);
		rp_rows_add(out, NULL, NULL);
		rp_rows_add_u64(out, damage.offset);
		rp_rows_add_u64(out, damage.bytes);
	}
}

static void print_damage(const struct loss_report *losses)
{
	struct rp_reader_damage damage = RP_READER_DAMAGE_INIT;
	char text[RP_TEXT_MAX];
	uint64_t i;

	for (i = 0; rp_reader_get_damage(losses->report->reader, i, &damage) == 0; i++)
		printf("At offset %" PRIu64 ", %s damaged: %s.\n", damage.offset,
		       rp_text_counted(damage.bytes, "byte", text), damage.reason);
	if (losses->stats.damaged_ranges > i)
		printf("%s damaged.\n",
		       rp_text_counted(losses->stats.damaged_ranges - i, "more part", text));
	if (i)
		printf("The damage lost %s.\n",
		       rp_text_counted(losses->stats.lost_to_damage, "event", text));
}

/* Note where the sequence points are, by the number that the reader has passed. */
static void follow_points(struct loss_report *losses)
{
	const uint64_t points = losses->stats.sequence_points;

	rp_reader_get_stats(losses->report->reader, &losses->stats);
	if (losses->stats.sequence_points != points)
		losses->point_ns = losses->previous_ns;
}

static int read_losses(struct loss_report *losses)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret;

	while ((ret = rp_reader_next(losses->report->reader, &event)) == 1) {
		ret = rp_processes_follow_id(&losses->processes, &event, &event.process);
		if (ret)
			return ret;
		follow_points(losses);
		if (rp_time_range_has(&losses->report->range, event.time_ns))
			losses->gaps += losses->report->reader->lost_before;
		if (rp_loss_event_is(event.type))
			add_row(losses, &event);
		losses->previous_ns = event.time_ns;
	}
	return ret;
}

/*
 * The numbers of the events show losses, too; in a complete trace, both sums are equal. They state
 * nothing about the losses that fulfil an expression.
 */
static void print_total(const struct loss_report *losses)
{
	char total[RP_TEXT_MAX], count[RP_TEXT_MAX];
	const bool is_selection = losses->report->where != NULL;

	if (losses->rows == 0 && is_selection)
		puts("No loss fulfils the expression.");
	else if (losses->rows == 0 && losses->stats.lost == 0 && losses->stats.damaged_ranges == 0)
		puts("Nothing is lost.");
	else if (losses->rows)
		printf("\nIn all, %s lost.\n", rp_text_counted(losses->total, "event", total));
	if (!is_selection && losses->stats.lost > losses->total)
		printf("Gaps in the numbers of the events show %s; the trace has no reason for "
		       "%s of them.\n", rp_text_counted(losses->stats.lost, "lost event", count),
		       rp_text_count(losses->stats.lost - losses->total, total));
	print_damage(losses);
}

int rp_report_losses(const struct rp_report *report)
{
	static const struct rp_column columns[] = {
		{ "after_ns", "AFTER", 0, true, false },
		{ "reported_ns", "REPORTED", 0, true, false },
		{ "process_id", "PROCESS", 0, true, false }, { "ring", "RING", 0, true, false },
		{ "reason", "REASON", 0, false, false }, { "lost", "LOST", 0, true, false },
		{ "damage_offset", NULL, 0, true, true }, { "damaged_bytes", NULL, 0, true, true },
	};
	struct loss_report losses = { .report = report, .stats.size = sizeof(losses.stats) };
	int ret, status = RP_EXIT_OK;

	rp_rows_init(&losses.out, report->options->format, columns,
		     sizeof(columns) / sizeof(columns[0]));
	ret = read_losses(&losses);
	rp_reader_get_stats(report->reader, &losses.stats);
	/* The stats also have the losses that the last sequence point shows. */
	if (!rp_time_range_is_all(&report->range))
		losses.stats.lost = losses.gaps;
	if (report->options->format != RP_FORMAT_TEXT)
		add_damage(&losses);
	if (losses.rows || report->options->format != RP_FORMAT_TEXT)
		status = rp_rows_print(&losses.out);
	if (report->options->format == RP_FORMAT_TEXT)
		print_total(&losses);
	rp_rows_fini(&losses.out);
	rp_processes_fini(&losses.processes);
	return ret < 0 ? rp_report_end(report, ret) : status;
}
