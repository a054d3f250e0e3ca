/* SPDX-License-Identifier: MIT */
/*
 * Writes the files of `dotnet-counters collect`. CSV has Timestamp, Provider, Counter Name, Counter
 * Type and Mean/Increment; JSON has TargetProcess, StartTime and Events. Text has the columns of
 * CSV. Times are UTC, in ISO 8601.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/ringpipe/counter_views.h"
#include "tools/cli/json.h"
#include "tools/cli/display_text.h"

#define NS_PER_S 1000000000ll

/*
 * The traced process supplies the time. If the time is invalid, the start of the recording is used.
 */
static void format_time(int64_t start_utc_ns, int64_t time_ns, char *text, size_t space)
{
	int64_t utc_ns, ns;
	struct tm parts;
	char date[32];
	time_t seconds;

	if (__builtin_add_overflow(start_utc_ns, time_ns, &utc_ns))
		utc_ns = start_utc_ns;
	ns = (utc_ns % NS_PER_S + NS_PER_S) % NS_PER_S;
	seconds = (time_t)(utc_ns / NS_PER_S) - (utc_ns % NS_PER_S < 0);
	gmtime_r(&seconds, &parts);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text, space, "%s.%03dZ", date, (int)(ns / 1000000));
}

/* The columns of text and CSV, named as in dotnet-counters. The label includes the tags. */
static const struct rp_column columns[] = {
	{ .key = "Timestamp", .title = "TIME", .width = 24 },
	{ .key = "Provider", .title = "PROVIDER", .width = 16 },
	{ .key = "Counter Name", .title = "COUNTER", .width = 40 },
	{ .key = "Counter Type", .title = "TYPE", .width = 6 },
	{ .key = "Mean/Increment", .title = "VALUE", .width = 16, .is_right = true },
};

static const struct rp_column json_columns[] = {
	{ .key = "timestamp" }, { .key = "provider" }, { .key = "name" }, { .key = "tags" },
	{ .key = "counterType" }, { .key = "value" },
};

/* Adds the label "name (unit)" and the tags as separate columns. */
static void add_label_and_tags(struct rp_rows *rows, const struct rp_counter_sample *sample,
			       const struct rp_counter_quantile *quantile)
{
	char label[sizeof(sample->name) + 128], tags[sizeof(sample->tags) + 64];
	struct rp_counter_sample bare = *sample;

	*bare.tags = '\0';
	rp_counter_label(&bare, NULL, label, sizeof(label));
	snprintf(tags, sizeof(tags), "%s", sample->tags);
	if (quantile)
		snprintf(tags + strlen(tags), sizeof(tags) - strlen(tags), "%sPercentile=%g",
			 *tags ? "," : "", quantile->at * 100);
	rp_rows_add_string(rows, label);
	rp_rows_add_string(rows, tags);
}

static void write_row(struct rp_counter_writer *writer, const struct rp_counter_sample *sample,
		      const struct rp_counter_quantile *quantile)
{
	const double value = quantile ? quantile->value : rp_counter_shown(sample);
	char when[64], label[sizeof(sample->name) + sizeof(sample->tags) + 128];
	char number[64], shown[RP_TEXT_MAX + 1];
	struct rp_rows *rows = &writer->rows;

	if (writer->format == RP_FORMAT_JSON)
		fputs(writer->row_count ? "   ," : "    ", writer->stream);
	format_time(writer->start_utc_ns, sample->time_ns, when, sizeof(when));
	rp_rows_add_string(rows, when);
	rp_rows_add_string(rows, sample->provider);
	if (writer->format == RP_FORMAT_JSON) {
		add_label_and_tags(rows, sample, quantile);
	} else {
		rp_counter_label(sample, quantile, label, sizeof(label));
		rp_rows_add_string(rows, label);
	}
	rp_rows_add_string(rows, sample->form == RP_COUNTER_RATE ? "Rate" : "Metric");
	snprintf(number, sizeof(number), "%.17g", value);
	rp_rows_add(rows, isfinite(value) ? json_object_new_double_s(value, number) : NULL,
		    rp_counter_format(value, shown));
	writer->row_count++;
}

void rp_counter_writer_begin(struct rp_counter_writer *writer, const struct rp_target *target)
{
	const bool is_json = writer->format == RP_FORMAT_JSON;
	struct json_object *name;
	char when[64];

	if (is_json) {
		name = rp_json_string(target->name);
		format_time(writer->start_utc_ns, 0, when, sizeof(when));
		fputs("{\n  \"TargetProcess\": ", writer->stream);
		rp_json_put(writer->stream, name, JSON_C_TO_STRING_NOSLASHESCAPE);
		fprintf(writer->stream, ",\n  \"StartTime\": \"%s\",\n  \"Events\": [\n", when);
		json_object_put(name);
	}
	rp_rows_init_live(&writer->rows, writer->format, is_json ? json_columns : columns,
			  is_json ? sizeof(json_columns) / sizeof(json_columns[0]) :
				    sizeof(columns) / sizeof(columns[0]), writer->stream);
}

void rp_counter_writer_row(struct rp_counter_writer *writer,
			   const struct rp_counter_sample *sample)
{
	if (sample->form != RP_COUNTER_SPREAD)
		write_row(writer, sample, NULL);
	for (uint32_t i = 0; i < sample->quantile_count; i++)
		write_row(writer, sample, &sample->quantiles[i]);
	if (writer->error == 0 && fflush(writer->stream) != 0)
		writer->error = -errno;
}

void rp_counter_writer_end(struct rp_counter_writer *writer)
{
	if (writer->format == RP_FORMAT_JSON)
		fputs("  ]\n}\n", writer->stream);
	rp_rows_fini(&writer->rows);
}
