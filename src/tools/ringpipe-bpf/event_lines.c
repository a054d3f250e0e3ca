/* SPDX-License-Identifier: MIT */
/* Prints forwarded events as lines: text, or the members of `ringpipe report --events`. */
#include "tools/ringpipe-bpf/show.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringpipe/batch.h>
#include <ringpipe/field.h>
#include <ringpipe/listener.h>
#include <ringpipe/reader.h>

#include "tools/cli/json.h"
#include "tools/cli/display_text.h"

static struct json_object *members(struct rp_fields *fields);
static struct json_object *to_json(struct rp_value *value);

static struct json_object *guid_to_json(const uint8_t bytes[16])
{
	char text[40], *at = text;

	for (int i = 0; i < 16; i++)
		at += sprintf(at, i >= 4 && i <= 10 && !(i & 1) ? "-%02x" : "%02x", bytes[i]);
	return json_object_new_string(text);
}

static struct json_object *time_to_json(int64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
	char text[80], day[64];
	struct tm utc;

	gmtime_r(&seconds, &utc);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text, sizeof(text), "%s.%09dZ", day,
		 (int)(ns - (int64_t)seconds * 1000000000));
	return json_object_new_string(text);
}

static struct json_object *double_to_json(double value, bool single)
{
	char text[64];

	if (!isfinite(value))
		return NULL;
	for (int digits = single ? 6 : 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
			break;
	}
	return json_object_new_double_s(value, text);
}

static struct json_object *text_to_json(const struct rp_value *value)
{
	size_t space = rp_value_get_text(value, NULL, 0) + 1;
	struct json_object *object = NULL;
	char *text = malloc(space);

	if (text) {
		rp_value_get_text(value, text, space);
		object = rp_json_string(text);
	}
	free(text);
	return object;
}

static struct json_object *hex_to_json(const uint8_t *bytes, size_t size)
{
	char *text = malloc(2 * size + 1);
	struct json_object *object;

	if (!text)
		return NULL;
	text[0] = '\0';
	for (size_t i = 0; i < size; i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
	object = json_object_new_string(text);
	free(text);
	return object;
}

static struct json_object *elements(struct rp_fields *inner)
{
	struct json_object *array = json_object_new_array();
	struct rp_value value = RP_VALUE_INIT;

	while (rp_fields_next(inner, &value) == 1)
		json_object_array_add(array, to_json(&value));
	return array;
}

/* reader.h describes an array in an array as a struct whose one member has no name. */
static struct json_object *struct_to_json(struct rp_fields *inner)
{
	struct rp_value member = RP_VALUE_INIT;
	struct rp_fields first = *inner;

	if (inner->left == 1 && rp_fields_next(&first, &member) == 1 && !*member.name)
		return to_json(&member);
	return members(inner);
}

static struct json_object *to_json(struct rp_value *value)
{
	switch (value->type) {
	case RP_TYPE_BOOL:
		return json_object_new_boolean(value->u64 != 0);
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_I64:
		return json_object_new_int64(value->i64);
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		return double_to_json(value->f64, value->type == RP_TYPE_F32);
	case RP_TYPE_GUID:
		return guid_to_json(value->guid.bytes);
	case RP_TYPE_TIME:
		return time_to_json(value->i64);
	case RP_TYPE_CHAR:
	case RP_TYPE_STRING:
	case RP_TYPE_STRING16:
		return text_to_json(value);
	case RP_TYPE_STRUCT:
		return struct_to_json(&value->inner);
	case RP_TYPE_ARRAY:
		return value->element == RP_TYPE_U8 ? hex_to_json(value->bytes, value->size_bytes) :
						      elements(&value->inner);
	default:
		return json_object_new_uint64(value->u64);
	}
}

static struct json_object *members(struct rp_fields *fields)
{
	struct json_object *object = json_object_new_object();
	struct rp_value value = RP_VALUE_INIT;
	int ret;

	while ((ret = rp_fields_next(fields, &value)) == 1)
		json_object_object_add(object, value.name, to_json(&value));
	if (ret < 0)
		json_object_object_add(object, "…truncated", json_object_new_boolean(true));
	return object;
}

static size_t payload_offset(const struct rp_batch_event *event)
{
	return sizeof(*event) + event->frames * sizeof(uint64_t) +
	       (event->flags & RP_BATCH_ACTIVITY ? sizeof(struct rp_guid) : 0) +
	       (event->flags & RP_BATCH_RELATED ? sizeof(struct rp_guid) : 0);
}

/* Return: false: no memory. */
static bool get_json_fields(struct rp_json_decoder *decoder, struct rp_reader_type *type,
			    const uint8_t *payload, uint32_t bytes, struct rp_fields *ret_fields)
{
	const struct rp_reader_event texts = {
		.size = sizeof(texts), .type = type, .payload = payload, .payload_bytes = bytes,
	};
	const struct rp_reader_event *decoded = rp_json_decode(decoder, &texts);

	if (decoded)
		rp_reader_get_fields(decoded, ret_fields);
	return decoded;
}

/* Return: NULL without memory. */
static struct json_object *fields_to_json(struct rp_bpf_printer *printer,
					  const struct rp_bpf_definition *definition,
					  const struct rp_batch_event *event)
{
	const uint32_t offset = (uint32_t)payload_offset(event);
	const struct rp_listener_event source = {
		.size = sizeof(source),
		.fields = definition->fields,
		.field_count = (uint16_t)definition->field_count,
		.payload = (const uint8_t *)event + offset,
		.payload_bytes = event->bytes - offset,
	};
	struct rp_fields fields;

	if (!definition->json)
		rp_listener_get_fields(&source, &fields);
	else if (!get_json_fields(&printer->json, definition->json, source.payload,
				  source.payload_bytes, &fields))
		return NULL;
	return members(&fields);
}

void rp_bpf_printer_init(struct rp_bpf_printer *printer, enum rp_format format)
{
	static const struct rp_column columns[] = {
		{ .key = "time_ns" }, { .key = "thread_id" }, { .key = "processor" },
		{ .key = "provider" }, { .key = "event" }, { .key = "id" },
		{ .key = "activity", .is_optional = true },
		{ .key = "related_activity", .is_optional = true }, { .key = "fields" },
	};

	*printer = (struct rp_bpf_printer){ 0 };
	/* Text has a different form of line. */
	if (format == RP_FORMAT_TEXT)
		rp_rows_init(&printer->rows, format, columns, 0);
	else
		rp_rows_init_live(&printer->rows, format, columns,
				  sizeof(columns) / sizeof(columns[0]), stdout);
}

void rp_bpf_printer_fini(struct rp_bpf_printer *printer)
{
	rp_rows_fini(&printer->rows);
	rp_json_decoder_fini(&printer->json);
}

static void add_activities(struct rp_rows *rows, const struct rp_batch_event *event)
{
	static const uint32_t flags[] = { RP_BATCH_ACTIVITY, RP_BATCH_RELATED };
	const uint8_t *at = (const uint8_t *)(event + 1);

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const bool is_there = event->flags & flags[i];

		rp_rows_add(rows, is_there ? guid_to_json(at) : NULL, NULL);
		at += is_there ? sizeof(struct rp_guid) : 0;
	}
}

static void print_row(struct rp_bpf_printer *printer, const struct rp_bpf_definition *definition,
		      const struct rp_batch_event *event)
{
	struct rp_rows *rows = &printer->rows;

	rp_rows_add_u64(rows, event->time_ns);
	rp_rows_add_u64(rows, event->thread);
	rp_rows_add_u64(rows, event->processor);
	rp_rows_add_string(rows, definition->provider);
	rp_rows_add_string(rows, definition->name);
	rp_rows_add_u64(rows, definition->id);
	add_activities(rows, event);
	rp_rows_add(rows, fields_to_json(printer, definition, event), NULL);
}

static void print_text(struct rp_bpf_printer *printer, const struct rp_bpf_definition *definition,
		       const struct rp_batch_event *event)
{
	struct json_object *fields = fields_to_json(printer, definition, event);
	char *provider = rp_text_clean(definition->provider, true);
	char *name = rp_text_clean(definition->name, true);

	printf("%" PRIu64 ".%09" PRIu64 " %" PRIu32 " %s:%s ", event->time_ns / 1000000000,
	       event->time_ns % 1000000000, event->thread, provider ? provider : "?",
	       name ? name : "?");
	rp_json_put(stdout, fields, JSON_C_TO_STRING_NOSLASHESCAPE);
	putchar('\n');
	free(name);
	free(provider);
	json_object_put(fields);
}

/* The bytes come from the process's memory and are as untrusted as its messages. */
int rp_bpf_printer_print(struct rp_bpf_printer *printer, const struct rp_bpf_session *session,
			 const void *bytes, size_t size)
{
	const struct rp_batch_event *event = bytes;
	const struct rp_bpf_definition *definition;

	if (size < sizeof(*event) || event->bytes > size ||
	    payload_offset(event) > event->bytes || event->event >= session->definition_count)
		return 0;
	definition = &session->definitions[event->event];
	if (printer->rows.format == RP_FORMAT_TEXT)
		print_text(printer, definition, event);
	else
		print_row(printer, definition, event);
	return ferror(stdout) ? -EIO : 0;
}
