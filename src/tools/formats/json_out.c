/* SPDX-License-Identifier: MIT */
#include "tools/formats/json_out.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf.h"
#include "nettrace/self_describing.h"
#include "tools/cli/display_text.h"
#include "tools/formats/shown_event.h"

#define SECONDS_1601_TO_1970 11644473600
#define EXACT_MAX (1ull << 53)		/* all integers up to it are doubles */
#define PLAIN_PART 4096u	/* characters that are written after one check of the space */

struct json_walk {
	struct rp_format_out *out;
	bool is_exact;			/* as rp_reader_print_json(), see rp_json_out_exact() */
	bool is_truncated;		/* the payload ended before its last field */
	bool has_member;
};

/* `escaped` is '<', or 0 if a text may contain that character. */
static bool is_plain(uint8_t byte, char escaped)
{
	return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\' &&
	       byte != (uint8_t)escaped;
}

static void put_character(struct rp_format_out *out, uint32_t character, char escaped)
{
	char text[4];

	if (character == '"' || character == '\\') {
		rp_out_char(out, '\\');
		rp_out_char(out, (char)character);
	} else if (character < 0x20 || character == (uint8_t)escaped ||
		   (character >= 0x7f && character < 0xa0)) {
		const uint8_t byte = (uint8_t)character;

		rp_out_bytes(out, "\\u00", 4);
		rp_out_hex(out, &byte, 1);
	} else {
		rp_out_bytes(out, text, rp_utf8_put(character, text));
	}
}

static void put_utf8(struct rp_format_out *out, const uint8_t *text, size_t bytes, char escaped)
{
	const uint8_t *end = text + bytes;

	rp_out_char(out, '"');
	while (text < end) {
		const uint8_t *from = text;

		while (text < end && is_plain(*text, escaped))
			text++;
		rp_out_bytes(out, from, (size_t)(text - from));
		if (text < end)
			put_character(out, rp_utf8_next(&text, end), escaped);
	}
	rp_out_char(out, '"');
}

void rp_json_out_utf8(struct rp_format_out *out, const uint8_t *text, size_t bytes)
{
	put_utf8(out, text, bytes, '<');
}

void rp_json_out_text(struct rp_format_out *out, const char *text)
{
	rp_json_out_utf8(out, (const uint8_t *)text, strlen(text));
}

/* Write the plain characters that the text begins with. Return: their number. */
static size_t put_plain_utf16(struct rp_format_out *out, const uint8_t *text, size_t units,
			      char escaped)
{
	const size_t most = units < PLAIN_PART ? units : PLAIN_PART;
	char *to = rp_out_reserve(out, most);
	size_t count = 0;

	while (to && count < most && !text[2 * count + 1] &&
	       is_plain(text[2 * count], escaped)) {
		to[count] = (char)text[2 * count];
		count++;
	}
	out->used += count;
	return count;
}

static void put_utf16(struct rp_format_out *out, const uint8_t *text, size_t units, char escaped)
{
	rp_out_char(out, '"');
	while (units) {
		const size_t plain = put_plain_utf16(out, text, units, escaped);
		size_t step = 1;
		char utf8[6];

		text += 2 * plain;
		units -= plain;
		if (!units)
			break;
		if (text[0] < 0xa0 && !text[1]) {
			put_character(out, text[0], escaped);
		} else {
			step = rp_utf16_step(text, units);
			rp_out_bytes(out, utf8, rp_utf8_from_utf16(text, step, utf8));
		}
		text += 2 * step;
		units -= step;
	}
	rp_out_char(out, '"');
}

void rp_json_out_u64(struct rp_format_out *out, uint64_t number)
{
	const bool is_text = number > EXACT_MAX;

	if (is_text)
		rp_out_char(out, '"');
	rp_out_u64(out, number);
	if (is_text)
		rp_out_char(out, '"');
}

void rp_json_out_i64(struct rp_format_out *out, int64_t number)
{
	const bool is_text = number > (int64_t)EXACT_MAX || number < -(int64_t)EXACT_MAX;

	if (is_text)
		rp_out_char(out, '"');
	rp_out_i64(out, number);
	if (is_text)
		rp_out_char(out, '"');
}

void rp_json_out_double(struct rp_format_out *out, double value, bool is_single)
{
	const int digits_max = is_single ? 9 : 17;
	char text[64];

	if (!isfinite(value)) {
		rp_out_text(out, "null");
		return;
	}
	for (int digits = is_single ? 6 : 15; digits <= digits_max; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (is_single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
			break;
	}
	/* The locale may have another point. */
	for (char *at = text; *at; at++) {
		if (!strchr("0123456789+-e", *at))
			*at = '.';
	}
	rp_out_text(out, text);
}

void rp_json_out_guid(struct rp_format_out *out, const struct rp_guid *guid)
{
	rp_out_char(out, '"');
	rp_out_guid(out, guid->bytes);
	rp_out_char(out, '"');
}

void rp_json_out_guid_member(struct rp_format_out *out, const char *key,
			     const struct rp_guid *guid)
{
	static const struct rp_guid none;

	if (!memcmp(guid, &none, sizeof(none)))
		return;
	rp_out_text(out, key);
	rp_json_out_guid(out, guid);
}

void rp_json_out_trace_ids(struct rp_format_out *out, const uint8_t *trace_id, uint64_t span_id)
{
	static const uint8_t none[16];
	const uint64_t digits = htobe64(span_id);

	if (!memcmp(trace_id, none, sizeof(none)))
		return;
	rp_out_text(out, ",\"trace_id\":\"");
	rp_out_hex(out, trace_id, sizeof(none));
	rp_out_char(out, '"');
	if (!span_id)
		return;
	rp_out_text(out, ",\"span_id\":\"");
	rp_out_hex(out, &digits, sizeof(digits));
	rp_out_char(out, '"');
}

static void put_members(struct json_walk *walk, struct rp_fields *fields);

static void put_quoted_hex(struct rp_format_out *out, const struct rp_value *value)
{
	rp_out_char(out, '"');
	rp_out_hex(out, value->bytes, value->size_bytes);
	rp_out_char(out, '"');
}

/* The time on the wire, in units of 100 ns since 1601, may exceed 64-bit nanoseconds. */
static void put_ticks(struct rp_format_out *out, const void *bytes)
{
	const unsigned int per_second = 10000000;
	int64_t ticks, rest;
	time_t seconds;
	struct tm parts;
	char text[64];

	memcpy(&ticks, bytes, sizeof(ticks));
	rest = ticks % per_second;
	seconds = ticks / per_second - SECONDS_1601_TO_1970;
	if (rest < 0) {
		rest += per_second;
		seconds--;
	}
	gmtime_r(&seconds, &parts);
	snprintf(text, sizeof(text), "\"%04d-%02d-%02dT%02d:%02d:%02d.%07dZ\"",
		 parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
		 parts.tm_min, parts.tm_sec, (int)rest);
	rp_out_text(out, text);
}

static void put_time(const struct json_walk *walk, const struct rp_value *value)
{
	char text[RP_TEXT_MAX];

	if (walk->is_exact)
		put_ticks(walk->out, value->bytes);
	else
		rp_json_out_text(walk->out, rp_text_utc_ns(value->i64, text));
}

static void put_char(const struct json_walk *walk, const struct rp_value *value)
{
	const char escaped = walk->is_exact ? '\0' : '<';

	if (value->size_bytes != 1) {
		put_utf16(walk->out, value->bytes, 1, escaped);
		return;
	}
	rp_out_char(walk->out, '"');
	put_character(walk->out, (uint32_t)value->u64, escaped);
	rp_out_char(walk->out, '"');
}

static void put_integer(const struct json_walk *walk, const struct rp_value *value)
{
	const bool is_signed = value->type != RP_TYPE_U64 && value->type != RP_TYPE_POINTER;

	if (is_signed && walk->is_exact)
		rp_out_i64(walk->out, value->i64);
	else if (is_signed)
		rp_json_out_i64(walk->out, value->i64);
	else if (walk->is_exact)
		rp_out_u64(walk->out, value->u64);
	else
		rp_json_out_u64(walk->out, value->u64);
}

static void put_fixed(const struct json_walk *walk, const struct rp_value *value)
{
	switch (value->type) {
	case RP_TYPE_BOOL:
		rp_out_text(walk->out, value->u64 ? "true" : "false");
		break;
	case RP_TYPE_CHAR:
		put_char(walk, value);
		break;
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		rp_json_out_double(walk->out, value->f64, value->type == RP_TYPE_F32);
		break;
	case RP_TYPE_GUID:
		rp_json_out_guid(walk->out, &value->guid);
		break;
	case RP_TYPE_TIME:
		put_time(walk, value);
		break;
	case RP_TYPE_NONE:
		put_quoted_hex(walk->out, value);
		break;
	default:
		put_integer(walk, value);
	}
}

/* The recursion ends, because the reader refuses types of more than 16 levels. */
static void put_value(struct json_walk *walk, struct rp_value *value);

static void put_elements(struct json_walk *walk, struct rp_fields *elements)
{
	struct rp_value value = RP_VALUE_INIT;
	bool is_first = true;
	int ret;

	rp_out_char(walk->out, '[');
	while ((ret = rp_fields_next(elements, &value)) == 1) {
		if (!is_first)
			rp_out_char(walk->out, ',');
		is_first = false;
		put_value(walk, &value);
	}
	rp_out_char(walk->out, ']');
	walk->is_truncated |= ret < 0;
}

bool rp_json_inner_array(const struct rp_value *value, struct rp_value *ret_member)
{
	struct rp_fields members = value->inner;

	return members.left == 1 && rp_fields_next(&members, ret_member) == 1 &&
	       !*ret_member->name;
}

static void put_struct(struct json_walk *walk, struct rp_value *value)
{
	struct rp_value member = RP_VALUE_INIT;

	if (rp_json_inner_array(value, &member)) {
		put_value(walk, &member);
		return;
	}
	rp_out_char(walk->out, '{');
	put_members(walk, &value->inner);
	rp_out_char(walk->out, '}');
}

/* Put the name of a member, after a comma if it is not the first one of its object. */
static void put_name(struct json_walk *walk, const char *name, bool is_first)
{
	if (!is_first)
		rp_out_char(walk->out, ',');
	put_utf8(walk->out, (const uint8_t *)name, strlen(name), walk->is_exact ? '\0' : '<');
	rp_out_char(walk->out, ':');
}

/* Put bytes: as an object if they describe themselves. */
static void put_bytes(struct json_walk *walk, const struct rp_value *bytes)
{
	struct rp_self_describing payload;
	struct rp_value value;
	struct rp_field field;
	bool is_first = true;

	if (!rp_self_describing_begin(&payload, bytes->bytes, bytes->size_bytes)) {
		put_quoted_hex(walk->out, bytes);
		return;
	}
	rp_out_char(walk->out, '{');
	while (rp_self_describing_next(&payload, &field, &value)) {
		put_name(walk, value.name, is_first);
		/* Payloads in payloads stay bytes, so that the depth of the output is bounded. */
		if (value.type == RP_TYPE_ARRAY)
			put_quoted_hex(walk->out, &value);
		else
			put_value(walk, &value);
		is_first = false;
	}
	if (payload.is_cut)
		rp_out_text(walk->out, is_first ? "\"…truncated\":true" : ",\"…truncated\":true");
	rp_out_char(walk->out, '}');
}

static void put_value(struct json_walk *walk, struct rp_value *value)
{
	const char escaped = walk->is_exact ? '\0' : '<';

	if (value->type == RP_TYPE_STRING16)
		put_utf16(walk->out, value->bytes, value->size_bytes / 2, escaped);
	else if (value->type == RP_TYPE_STRING)
		put_utf8(walk->out, value->bytes, value->size_bytes, escaped);
	else if (value->type == RP_TYPE_STRUCT)
		put_struct(walk, value);
	else if (value->type == RP_TYPE_ARRAY && value->element == RP_TYPE_U8)
		put_bytes(walk, value);
	else if (value->type == RP_TYPE_ARRAY)
		put_elements(walk, &value->inner);
	else
		put_fixed(walk, value);
}

static void put_members(struct json_walk *walk, struct rp_fields *fields)
{
	struct rp_value value = RP_VALUE_INIT;
	bool is_first = true;
	int ret;

	while ((ret = rp_fields_next(fields, &value)) == 1) {
		put_name(walk, value.name, is_first);
		is_first = false;
		walk->has_member = true;
		put_value(walk, &value);
	}
	walk->is_truncated |= ret < 0;
}

void rp_json_out_exact_value(struct rp_format_out *out, const struct rp_value *value)
{
	struct json_walk walk = { .out = out, .is_exact = true };
	struct rp_value own = *value;

	put_value(&walk, &own);
}

void rp_json_out_value(struct rp_format_out *out, struct rp_value *value)
{
	struct json_walk walk = { .out = out };

	put_value(&walk, value);
}

static void put_fields(struct json_walk *walk, const struct rp_reader_event *event)
{
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	rp_out_char(walk->out, '{');
	put_members(walk, &fields);
	if (rp_shown_as_payload(event)) {
		const struct rp_value payload = {
			.bytes = event->payload, .size_bytes = event->payload_bytes,
		};

		rp_out_text(walk->out, "\"…payload\":");
		put_quoted_hex(walk->out, &payload);
	}
	if (walk->is_truncated) {
		if (walk->has_member)
			rp_out_char(walk->out, ',');
		rp_out_text(walk->out, "\"…truncated\":true");
	}
	rp_out_char(walk->out, '}');
}

void rp_json_out_fields(struct rp_format_out *out, const struct rp_reader_event *event)
{
	struct json_walk walk = { .out = out };

	put_fields(&walk, event);
}

void rp_json_out_exact(struct rp_format_out *out, const struct rp_reader_event *event)
{
	struct json_walk walk = { .out = out, .is_exact = true };

	put_fields(&walk, event);
}
