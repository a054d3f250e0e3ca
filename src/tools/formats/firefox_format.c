/* SPDX-License-Identifier: MIT */
/*
 * The processed profile format of the Firefox profiler, version 70. Samples have their stacks;
 * spans are interval markers and all other events instant markers, each with its fields. Markers
 * with the same flow id, an activity, belong together across threads and processes.
 *
 * Source: src/types/profile.ts and src/types/markers.ts of github.com/firefox-devtools/profiler.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "tools/cli/tool.h"
#include "tools/formats/firefox_rows.h"
#include "tools/formats/json_out.h"
#include "tools/formats/shown_event.h"
#include "tools/trace/counter_sample.h"

#define BLOCK_BYTES (1u << 20)
/* Types with the same name that are compared; only a hostile trace has more. */
#define COMPARED_MAX 64u

static bool is_zero(const void *bytes, size_t size)
{
	static const uint8_t none[16];

	return memcmp(bytes, none, size) == 0;
}

/* Copy the data of a marker. Return: the copy; NULL: no memory. */
static const char *keep_data(struct rp_firefox *firefox, const struct rp_format_out *data)
{
	char **grown, *copy;

	if (!firefox->block_count || data->used > firefox->block_bytes - firefox->block_used) {
		const size_t bytes = data->used > BLOCK_BYTES ? data->used : BLOCK_BYTES;

		grown = rp_array_reserve(firefox->blocks, firefox->block_count,
					 &firefox->block_capacity, 1, sizeof(*grown));
		if (!grown)
			return NULL;
		firefox->blocks = grown;
		grown[firefox->block_count] = malloc(bytes);
		if (!grown[firefox->block_count])
			return NULL;
		firefox->block_count++;
		firefox->block_bytes = bytes;
		firefox->block_used = 0;
	}
	copy = firefox->blocks[firefox->block_count - 1] + firefox->block_used;
	memcpy(copy, data->buffer, data->used);
	firefox->block_used += data->used;
	firefox->data_bytes += data->used;
	return copy;
}

/* Keep a marker with the data in `firefox->data`. Return: 0; -ENOMEM. */
static int add_marker(struct rp_firefox *firefox, const struct rp_firefox_marker *given,
		      const char *name)
{
	struct rp_firefox_marker marker = *given, *grown;

	if (firefox->data.error)
		return firefox->data.error;
	if (firefox->marker_count >= RP_FIREFOX_ROWS_MAX ||
	    firefox->data.used + firefox->data_bytes + firefox->strings.bytes >
	    RP_FIREFOX_BYTES_MAX) {
		firefox->omitted++;
		return 0;
	}
	if (rp_string_table_add(&firefox->strings, name, &marker.name) < 0)
		return -ENOMEM;
	grown = rp_array_reserve(firefox->markers, firefox->marker_count,
				 &firefox->marker_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	firefox->markers = grown;
	marker.data = keep_data(firefox, &firefox->data);
	if (!marker.data)
		return -ENOMEM;
	marker.data_bytes = (uint32_t)firefox->data.used;
	marker.sequence = (uint32_t)firefox->marker_count;
	grown[firefox->marker_count++] = marker;
	return 0;
}

static bool have_same_fields(const struct rp_reader_type *a, const struct rp_reader_type *b)
{
	if (!a || a->field_count != b->field_count || a->id != b->id)
		return false;
	for (uint32_t i = 0; i < a->field_count; i++) {
		if (a->fields[i].type != b->fields[i].type ||
		    strcmp(a->fields[i].name, b->fields[i].name) != 0)
			return false;
	}
	return true;
}

static struct rp_firefox_schema *add_schema(struct rp_firefox *firefox,
					    const struct rp_reader_type *type, const char *name)
{
	struct rp_firefox_schema **grown = rp_array_reserve(firefox->schemas,
		firefox->schema_count, &firefox->schema_capacity, 1,
		sizeof(struct rp_firefox_schema *));
	struct rp_firefox_schema *made;

	if (!grown)
		return NULL;
	firefox->schemas = grown;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	made->name = strdup(name);
	if (!made->name) {
		free(made);
		return NULL;
	}
	made->type = type;
	made->number = firefox->schema_count;
	grown[firefox->schema_count++] = made;
	return made;
}

/* Return: the schema of the type's markers; NULL: no memory. */
static struct rp_shown_type *make_event_schema(void *data, struct rp_reader_type *type,
					       const char *event)
{
	struct rp_firefox *firefox = data;
	struct rp_firefox_schema *made;
	unsigned int compared = 0;
	char *name;

	/* A trace of several processes describes the same events several times. */
	for (size_t i = firefox->schema_count; i > 0 && compared < COMPARED_MAX; i--, compared++) {
		made = firefox->schemas[i - 1];
		if (made->type && !strcmp(made->type->provider, type->provider) &&
		    !strcmp(made->type->name, type->name) && have_same_fields(made->type, type))
			return &made->shown;
	}
	if (asprintf(&name, "%s/%s #%zu", type->provider, event, firefox->schema_count) < 0)
		return NULL;
	made = add_schema(firefox, type, name);
	free(name);
	return made ? &made->shown : NULL;
}

static struct rp_firefox_schema *schema_of(struct rp_firefox *firefox, struct rp_reader_type *type)
{
	return (struct rp_firefox_schema *)rp_shown_type_of(type, make_event_schema, firefox);
}

static void put_integer_text(struct rp_format_out *out, const struct rp_value *value)
{
	rp_out_char(out, '"');
	if (value->type == RP_TYPE_I64)
		rp_out_i64(out, value->i64);
	else
		rp_out_u64(out, value->u64);
	rp_out_char(out, '"');
}

/* The value is a number or a text, because the profiler's columns have only those. */
static void put_field_value(struct rp_firefox *firefox, struct rp_format_out *out,
			    struct rp_value *value)
{
	switch (value->type) {
	case RP_TYPE_BOOL:
		rp_out_text(out, value->u64 ? "\"true\"" : "\"false\"");
		break;
	case RP_TYPE_I64:
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		put_integer_text(out, value);
		break;
	case RP_TYPE_STRUCT:
	case RP_TYPE_ARRAY:
		firefox->text.used = 0;
		rp_json_out_value(&firefox->text, value);
		if (firefox->text.error)
			out->error = firefox->text.error;
		else
			rp_json_out_utf8(out, (const uint8_t *)firefox->text.buffer,
					 firefox->text.used);
		break;
	default:
		rp_json_out_value(out, value);
	}
}

/* Write ",KEY:VALUE" for each field; a key begins with the prefix, so none is a key of ours. */
static void put_fields(struct rp_firefox *firefox, struct rp_format_out *out,
		       const struct rp_reader_event *event, const char *prefix)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	int ret;

	rp_reader_get_fields(event, &fields);
	while ((ret = rp_fields_next(&fields, &value)) == 1) {
		char key[256];

		snprintf(key, sizeof(key), "%s%s", prefix, value.name);
		rp_out_char(out, ',');
		rp_json_out_text(out, key);
		rp_out_char(out, ':');
		put_field_value(firefox, out, &value);
	}
	if (rp_shown_as_payload(event)) {
		rp_out_char(out, ',');
		rp_out_char(out, '"');
		rp_out_text(out, prefix);
		rp_out_text(out, "…payload\":\"");
		rp_out_hex(out, event->payload, event->payload_bytes);
		rp_out_char(out, '"');
	}
	if (ret < 0)
		rp_out_text(out, ",\"truncated\":\"true\"");
}

/* A flow id is a text, so that markers refer to it by its number. */
static int put_flow_id(struct rp_firefox *firefox, const char *key, const struct rp_guid *guid)
{
	struct rp_format_out text;
	uint32_t number;
	int ret;

	if (is_zero(guid, sizeof(*guid)) || firefox->strings.bytes > RP_FIREFOX_BYTES_MAX / 2)
		return 0;
	rp_out_init(&text, NULL);
	rp_out_guid(&text, guid->bytes);
	rp_out_char(&text, '\0');
	ret = text.error ? text.error :
	      rp_string_table_add(&firefox->strings, text.buffer, &number);
	rp_out_fini(&text);
	if (ret < 0)
		return ret;
	rp_out_text(&firefox->data, key);
	rp_out_u64(&firefox->data, number);
	return 0;
}

static void begin_data(struct rp_firefox *firefox, const struct rp_firefox_schema *schema)
{
	firefox->data.used = 0;
	rp_out_text(&firefox->data, "{\"type\":");
	rp_json_out_text(&firefox->data, schema->name);
}

static int end_data(struct rp_firefox *firefox, const struct rp_guid *activity,
		    const struct rp_guid *parent, const uint8_t *trace_id)
{
	struct rp_format_out *data = &firefox->data;
	int ret = put_flow_id(firefox, ",\"activity\":", activity);

	if (ret == 0)
		ret = put_flow_id(firefox, ",\"parent\":", parent);
	if (!is_zero(trace_id, 16)) {
		rp_out_text(data, ",\"trace_id\":\"");
		rp_out_hex(data, trace_id, 16);
		rp_out_char(data, '"');
	}
	rp_out_char(data, '}');
	return ret;
}

static int put_process(struct rp_process_track *process, void *data)
{
	(void)process;
	(void)data;
	return 0;
}

static int put_thread(struct rp_thread_track *track, void *data)
{
	struct rp_firefox *firefox = data;
	struct rp_thread_track **grown;

	/* It has a new name. */
	if (track->number <= firefox->thread_count)
		return 0;
	grown = rp_array_reserve(firefox->threads, firefox->thread_count,
				 &firefox->thread_capacity, 1, sizeof(struct rp_thread_track *));
	if (!grown)
		return -ENOMEM;
	firefox->threads = grown;
	grown[firefox->thread_count++] = track;
	return 0;
}

static int add_counter(struct rp_firefox *firefox, const struct rp_counter_sample *sample,
		       const char *suffix, const struct rp_thread_track *track)
{
	struct rp_firefox_counter *grown = rp_array_reserve(firefox->counters,
		firefox->counter_count, &firefox->counter_capacity, 1, sizeof(*grown));
	struct rp_firefox_counter *made;

	if (!grown)
		return -ENOMEM;
	firefox->counters = grown;
	made = &grown[firefox->counter_count++];
	*made = (struct rp_firefox_counter){
		.provider = strdup(sample->provider), .unit = strdup(sample->unit),
		.process = track->process, .thread = (uint32_t)track->number - 1,
		.is_rate = sample->form == RP_COUNTER_RATE,
	};
	if (asprintf(&made->name, "%s%s%s%s", sample->name, *sample->tags ? " " : "",
		     sample->tags, suffix) < 0)
		made->name = NULL;
	return made->provider && made->unit && made->name ? 0 : -ENOMEM;
}

static int put_value(struct rp_firefox *firefox, const struct rp_counter_sample *sample,
		     const char *suffix, double number, const struct rp_thread_track *track)
{
	struct rp_firefox_value *grown;
	uint32_t counter;
	char *key;
	int ret;

	if (!isfinite(number))
		return 0;
	if (firefox->value_count >= RP_FIREFOX_ROWS_MAX) {
		firefox->omitted++;
		return 0;
	}
	if (asprintf(&key, "%" PRIu64 "/%s/%s %s%s", track->process, sample->provider,
		     sample->name, sample->tags, suffix) < 0)
		return -ENOMEM;
	ret = rp_string_table_add(&firefox->counter_names, key, &counter);
	free(key);
	if (ret == 0 && counter >= firefox->counter_count)
		ret = add_counter(firefox, sample, suffix, track);
	grown = ret < 0 ? NULL : rp_array_reserve(firefox->values, firefox->value_count,
						  &firefox->value_capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	firefox->values = grown;
	grown[firefox->value_count] = (struct rp_firefox_value){
		.time_ns = firefox->tracks.event->time_ns, .value = number, .counter = counter,
		.sequence = (uint32_t)firefox->value_count,
	};
	firefox->value_count++;
	return 0;
}

/* Return: 1: the event was a counter's; 0: it is not; -ENOMEM. */
static int put_counter(struct rp_firefox *firefox, const struct rp_reader_event *event,
		       const struct rp_thread_track *track)
{
	struct rp_counter_sample sample;
	char suffix[32];
	int ret;

	if (rp_counter_decode(event, 0, &sample) != RP_COUNTER_SAMPLE)
		return 0;
	if (sample.form != RP_COUNTER_SPREAD)
		ret = put_value(firefox, &sample, "", sample.value, track);
	else
		ret = put_value(firefox, &sample, " count", (double)sample.count, track);
	for (uint32_t i = 0; ret == 0 && i < sample.quantile_count; i++) {
		snprintf(suffix, sizeof(suffix), " p%g", 100 * sample.quantiles[i].at);
		ret = put_value(firefox, &sample, suffix, sample.quantiles[i].value, track);
	}
	return ret < 0 ? ret : 1;
}

static int put_instant(const struct rp_reader_event *event, struct rp_thread_track *track,
		       void *data)
{
	struct rp_firefox *firefox = data;
	const struct rp_firefox_schema *schema = schema_of(firefox, event->type);
	const struct rp_firefox_marker marker = {
		.start_ns = event->time_ns, .stop_ns = event->time_ns,
		.thread = (uint32_t)track->number - 1, .category = RP_FIREFOX_EVENTS,
	};
	char name[RP_SHOWN_NAME];
	int ret = schema ? 0 : -ENOMEM;

	if (ret < 0 || schema->shown.is_omitted || firefox->is_sample)
		return ret;
	if (schema->shown.is_counter)
		ret = put_counter(firefox, event, track);
	if (ret)
		return ret < 0 ? ret : 0;
	begin_data(firefox, schema);
	put_fields(firefox, &firefox->data, event, "field.");
	ret = end_data(firefox, &event->activity, &event->related_activity, event->trace_id);
	return ret ? ret : add_marker(firefox, &marker, rp_shown_event_name(event->type, name));
}

/* Keep the number of the schema and the members of its fields. */
static int keep_start(const struct rp_reader_event *event, const char **ret_text,
		      size_t *ret_bytes, void *data)
{
	struct rp_firefox *firefox = data;
	const struct rp_firefox_schema *schema = schema_of(firefox, event->type);

	if (!schema)
		return -ENOMEM;
	firefox->data.used = 0;
	rp_out_bytes(&firefox->data, &schema->number, sizeof(schema->number));
	put_fields(firefox, &firefox->data, event, "field.");
	*ret_text = firefox->data.buffer;
	*ret_bytes = firefox->data.used;
	return firefox->data.error;
}

static int put_span(const struct rp_track_span *passed, void *data)
{
	struct rp_firefox *firefox = data;
	const struct rp_trace_span *span = passed->span;
	const struct rp_firefox_marker marker = {
		.start_ns = span->start_ns, .stop_ns = span->stop_ns,
		.thread = (uint32_t)passed->track->number - 1, .is_interval = true,
		.category = RP_FIREFOX_SPANS,
	};
	struct rp_firefox_schema *schema;
	size_t number = 0;
	int ret;

	if (passed->text)
		memcpy(&number, passed->text, sizeof(number));
	schema = firefox->schemas[number];
	begin_data(firefox, schema);
	if (passed->text)
		rp_out_bytes(&firefox->data, passed->text + sizeof(number),
			     passed->text_bytes - sizeof(number));
	if (passed->stop) {
		put_fields(firefox, &firefox->data, passed->stop, "stop.");
		if (!schema->stop)
			schema->stop = passed->stop->type;
	} else {
		rp_out_text(&firefox->data, ",\"never_stopped\":\"true\"");
	}
	schema->has_async |= !passed->nests;
	if (span->has_error)
		rp_out_text(&firefox->data, ",\"error\":\"true\"");
	ret = end_data(firefox, &span->activity, &span->parent, span->trace_id);
	return ret ? ret : add_marker(firefox, &marker, span->name->name);
}

/* A flow needs no call: the parent's activity is a flow id of the child. */
static const struct rp_track_calls calls = {
	.process = put_process, .thread = put_thread, .start = keep_start, .span = put_span,
	.instant = put_instant,
};

static void close_firefox(void *state)
{
	struct rp_firefox *firefox = state;

	rp_span_tracks_fini(&firefox->tracks);
	if (firefox->samples)
		rp_stack_samples_close(firefox->samples);
	for (size_t i = 0; i < firefox->schema_count; i++) {
		free(firefox->schemas[i]->name);
		free(firefox->schemas[i]);
	}
	for (size_t i = 0; i < firefox->counter_count; i++) {
		free(firefox->counters[i].provider);
		free(firefox->counters[i].name);
		free(firefox->counters[i].unit);
	}
	for (size_t i = 0; i < firefox->block_count; i++)
		free(firefox->blocks[i]);
	rp_string_table_fini(&firefox->strings);
	rp_string_table_fini(&firefox->counter_names);
	rp_out_fini(&firefox->data);
	rp_out_fini(&firefox->text);
	free(firefox->sample_threads);
	free(firefox->threads);
	free(firefox->schemas);
	free(firefox->markers);
	free(firefox->counters);
	free(firefox->values);
	free(firefox->blocks);
	free(firefox);
}

static int open_firefox(const struct rp_format_source *source, struct rp_format_out *out,
			void **ret_state)
{
	struct rp_firefox *firefox = calloc(1, sizeof(*firefox));
	void *samples = NULL;
	int ret;

	if (!firefox)
		return -ENOMEM;
	firefox->out = out;
	rp_span_tracks_init(&firefox->tracks, &calls, firefox);
	ret = rp_stack_samples_open(source, out, &samples);
	firefox->samples = samples;
	if (ret == 0 && !add_schema(firefox, NULL, "Span"))
		ret = -ENOMEM;
	if (ret < 0) {
		close_firefox(firefox);
		return ret;
	}
	*ret_state = firefox;
	return 0;
}

static int take_event(void *state, const struct rp_reader_event *event)
{
	struct rp_firefox *firefox = state;
	const size_t count = firefox->samples->count;
	uint32_t *grown;
	int ret;

	ret = rp_stack_samples_event(firefox->samples, event);
	if (ret < 0)
		return ret;
	firefox->is_sample = firefox->samples->count > count;
	ret = rp_span_tracks_take(&firefox->tracks, event);
	if (ret < 0 || !firefox->is_sample)
		return ret;
	grown = rp_array_reserve(firefox->sample_threads, count, &firefox->sample_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	firefox->sample_threads = grown;
	grown[count] = (uint32_t)firefox->tracks.track->number - 1;
	return 0;
}

static int end_firefox(void *state)
{
	struct rp_firefox *firefox = state;
	int ret = rp_span_tracks_end(&firefox->tracks);

	if (firefox->omitted)
		rp_tool_error("%" PRIu64 " markers and values of counters are too many for the "
			      "Firefox profiler; the profile has the first ones",
			      firefox->omitted);
	return ret ? ret : rp_firefox_write(firefox);
}

const struct rp_format_writer rp_format_firefox = {
	.name = "firefox", .open = open_firefox, .event = take_event, .end = end_firefox,
	.close = close_firefox,
};
