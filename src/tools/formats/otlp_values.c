/* SPDX-License-Identifier: MIT */
#include "tools/formats/otlp_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nettrace/self_describing.h"
#include "tools/formats/json_out.h"
#include "tools/formats/shown_event.h"

static void put_values(struct rp_format_out *out, struct rp_fields *fields, bool has_keys);

/*
 * Write a string of a text, after a prefix which needs no escapes and ends with a dot, or is empty.
 * `out` has no output.
 */
static void put_prefixed(struct rp_format_out *out, const char *prefix, const char *text)
{
	const size_t bytes = strlen(prefix);
	size_t quote;

	if (bytes) {
		rp_out_char(out, '"');
		rp_out_bytes(out, prefix, bytes - 1);
	}
	quote = out->used;
	rp_json_out_text(out, text);
	/* The dot takes the place of the text's own quotation mark. */
	if (bytes && !out->error)
		out->buffer[quote] = prefix[bytes - 1];
}

static void begin_attribute(struct rp_format_out *out, size_t begin, const char *prefix,
			    const char *key)
{
	if (out->used != begin)
		rp_out_char(out, ',');
	rp_out_text(out, "{\"key\":");
	put_prefixed(out, prefix, key);
	rp_out_text(out, ",\"value\":");
}

static void put_string(struct rp_format_out *out, const char *text)
{
	rp_out_text(out, "{\"stringValue\":");
	rp_json_out_text(out, text);
	rp_out_char(out, '}');
}

static void put_i64(struct rp_format_out *out, int64_t number)
{
	rp_out_text(out, "{\"intValue\":\"");
	rp_out_i64(out, number);
	rp_out_text(out, "\"}");
}

/* OTLP has no unsigned integers, so a larger one is a string. */
static void put_u64(struct rp_format_out *out, uint64_t number)
{
	if (number <= INT64_MAX) {
		put_i64(out, (int64_t)number);
		return;
	}
	rp_out_text(out, "{\"stringValue\":\"");
	rp_out_u64(out, number);
	rp_out_text(out, "\"}");
}

static void put_double(struct rp_format_out *out, double value, bool is_single)
{
	rp_out_text(out, "{\"doubleValue\":");
	if (isnan(value))
		rp_out_text(out, "\"NaN\"");
	else if (isinf(value))
		rp_out_text(out, value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
	else
		rp_json_out_double(out, value, is_single);
	rp_out_char(out, '}');
}

static void put_base64(struct rp_format_out *out, const uint8_t *bytes, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	rp_out_text(out, "{\"bytesValue\":\"");
	for (size_t at = 0; at < size; at += 3) {
		const size_t left = size - at;
		const uint32_t group = (uint32_t)bytes[at] << 16 |
				       (left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0) |
				       (left > 2 ? bytes[at + 2] : 0);

		rp_out_char(out, digits[group >> 18]);
		rp_out_char(out, digits[group >> 12 & 63]);
		rp_out_char(out, left > 1 ? digits[group >> 6 & 63] : '=');
		rp_out_char(out, left > 2 ? digits[group & 63] : '=');
	}
	rp_out_text(out, "\"}");
}

static void put_value(struct rp_format_out *out, struct rp_value *value);

/* Write bytes: as a list of keys and values if they describe themselves. */
static void put_bytes(struct rp_format_out *out, const struct rp_value *bytes)
{
	struct rp_self_describing payload;
	struct rp_value value;
	struct rp_field field;
	size_t begin;

	if (!rp_self_describing_begin(&payload, bytes->bytes, bytes->size_bytes)) {
		put_base64(out, bytes->bytes, bytes->size_bytes);
		return;
	}
	rp_out_text(out, "{\"kvlistValue\":{\"values\":[");
	begin = out->used;
	while (rp_self_describing_next(&payload, &field, &value)) {
		begin_attribute(out, begin, "", value.name);
		/* Payloads in payloads stay bytes, so that the depth of the output is bounded. */
		if (value.type == RP_TYPE_ARRAY)
			put_base64(out, value.bytes, value.size_bytes);
		else
			put_value(out, &value);
		rp_out_char(out, '}');
	}
	if (payload.is_cut)
		rp_otlp_true(out, begin, "ringpipe.truncated");
	rp_out_text(out, "]}}");
}

/* The recursion ends, because the reader refuses types of more than 16 levels. */
static void put_value(struct rp_format_out *out, struct rp_value *value)
{
	struct rp_value member = RP_VALUE_INIT;

	switch (value->type) {
	case RP_TYPE_BOOL:
		rp_out_text(out, value->u64 ? "{\"boolValue\":true}" : "{\"boolValue\":false}");
		break;
	case RP_TYPE_I8: case RP_TYPE_I16: case RP_TYPE_I32: case RP_TYPE_I64:
		put_i64(out, value->i64);
		break;
	case RP_TYPE_U8: case RP_TYPE_U16: case RP_TYPE_U32: case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		put_u64(out, value->u64);
		break;
	case RP_TYPE_F32: case RP_TYPE_F64:
		put_double(out, value->f64, value->type == RP_TYPE_F32);
		break;
	case RP_TYPE_NONE:
		put_base64(out, value->bytes, value->size_bytes);
		break;
	case RP_TYPE_ARRAY:
		if (value->element == RP_TYPE_U8)
			put_bytes(out, value);
		else
			put_values(out, &value->inner, false);
		break;
	case RP_TYPE_STRUCT:
		if (rp_json_inner_array(value, &member))
			put_value(out, &member);
		else
			put_values(out, &value->inner, true);
		break;
	default:
		/* Texts, characters, GUIDs and times are strings in JSON. */
		rp_out_text(out, "{\"stringValue\":");
		rp_json_out_value(out, value);
		rp_out_char(out, '}');
	}
}

/* Write the elements of an array, or the members of a struct. */
static void put_values(struct rp_format_out *out, struct rp_fields *fields, bool has_keys)
{
	struct rp_value value = RP_VALUE_INIT;
	bool is_first = true;

	rp_out_text(out, has_keys ? "{\"kvlistValue\":{\"values\":[" :
				    "{\"arrayValue\":{\"values\":[");
	while (rp_fields_next(fields, &value) == 1) {
		if (!is_first)
			rp_out_char(out, ',');
		is_first = false;
		if (has_keys)
			begin_attribute(out, out->used, "", value.name);
		put_value(out, &value);
		if (has_keys)
			rp_out_char(out, '}');
	}
	rp_out_text(out, "]}}");
}

void rp_otlp_text(struct rp_format_out *out, size_t begin, const char *key, const char *text)
{
	begin_attribute(out, begin, "", key);
	put_string(out, text);
	rp_out_char(out, '}');
}

void rp_otlp_i64(struct rp_format_out *out, size_t begin, const char *key, int64_t number)
{
	begin_attribute(out, begin, "", key);
	put_i64(out, number);
	rp_out_char(out, '}');
}

void rp_otlp_true(struct rp_format_out *out, size_t begin, const char *key)
{
	begin_attribute(out, begin, "", key);
	rp_out_text(out, "{\"boolValue\":true}}");
}

void rp_otlp_attribute(struct rp_format_out *out, size_t begin, const struct rp_attribute *row)
{
	begin_attribute(out, begin, "", row->key);
	switch (row->type) {
	case RP_ATTRIBUTE_BOOL:
		rp_out_text(out, "{\"boolValue\":");
		rp_out_text(out, row->value);
		rp_out_char(out, '}');
		break;
	case RP_ATTRIBUTE_INTEGER:
		put_i64(out, strtoll(row->value, NULL, 10));
		break;
	case RP_ATTRIBUTE_DOUBLE:
		put_double(out, strtod(row->value, NULL), false);
		break;
	default:
		put_string(out, row->value);
	}
	rp_out_char(out, '}');
}

void rp_otlp_guid(struct rp_format_out *out, size_t begin, const char *key,
		  const struct rp_guid *guid)
{
	static const struct rp_guid none;

	if (!memcmp(guid, &none, sizeof(none)))
		return;
	begin_attribute(out, begin, "", key);
	rp_out_text(out, "{\"stringValue\":");
	rp_json_out_guid(out, guid);
	rp_out_text(out, "}}");
}

/* Whether one of the first `count` fields of a type has the name. */
static bool has_field(const struct rp_reader_type *type, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count && i < type->field_count; i++) {
		if (!strcmp(type->fields[i].name, name))
			return true;
	}
	return false;
}

/*
 * Attributes of requests in OpenTelemetry's semantic conventions, version 1.37
 * (github.com/open-telemetry/semantic-conventions). A field that is declared in C has '_' for each
 * dot of its name.
 */
static const char *const conventions[] = {
	"client.address", "client.port", "db.collection.name", "db.namespace", "db.operation.name",
	"db.query.summary", "db.query.text", "db.response.returned_rows",
	"db.response.status_code", "db.system.name", "error.type", "exception.message",
	"exception.stacktrace", "exception.type", "http.request.body.size", "http.request.method",
	"http.request.resend_count", "http.response.body.size", "http.response.status_code",
	"http.route", "messaging.destination.name", "messaging.message.id",
	"messaging.operation.name", "messaging.system", "network.peer.address",
	"network.peer.port", "network.protocol.name", "network.protocol.version",
	"network.transport", "rpc.method", "rpc.service", "rpc.system", "server.address",
	"server.port", "session.id", "url.full", "url.path", "url.query", "url.scheme",
	"user.id", "user_agent.original",
};

static bool is_same_name(const char *field, const char *convention)
{
	while (*field && (*field == *convention || (*field == '_' && *convention == '.')))
		field++, convention++;
	return !*field && !*convention;
}

/* Return: whether no other field of the type has the name in the conventions. */
static bool is_only_field(const struct rp_reader_type *type, const char *field,
			  const char *convention)
{
	for (uint32_t i = 0; i < type->field_count; i++) {
		if (strcmp(type->fields[i].name, field) != 0 &&
		    is_same_name(type->fields[i].name, convention))
			return false;
	}
	return true;
}

/* Return: the name in the conventions, if the type has no other field with it; or the field's. */
static const char *attribute_of(const struct rp_reader_type *type, const char *field)
{
	for (size_t i = 0; i < sizeof(conventions) / sizeof(conventions[0]); i++) {
		if (is_same_name(field, conventions[i]))
			return is_only_field(type, field, conventions[i]) ? conventions[i] : field;
	}
	return field;
}

static void put_labels(struct rp_format_out *out, size_t begin, const char *prefix,
		       const struct rp_reader_event *event)
{
	for (uint32_t i = 0; i < event->label_count; i++) {
		const struct rp_reader_label *label = &event->labels[i];

		begin_attribute(out, begin, prefix, label->key);
		if (label->text)
			put_string(out, label->text);
		else
			put_i64(out, label->number);
		rp_out_char(out, '}');
	}
}

void rp_otlp_fields(struct rp_format_out *out, size_t begin, const struct rp_reader_event *event,
		    const struct rp_reader_type *taken)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields fields;
	char prefix[40];
	uint32_t number = 0;
	int ret;

	rp_reader_get_fields(event, &fields);
	while ((ret = rp_fields_next(&fields, &value)) == 1) {
		snprintf(prefix, sizeof(prefix), "%s",
			 taken && has_field(taken, taken->field_count, value.name) ? "stop." : "");
		if (has_field(event->type, number, value.name))
			snprintf(prefix + strlen(prefix), sizeof(prefix) - strlen(prefix),
				 "field%" PRIu32 ".", number);
		begin_attribute(out, begin, prefix, attribute_of(event->type, value.name));
		put_value(out, &value);
		rp_out_char(out, '}');
		number++;
	}
	if (rp_shown_as_payload(event)) {
		begin_attribute(out, begin, taken ? "stop." : "", "ringpipe.payload");
		put_base64(out, event->payload, event->payload_bytes);
		rp_out_char(out, '}');
	}
	if (ret < 0)
		rp_otlp_true(out, begin, taken ? "stop.ringpipe.truncated" : "ringpipe.truncated");
	put_labels(out, begin, taken ? "stop.label." : "label.", event);
}
