/* SPDX-License-Identifier: MIT */
/*
 * The files of `dotnet-counters collect`: CSV with Timestamp, Provider, Counter Name, Counter Type
 * and Mean/Increment; JSON with TargetProcess, StartTime and Events. Times are UTC, ISO 8601.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool/counter_views.h"
#include "tool/json.h"
#include "tool/text.h"

#define NS_PER_S 1000000000ll

/* What the process says may be any time: one that is out of bounds is that of the start. */
static void format_time(int64_t start_utc_ns, int64_t time_ns, char *text, size_t room)
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
	snprintf(text, room, "%s.%03dZ", date, (int)(ns / 1000000));
}

/* RFC 4180: in quotes where it has to be, quotes doubled. It may go to a terminal. */
static void put_csv(FILE *stream, const char *text)
{
	char *clean = rp_text_clean(text, true);
	const char *at = clean ? clean : "?";
	bool is_quoted = strpbrk(at, ",\"");

	if (is_quoted)
		putc('"', stream);
	for (; *at; at++) {
		if (*at == '"')
			putc('"', stream);
		putc(*at, stream);
	}
	if (is_quoted)
		putc('"', stream);
	free(clean);
}

static void write_csv(struct rp_counter_writer *writer, const struct rp_counter_sample *sample,
		      const struct rp_counter_quantile *quantile)
{
	char when[64], label[sizeof(sample->name) + sizeof(sample->tags) + 128];

	format_time(writer->start_utc_ns, sample->time_ns, when, sizeof(when));
	rp_counter_label(sample, quantile, label, sizeof(label));
	fprintf(writer->stream, "%s,", when);
	put_csv(writer->stream, sample->provider);
	putc(',', writer->stream);
	put_csv(writer->stream, label);
	fprintf(writer->stream, ",%s,%.17g\n",
		sample->form == RP_COUNTER_RATE ? "Rate" : "Metric",
		quantile ? quantile->value : rp_counter_shown(sample));
}

static void write_json(struct rp_counter_writer *writer, const struct rp_counter_sample *sample,
		       const struct rp_counter_quantile *quantile)
{
	double value = quantile ? quantile->value : rp_counter_shown(sample);
	char when[64], label[sizeof(sample->name) + 128], tags[sizeof(sample->tags) + 64];
	struct json_object *row = json_object_new_object();
	struct rp_counter_sample bare = *sample;

	format_time(writer->start_utc_ns, sample->time_ns, when, sizeof(when));
	*bare.tags = '\0';
	rp_counter_label(&bare, NULL, label, sizeof(label));
	snprintf(tags, sizeof(tags), "%s", sample->tags);
	if (quantile)
		snprintf(tags + strlen(tags), sizeof(tags) - strlen(tags), "%sPercentile=%g",
			 *tags ? "," : "", quantile->at * 100);
	json_object_object_add(row, "timestamp", rp_json_string(when));
	json_object_object_add(row, "provider", rp_json_string(sample->provider));
	json_object_object_add(row, "name", rp_json_string(label));
	json_object_object_add(row, "tags", rp_json_string(tags));
	json_object_object_add(row, "counterType",
			       rp_json_string(sample->form == RP_COUNTER_RATE ? "Rate" :
									       "Metric"));
	json_object_object_add(row, "value",
			       isfinite(value) ? json_object_new_double(value) : NULL);
	fprintf(writer->stream, "%s\n    ", writer->rows ? "," : "");
	rp_json_put(writer->stream, row, JSON_C_TO_STRING_NOSLASHESCAPE);
	json_object_put(row);
}

void rp_counter_writer_begin(struct rp_counter_writer *writer, const struct rp_target *target)
{
	struct json_object *name;
	char when[64];

	if (!writer->is_json) {
		fputs("Timestamp,Provider,Counter Name,Counter Type,Mean/Increment\n",
		      writer->stream);
		return;
	}
	name = rp_json_string(target->name);
	format_time(writer->start_utc_ns, 0, when, sizeof(when));
	fputs("{\n  \"TargetProcess\": ", writer->stream);
	rp_json_put(writer->stream, name, JSON_C_TO_STRING_NOSLASHESCAPE);
	fprintf(writer->stream, ",\n  \"StartTime\": \"%s\",\n  \"Events\": [", when);
	json_object_put(name);
}

void rp_counter_writer_row(struct rp_counter_writer *writer,
			   const struct rp_counter_sample *sample)
{
	void (*write)(struct rp_counter_writer *, const struct rp_counter_sample *,
		      const struct rp_counter_quantile *) =
		writer->is_json ? write_json : write_csv;

	if (sample->form != RP_COUNTER_SPREAD) {
		write(writer, sample, NULL);
		writer->rows++;
	}
	for (uint32_t i = 0; i < sample->quantile_count; i++) {
		write(writer, sample, &sample->quantiles[i]);
		writer->rows++;
	}
	if (writer->error == 0 && fflush(writer->stream) != 0)
		writer->error = -errno;
}

void rp_counter_writer_end(struct rp_counter_writer *writer)
{
	if (writer->is_json)
		fputs("\n  ]\n}\n", writer->stream);
}
