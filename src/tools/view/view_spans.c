/* SPDX-License-Identifier: MIT */
/* The answers `spans` and `instances`. A range has the spans that start in it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "tools/formats/json_out.h"
#include "tools/view/view_answers.h"

#define SLOWEST 10u
#define INSTANCES_MAX 10000u

/* Return: the first of the spans that starts at `from_ns` or later. */
static size_t find_first_span(const struct rp_view_trace *trace, int64_t from_ns)
{
	return RP_PARTITION_POINT(i, trace->span_count, trace->all_spans[i].start_ns < from_ns);
}

/* Names are numbered by their first spans, which differ between an excerpt and the whole trace. */
static uint32_t hash_name(const struct rp_span_name *name)
{
	return (uint32_t)rp_hash_text(rp_hash_text(RP_HASH_BEGIN, name->provider), name->name);
}

void rp_view_put_key(struct rp_format_out *out, const struct rp_view_trace *trace,
		     const struct rp_view_span *span)
{
	char key[72];

	snprintf(key, sizeof(key), "%" PRId64 "-%" PRIu64 "-%" PRIu32 "-%" PRIu64, span->start_ns,
		 span->tid, hash_name(trace->spans.names[span->name]), span->duration_ns);
	rp_json_out_text(out, key);
}

struct span_key {
	int64_t start_ns;
	uint64_t tid, duration_ns;
	uint32_t name;
};

static bool parse_key(const char *text, struct span_key *ret_key)
{
	char end;

	return sscanf(text, "%" SCNd64 "-%" SCNu64 "-%" SCNu32 "-%" SCNu64 "%c",
		      &ret_key->start_ns, &ret_key->tid, &ret_key->name, &ret_key->duration_ns,
		      &end) == 4;
}

bool rp_view_key_range(const char *key, int64_t *ret_from_ns, int64_t *ret_to_ns)
{
	struct span_key parsed;

	if (!parse_key(key, &parsed))
		return false;
	*ret_from_ns = parsed.start_ns;
	if (parsed.duration_ns >= RP_VIEW_TIME_MAX ||
	    __builtin_add_overflow(parsed.start_ns, (int64_t)parsed.duration_ns + 1, ret_to_ns))
		return false;
	return true;
}

const struct rp_view_span *rp_view_find_span(const struct rp_view_trace *trace, const char *key)
{
	struct span_key wanted;

	if (!parse_key(key, &wanted))
		return NULL;
	for (size_t i = find_first_span(trace, wanted.start_ns);
	     i < trace->span_count && trace->all_spans[i].start_ns == wanted.start_ns; i++) {
		const struct rp_view_span *span = &trace->all_spans[i];

		if (span->tid == wanted.tid && span->duration_ns == wanted.duration_ns &&
		    hash_name(trace->spans.names[span->name]) == wanted.name)
			return span;
	}
	return NULL;
}

static bool is_zero(const void *bytes, size_t size)
{
	static const uint8_t none[16];

	return memcmp(bytes, none, size) == 0;
}

void rp_view_put_instance(struct rp_format_out *out, const struct rp_view_trace *trace,
			  const struct rp_view_span *span)
{
	const struct rp_span_name *name = trace->spans.names[span->name];

	rp_out_text(out, "{\"key\":");
	rp_view_put_key(out, trace, span);
	rp_out_text(out, ",\"provider\":");
	rp_view_text(out, name->provider);
	rp_out_text(out, ",\"name\":");
	rp_view_text(out, name->name);
	rp_out_text(out, ",\"start_ns\":");
	rp_json_out_i64(out, span->start_ns);
	rp_out_text(out, ",\"duration_ns\":");
	rp_json_out_u64(out, span->duration_ns);
	rp_out_text(out, ",\"pid\":");
	rp_json_out_u64(out, span->process);
	rp_out_text(out, ",\"tid\":");
	rp_json_out_u64(out, span->tid);
	rp_out_text(out, ",\"trace_id\":");
	if (is_zero(span->trace_id, sizeof(span->trace_id))) {
		rp_out_text(out, "null");
	} else {
		rp_out_char(out, '"');
		rp_out_hex(out, span->trace_id, sizeof(span->trace_id));
		rp_out_char(out, '"');
	}
	rp_out_text(out, ",\"activity\":");
	if (is_zero(&span->activity, sizeof(span->activity)))
		rp_out_text(out, "null");
	else
		rp_json_out_guid(out, &span->activity);
	rp_out_text(out, span->has_error ? ",\"error\":true}" : ",\"error\":false}");
}

/* The slower first, and of two equal ones the earlier, as in struct rp_slowest_spans. */
static bool is_slower(const struct rp_view_span *a, const struct rp_view_span *b)
{
	return a->duration_ns != b->duration_ns ? a->duration_ns > b->duration_ns : a < b;
}

static int compare_slow(const void *left, const void *right)
{
	const struct rp_view_span *a = *(const struct rp_view_span *const *)left;
	const struct rp_view_span *b = *(const struct rp_view_span *const *)right;

	return is_slower(a, b) ? -1 : is_slower(b, a);
}

struct slow_spans {
	const struct rp_view_span *spans[SLOWEST];
	size_t count;
};

static void keep_if_slow(struct slow_spans *slow, const struct rp_view_span *span)
{
	size_t at;

	if (slow->count == SLOWEST && !is_slower(span, slow->spans[SLOWEST - 1]))
		return;
	at = slow->count < SLOWEST ? slow->count++ : SLOWEST - 1;
	for (; at > 0 && is_slower(span, slow->spans[at - 1]); at--)
		slow->spans[at] = slow->spans[at - 1];
	slow->spans[at] = span;
}

/* Count the spans of the range. `slow` has an item for each name. */
static int count_spans(const struct rp_view_question *question, struct rp_span_table *table,
		       struct slow_spans *slow)
{
	const struct rp_view_trace *trace = question->trace;
	int ret = 0;

	for (size_t i = question->is_whole ? 0 : find_first_span(trace, question->from);
	     ret == 0 && i < trace->span_count; i++) {
		const struct rp_view_span *span = &trace->all_spans[i];

		if (!question->is_whole && span->start_ns >= question->to)
			break;
		keep_if_slow(&slow[span->name], span);
		if (!question->is_whole)
			ret = rp_span_table_add(table, trace->spans.names[span->name],
						span->duration_ns, span->has_error);
	}
	rp_span_table_sort(table);
	return ret;
}

static void put_bar(struct rp_format_out *out, bool *is_first, uint64_t low, uint64_t high,
		    uint64_t count)
{
	if (!count)
		return;
	rp_view_comma(out, is_first);
	rp_out_char(out, '[');
	rp_json_out_u64(out, low);
	rp_out_char(out, ',');
	rp_json_out_u64(out, high);
	rp_out_char(out, ',');
	rp_json_out_u64(out, count);
	rp_out_char(out, ']');
}

static void put_histogram(struct rp_format_out *out, const struct rp_latency_histogram *latency)
{
	struct rp_latency_bar bars[RP_LATENCY_BARS];
	const size_t count = rp_latency_bars(latency, bars);
	bool is_first = true;

	for (size_t i = 0; i < count; i++)
		put_bar(out, &is_first, bars[i].low_ns, bars[i].high_ns, bars[i].count);
}

static void put_row(struct rp_format_out *out, const struct rp_view_question *question,
		    const struct rp_span_row *row, const struct slow_spans *slow)
{
	static const struct {
		const char *key;
		double share;
	} percentiles[] = {
		{ "p50_ns", 0.5 }, { "p90_ns", 0.9 }, { "p99_ns", 0.99 }, { "p99_9_ns", 0.999 },
		{ "p99_99_ns", 0.9999 },
	};
	/* The rate of the whole trace is that of `ringpipe report`: from its first event on. */
	const struct rp_view_trace *trace = question->trace;
	const uint64_t period = question->is_whole ?
				(uint64_t)trace->last_ns - (uint64_t)trace->first_ns :
				(uint64_t)(question->to - question->from);
	const double scale = trace->is_excerpt && trace->read_events ?
			     (double)trace->range_events / (double)trace->read_events : 1;
	bool is_first = false;

	rp_out_text(out, "{\"provider\":");
	rp_view_text(out, row->name->provider);
	rp_out_text(out, ",\"name\":");
	rp_view_text(out, row->name->name);
	rp_view_key(out, &is_first, "count");
	rp_json_out_u64(out, row->latency.count);
	rp_view_key(out, &is_first, "rate");
	if (period)
		rp_json_out_double(out, (double)row->latency.count * scale * 1e9 / (double)period,
				   false);
	else
		rp_out_text(out, "null");
	rp_view_key(out, &is_first, "errors");
	rp_json_out_u64(out, row->errors);
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
		rp_view_key(out, &is_first, percentiles[i].key);
		rp_json_out_u64(out, rp_latency_percentile(&row->latency, percentiles[i].share));
	}
	rp_view_key(out, &is_first, "max_ns");
	rp_json_out_u64(out, row->latency.max_ns);
	rp_view_key(out, &is_first, "total_ns");
	rp_json_out_u64(out, row->latency.total_ns);
	rp_view_key(out, &is_first, "histogram");
	rp_out_char(out, '[');
	put_histogram(out, &row->latency);
	rp_out_text(out, "],\"slowest\":[");
	for (size_t i = 0; i < slow->count; i++) {
		if (i)
			rp_out_char(out, ',');
		rp_view_put_instance(out, trace, slow->spans[i]);
	}
	rp_out_text(out, "]}");
}

enum rp_view_status rp_view_answer_spans(const struct rp_view_question *question,
					 struct rp_format_out *out)
{
	const struct rp_view_trace *trace = question->trace;
	struct slow_spans *slow = calloc(trace->spans.name_count + 1, sizeof(*slow));
	struct rp_span_table part = { 0 };
	const struct rp_span_table *table = question->is_whole ? &trace->table : &part;
	bool is_first = true;

	if (!slow || count_spans(question, &part, slow) < 0) {
		rp_span_table_fini(&part);
		free(slow);
		return rp_view_refuse(out, RP_VIEW_FAILED, "There is no memory.");
	}
	rp_out_text(out, "{\"spans\":[");
	for (size_t i = 0; i < table->count && table->rows[i].name; i++) {
		if (!table->rows[i].latency.count)
			continue;
		rp_view_comma(out, &is_first);
		put_row(out, question, &table->rows[i], &slow[table->rows[i].name->index]);
	}
	rp_out_text(out, "]}");
	rp_span_table_fini(&part);
	free(slow);
	return RP_VIEW_OK;
}

static bool is_wanted(const struct rp_view_question *question, const struct rp_view_span *span)
{
	const struct rp_view_query *query = question->query;
	const struct rp_span_name *name = question->trace->spans.names[span->name];

	return (!query->name || !strcmp(query->name, name->name)) &&
	       (!query->provider || !strcmp(query->provider, name->provider)) &&
	       (!query->has_pid || query->pid == span->process) &&
	       (!query->has_tid || query->tid == span->tid) &&
	       span->duration_ns >= query->min_ns && span->duration_ns <= query->max_ns;
}

enum rp_view_status rp_view_answer_instances(const struct rp_view_question *question,
					     struct rp_format_out *out)
{
	const struct rp_view_trace *trace = question->trace;
	const uint32_t limit = question->query->limit < INSTANCES_MAX ? question->query->limit :
			       INSTANCES_MAX;
	const struct rp_view_span **found = calloc(trace->span_count + 1, sizeof(*found));
	size_t count = 0;

	if (!found)
		return rp_view_refuse(out, RP_VIEW_FAILED, "There is no memory.");
	for (size_t i = question->is_whole ? 0 : find_first_span(trace, question->from);
	     i < trace->span_count; i++) {
		if (!question->is_whole && trace->all_spans[i].start_ns >= question->to)
			break;
		if (is_wanted(question, &trace->all_spans[i]))
			found[count++] = &trace->all_spans[i];
	}
	qsort(found, count, sizeof(*found), compare_slow);
	rp_out_text(out, "{\"instances\":[");
	for (size_t i = 0; i < count && i < limit; i++) {
		if (i)
			rp_out_char(out, ',');
		rp_view_put_instance(out, trace, found[i]);
	}
	rp_out_text(out, "],\"total\":");
	rp_json_out_u64(out, count);
	rp_out_char(out, '}');
	free(found);
	return RP_VIEW_OK;
}
