/* SPDX-License-Identifier: MIT */
/* Writes the tables of a profile for the Firefox profiler. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/formats/firefox_rows.h"
#include "tools/formats/json_out.h"

#define PROFILE_VERSION "70"		/* of the processed format */
#define GECKO_VERSION "36"
#define NAME_BYTES 512u
#define END_NS 1000			/* from the last event to the end of the profile */

/* Write ,"KEY":[VALUE,VALUE,…] for a column in which all rows have the same value. */
static void put_constant(struct rp_format_out *out, const char *key, const char *value,
			 size_t count)
{
	rp_out_text(out, ",\"");
	rp_out_text(out, key);
	rp_out_text(out, "\":[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			rp_out_char(out, ',');
		rp_out_text(out, value);
	}
	rp_out_char(out, ']');
}

/* Begin a row of a column: ,"KEY":[ before the first one, and a comma before the others. */
static void begin_cell(struct rp_format_out *out, const char *key, size_t row)
{
	if (row) {
		rp_out_char(out, ',');
		return;
	}
	rp_out_text(out, ",\"");
	rp_out_text(out, key);
	rp_out_text(out, "\":[");
}

/* End a column of `rows` rows. */
static void end_column(struct rp_format_out *out, const char *key, size_t rows)
{
	if (!rows)
		begin_cell(out, key, 0);
	rp_out_char(out, ']');
}

static void put_length(struct rp_format_out *out, size_t length)
{
	rp_out_text(out, "{\"length\":");
	rp_out_u64(out, length);
}

static const char *format_of(const struct rp_reader_field *field)
{
	switch (field->type) {
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_U8:
	case RP_TYPE_U16:
	case RP_TYPE_U32:
		return "integer";
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		return "decimal";
	default:
		return "string";
	}
}

static void put_schema_field(struct rp_format_out *out, const char *prefix, const char *name,
			     const char *format)
{
	char key[256];

	snprintf(key, sizeof(key), "%s%s", prefix, name);
	rp_out_text(out, "{\"key\":");
	rp_json_out_text(out, key);
	rp_out_text(out, ",\"label\":");
	rp_json_out_text(out, name);
	rp_out_text(out, ",\"format\":\"");
	rp_out_text(out, format);
	rp_out_text(out, "\"},");
}

static void put_schema_fields(struct rp_format_out *out, const struct rp_reader_type *type,
			      const char *prefix)
{
	for (uint32_t i = 0; type && i < type->field_count; i++)
		put_schema_field(out, prefix, type->fields[i].name, format_of(&type->fields[i]));
	if (type && !type->field_count)
		put_schema_field(out, prefix, "…payload", "string");
}

static void put_schema(struct rp_format_out *out, const struct rp_firefox_schema *schema)
{
	rp_out_text(out, "{\"name\":");
	rp_json_out_text(out, schema->name);
	rp_out_text(out, ",\"tooltipLabel\":\"{marker.name}\",\"chartLabel\":\"{marker.name}\","
			 "\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
			 "\"isStackBased\":");
	rp_out_text(out, schema->has_async ? "false" : "true");
	rp_out_text(out, ",\"fields\":[");
	put_schema_fields(out, schema->type, "field.");
	put_schema_fields(out, schema->stop, "stop.");
	rp_out_text(out, "{\"key\":\"error\",\"format\":\"string\"},"
			 "{\"key\":\"never_stopped\",\"format\":\"string\"},"
			 "{\"key\":\"truncated\",\"format\":\"string\"},"
			 "{\"key\":\"trace_id\",\"format\":\"string\"},"
			 "{\"key\":\"activity\",\"format\":\"flow-id\"},"
			 "{\"key\":\"parent\",\"format\":\"flow-id\"}]}");
}

static void extend_range(int64_t *first, int64_t *last, int64_t start_ns, int64_t stop_ns)
{
	if (start_ns < *first)
		*first = start_ns;
	if (stop_ns > *last)
		*last = stop_ns;
}

/*
 * Write the range of time. Without it, the profiler takes the range of the samples, and omits the
 * markers of the same threads before and after them.
 */
static void put_range(const struct rp_firefox *firefox)
{
	int64_t first, last;

	(void)rp_stack_samples_range(firefox->samples, &first, &last);
	for (size_t i = 0; i < firefox->marker_count; i++)
		extend_range(&first, &last, firefox->markers[i].start_ns,
			     firefox->markers[i].stop_ns);
	for (size_t i = 0; i < firefox->value_count; i++)
		extend_range(&first, &last, firefox->values[i].time_ns,
			     firefox->values[i].time_ns);
	if (first > last)
		first = last = 0;
	rp_out_text(firefox->out, ",\"profilingStartTime\":");
	rp_out_ms(firefox->out, first);
	rp_out_text(firefox->out, ",\"profilingEndTime\":");
	/* A range is not empty, and the profiler ignores an end at 0. */
	rp_out_ms(firefox->out, last > INT64_MAX - END_NS ? last : last + END_NS);
}

static void put_meta(const struct rp_firefox *firefox)
{
	struct rp_format_out *out = firefox->out;
	bool is_next = false;

	rp_out_text(out, "{\"meta\":{\"version\":" GECKO_VERSION
			 ",\"preprocessedProfileVersion\":" PROFILE_VERSION
			 ",\"interval\":1,\"processType\":0,\"stackwalk\":1,"
			 "\"product\":\"ringpipe\",\"importedFrom\":\"ringpipe\","
			 "\"symbolicated\":true,\"usesOnlyOneStackType\":true,"
			 "\"sourceCodeIsNotOnSearchfox\":true,\"startTime\":");
	rp_out_ms(out, firefox->samples->info.start_utc_ns);
	put_range(firefox);
	rp_out_text(out, ",\"categories\":["
			 "{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
			 "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
			 "{\"name\":\"Events\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
			 "{\"name\":\"Spans\",\"color\":\"green\",\"subcategories\":[\"Other\"]}],"
			 "\n\"markerSchema\":[");
	for (size_t i = 0; i < firefox->schema_count; i++) {
		if (firefox->schemas[i]->shown.is_omitted)
			continue;
		rp_out_text(out, is_next ? ",\n" : "\n");
		put_schema(out, firefox->schemas[i]);
		is_next = true;
	}
	rp_out_text(out, "],\"extra\":[{\"label\":\"ringpipe\",\"entries\":[{\"label\":"
			 "\"Omitted markers and values\",\"format\":\"integer\",\"value\":");
	rp_out_u64(out, firefox->omitted);
	rp_out_text(out, "}]}]},\"libs\":[]");
}

static int compare_times(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_markers(const void *left, const void *right)
{
	const struct rp_firefox_marker *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return compare_times(a->start_ns, b->start_ns);
	return a->sequence < b->sequence ? -1 : 1;
}

static void put_markers(const struct rp_firefox *firefox, size_t first, size_t end)
{
	/* Without any marker, the array is NULL. */
	const struct rp_firefox_marker *rows = first < end ? &firefox->markers[first] : NULL;
	struct rp_format_out *out = firefox->out;
	const size_t count = end - first;

	put_length(out, count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "name", i);
		rp_out_u64(out, rows[i].name);
	}
	end_column(out, "name", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "startTime", i);
		rp_out_ms(out, rows[i].start_ns);
	}
	end_column(out, "startTime", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "endTime", i);
		if (rows[i].is_interval)
			rp_out_ms(out, rows[i].stop_ns);
		else
			rp_out_text(out, "null");
	}
	end_column(out, "endTime", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "phase", i);
		rp_out_char(out, rows[i].is_interval ? '1' : '0');
	}
	end_column(out, "phase", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "category", i);
		rp_out_u64(out, rows[i].category);
	}
	end_column(out, "category", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "data", i);
		rp_out_bytes(out, rows[i].data, rows[i].data_bytes);
	}
	end_column(out, "data", count);
	rp_out_char(out, '}');
}

/* A sample with the thread whose row it is. */
struct sample_row {
	int64_t time_ns;
	uint32_t thread, node, sequence;
};

static int compare_samples(const void *left, const void *right)
{
	const struct sample_row *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->time_ns != b->time_ns)
		return compare_times(a->time_ns, b->time_ns);
	return a->sequence < b->sequence ? -1 : 1;
}

static void put_samples(struct rp_format_out *out, const struct sample_row *rows, size_t count)
{
	put_length(out, count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "stack", i);
		if (rows[i].node == RP_CALL_NONE)
			rp_out_text(out, "null");
		else
			rp_out_u64(out, rows[i].node);
	}
	end_column(out, "stack", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "time", i);
		rp_out_ms(out, rows[i].time_ns);
	}
	end_column(out, "time", count);
	rp_out_text(out, ",\"weight\":null,\"weightType\":\"samples\"}");
}

static void put_thread(struct rp_format_out *out, const struct rp_thread_track *track)
{
	const char *process = track->owner->name ? track->owner->name : "process";
	char name[32];

	snprintf(name, sizeof(name), "thread %llu", (unsigned long long)track->thread);
	rp_out_text(out, "\n{\"processType\":\"default\",\"processStartupTime\":0,"
			 "\"processShutdownTime\":null,\"registerTime\":0,"
			 "\"unregisterTime\":null,\"pausedRanges\":[],"
			 "\"showMarkersInTimeline\":true,\"name\":");
	rp_json_out_text(out, track->name ? track->name : name);
	rp_out_text(out, ",\"isMainThread\":");
	rp_out_text(out, track->thread == track->process ? "true" : "false");
	rp_out_text(out, ",\"processName\":");
	rp_json_out_text(out, process);
	rp_out_text(out, ",\"pid\":\"");
	rp_out_u64(out, track->process);
	rp_out_text(out, "\",\"tid\":");
	rp_json_out_u64(out, track->thread);
}

static struct sample_row *make_samples(const struct rp_firefox *firefox)
{
	const struct rp_stack_samples *samples = firefox->samples;
	struct sample_row *rows = calloc(samples->count + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < samples->count; i++)
		rows[i] = (struct sample_row){
			.time_ns = samples->rows[i].time_ns,
			.thread = firefox->sample_threads[i],
			.node = samples->rows[i].node, .sequence = (uint32_t)i,
		};
	if (rows)
		qsort(rows, samples->count, sizeof(*rows), compare_samples);
	return rows;
}

static int put_threads(struct rp_firefox *firefox)
{
	struct sample_row *rows = make_samples(firefox);
	struct rp_format_out *out = firefox->out;
	size_t marker = 0, sample = 0;

	if (!rows)
		return -ENOMEM;
	if (firefox->marker_count)
		qsort(firefox->markers, firefox->marker_count, sizeof(*firefox->markers),
		      compare_markers);
	rp_out_text(out, ",\"threads\":[");
	for (size_t i = 0; i < firefox->thread_count; i++) {
		const size_t first_marker = marker, first_sample = sample;

		while (marker < firefox->marker_count && firefox->markers[marker].thread == i)
			marker++;
		while (sample < firefox->samples->count && rows[sample].thread == i)
			sample++;
		if (i)
			rp_out_char(out, ',');
		put_thread(out, firefox->threads[i]);
		rp_out_text(out, ",\n\"samples\":");
		put_samples(out, rows + first_sample, sample - first_sample);
		rp_out_text(out, ",\n\"markers\":");
		put_markers(firefox, first_marker, marker);
		rp_out_char(out, '}');
	}
	rp_out_char(out, ']');
	free(rows);
	return 0;
}

static int compare_values(const void *left, const void *right)
{
	const struct rp_firefox_value *a = left, *b = right;

	if (a->counter != b->counter)
		return a->counter < b->counter ? -1 : 1;
	if (a->time_ns != b->time_ns)
		return compare_times(a->time_ns, b->time_ns);
	return a->sequence < b->sequence ? -1 : 1;
}

/* The profiler adds the counts of a value up, so each count is the difference to the previous. */
static void put_counter(struct rp_format_out *out, const struct rp_firefox_counter *counter,
			const struct rp_firefox_value *rows, size_t count)
{
	const char *source = counter->is_rate ? "count" : "accumulated";

	rp_out_text(out, "\n{\"name\":");
	rp_json_out_text(out, counter->name);
	rp_out_text(out, ",\"category\":");
	rp_json_out_text(out, counter->provider);
	rp_out_text(out, ",\"description\":\"\",\"pid\":\"");
	rp_out_u64(out, counter->process);
	rp_out_text(out, "\",\"mainThreadIndex\":");
	rp_out_u64(out, counter->thread);
	rp_out_text(out, ",\"display\":{\"graphType\":\"");
	rp_out_text(out, counter->is_rate ? "line-rate" : "line-accumulated");
	rp_out_text(out, "\",\"unit\":");
	rp_json_out_text(out, counter->unit);
	rp_out_text(out, ",\"color\":\"blue\",\"markerSchemaLocation\":null,\"sortWeight\":10,"
			 "\"label\":");
	rp_json_out_text(out, counter->name);
	rp_out_text(out, ",\"tooltipRows\":[{\"type\":\"value\",\"format\":{\"unit\":\"number\"},"
			 "\"source\":\"");
	rp_out_text(out, source);
	rp_out_text(out, "\",\"label\":");
	rp_json_out_text(out, counter->name);
	rp_out_text(out, "}]},\"samples\":");
	put_length(out, count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "time", i);
		rp_out_ms(out, rows[i].time_ns);
	}
	end_column(out, "time", count);
	for (size_t i = 0; i < count; i++) {
		const double base = counter->is_rate || !i ? 0 : rows[i - 1].value;

		/* JSON has no infinity, which the difference of two large values could be. */
		begin_cell(out, "count", i);
		rp_json_out_double(out, fmax(-DBL_MAX, fmin(rows[i].value - base, DBL_MAX)),
				   false);
	}
	end_column(out, "count", count);
	rp_out_text(out, "}}");
}

static void put_counters(struct rp_firefox *firefox)
{
	struct rp_format_out *out = firefox->out;
	size_t first = 0;

	if (firefox->value_count)
		qsort(firefox->values, firefox->value_count, sizeof(*firefox->values),
		      compare_values);
	rp_out_text(out, ",\n\"counters\":[");
	for (size_t i = 1; i <= firefox->value_count; i++) {
		const uint32_t counter = firefox->values[first].counter;

		if (i < firefox->value_count && firefox->values[i].counter == counter)
			continue;
		if (first)
			rp_out_char(out, ',');
		put_counter(out, &firefox->counters[counter], firefox->values + first, i - first);
		first = i;
	}
	rp_out_char(out, ']');
}

static void put_stacks(struct rp_format_out *out, const struct rp_call_tree *tree)
{
	const size_t count = tree->node_count;

	rp_out_text(out, ",\n\"shared\":{\"stackTable\":");
	put_length(out, count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "frame", i);
		rp_out_u64(out, tree->nodes[i].function);
	}
	end_column(out, "frame", count);
	for (size_t i = 0; i < count; i++) {
		const uint32_t parent = tree->nodes[i].parent;

		begin_cell(out, "prefixOffset", i);
		rp_out_u64(out, parent == RP_CALL_NONE ? 0 : i - parent);
	}
	end_column(out, "prefixOffset", count);
	rp_out_char(out, '}');
}

static void put_frames(struct rp_format_out *out, const struct rp_call_tree *tree)
{
	const size_t count = tree->function_count;

	rp_out_text(out, ",\n\"frameTable\":");
	put_length(out, count);
	put_constant(out, "address", "-1", count);
	put_constant(out, "lib", "-1", count);
	put_constant(out, "inlineDepth", "0", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "category", i);
		rp_out_u64(out, rp_profile_is_kernel(&tree->functions[i]) ? RP_FIREFOX_KERNEL :
									    RP_FIREFOX_OTHER);
	}
	end_column(out, "category", count);
	put_constant(out, "subcategory", "0", count);
	for (size_t i = 0; i < count; i++) {
		begin_cell(out, "func", i);
		rp_out_u64(out, i);
	}
	end_column(out, "func", count);
	put_constant(out, "nativeSymbol", "null", count);
	put_constant(out, "innerWindowID", "0", count);
	put_constant(out, "line", "null", count);
	put_constant(out, "column", "null", count);
	put_constant(out, "originalLocation", "null", count);
	rp_out_char(out, '}');
}

/* Write the functions, and the files that have them as resources. Return: 0; -ENOMEM. */
static int put_functions(struct rp_firefox *firefox)
{
	const struct rp_call_tree *tree = &firefox->samples->profile.tree;
	const size_t count = tree->function_count;
	struct rp_format_out *out = firefox->out;
	struct rp_string_table files = { 0 };
	uint32_t number;
	int ret = 0;

	rp_out_text(out, ",\n\"funcTable\":");
	put_length(out, count);
	for (size_t i = 0; i < count && ret == 0; i++) {
		char name[NAME_BYTES];

		ret = rp_string_table_add(&firefox->strings,
			rp_stack_samples_name(&tree->functions[i], name, sizeof(name)), &number);
		begin_cell(out, "name", i);
		rp_out_u64(out, number);
	}
	end_column(out, "name", count);
	for (size_t i = 0; i < count && ret == 0; i++) {
		begin_cell(out, "resource", i);
		if (tree->functions[i].file) {
			ret = rp_string_table_add(&files, tree->functions[i].file, &number);
			rp_out_u64(out, number);
		} else {
			rp_out_text(out, "-1");
		}
	}
	end_column(out, "resource", count);
	put_constant(out, "isJS", "false", count);
	put_constant(out, "relevantForJS", "false", count);
	put_constant(out, "source", "null", count);
	put_constant(out, "lineNumber", "null", count);
	put_constant(out, "columnNumber", "null", count);
	put_constant(out, "originalLocation", "null", count);
	rp_out_text(out, "},\n\"resourceTable\":");
	put_length(out, files.count);
	for (size_t i = 0; i < files.count && ret == 0; i++) {
		ret = rp_string_table_add(&firefox->strings, files.texts[i], &number);
		begin_cell(out, "name", i);
		rp_out_u64(out, number);
	}
	end_column(out, "name", files.count);
	put_constant(out, "host", "null", files.count);
	put_constant(out, "type", "1", files.count);
	rp_out_char(out, '}');
	rp_string_table_fini(&files);
	return ret;
}

/* The strings come last, after all tables that add some. */
static void put_strings(const struct rp_firefox *firefox)
{
	struct rp_format_out *out = firefox->out;

	rp_out_text(out, ",\n\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],"
			 "\"name\":[],\"functionSize\":[]},"
			 "\n\"sources\":{\"length\":0,\"id\":[],\"filename\":[],\"startLine\":[],"
			 "\"startColumn\":[],\"sourceMapURL\":[],\"content\":[]},"
			 "\n\"sourceLocationTable\":{\"length\":0,\"source\":[],\"line\":[],"
			 "\"column\":[]},\n\"stringArray\":[");
	for (size_t i = 0; i < firefox->strings.count; i++) {
		if (i)
			rp_out_text(out, ",\n");
		rp_json_out_text(out, firefox->strings.texts[i]);
	}
	rp_out_text(out, "]}}\n");
}

int rp_firefox_write(struct rp_firefox *firefox)
{
	const struct rp_call_tree *tree = &firefox->samples->profile.tree;
	int ret;

	put_meta(firefox);
	ret = put_threads(firefox);
	if (ret < 0)
		return ret;
	put_counters(firefox);
	put_stacks(firefox->out, tree);
	put_frames(firefox->out, tree);
	ret = put_functions(firefox);
	if (ret == 0)
		put_strings(firefox);
	return ret;
}
