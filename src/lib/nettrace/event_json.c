/* SPDX-License-Identifier: MIT */
#include <ringpipe/reader.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "nettrace/self_describing.h"

struct json_printer {
	FILE *stream;
	bool truncated;		/* the payload ended before its last field */
	bool named;		/* at least one member is printed */
};

static void print_value(struct json_printer *p, struct rp_value *value);

static void print_char(struct json_printer *p, uint32_t character)
{
	char utf8[4];

	if (character == '"' || character == '\\')
		fprintf(p->stream, "\\%c", (int)character);
	else if (character < 0x20 || (character >= 0x7f && character < 0xa0))
		fprintf(p->stream, "\\u%04x", character);
	else
		fwrite(utf8, 1, rp_utf8_put(character, utf8), p->stream);
}

/* Put a name. The reader has made it valid UTF-8, so it is only escaped. */
static void print_name(struct json_printer *p, const char *name)
{
	p->named = true;
	putc('"', p->stream);
	for (; *name; name++) {
		if ((uint8_t)*name < 0x80)
			print_char(p, *name);
		else if ((uint8_t)*name == 0xc2 && (uint8_t)name[1] < 0xa0)
			print_char(p, (uint8_t)*++name);
		else
			putc(*name, p->stream);
	}
	fputs("\":", p->stream);
}

static void print_text16(struct json_printer *p, const uint8_t *text, size_t units)
{
	char utf8[4];

	putc('"', p->stream);
	while (units) {
		size_t step = rp_utf16_step(text, units);

		if (text[0] < 0xa0 && !text[1])
			print_char(p, text[0]);
		else
			fwrite(utf8, 1, rp_utf8_from_utf16(text, step, utf8), p->stream);
		text += 2 * step;
		units -= step;
	}
	putc('"', p->stream);
}

static void print_text8(struct json_printer *p, const uint8_t *at, size_t bytes)
{
	const uint8_t *end = at + bytes;

	putc('"', p->stream);
	while (at < end)
		print_char(p, rp_utf8_next(&at, end));
	putc('"', p->stream);
}

/* Put the fewest digits that give the same number again, with a point in any locale. */
static void print_double(struct json_printer *p, double value, int digits, int digits_max,
			 bool single)
{
	char text[64];

	if (!isfinite(value)) {
		fputs("null", p->stream);
		return;
	}
	for (; digits <= digits_max; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
			break;
	}
	for (const char *c = text; *c; c++) {
		if (strchr("0123456789+-e", *c))
			putc(*c, p->stream);
		else if (!(*c & 0x80) || (*c & 0xc0) == 0xc0)
			putc('.', p->stream);
	}
}

static void print_hex(struct json_printer *p, const uint8_t *bytes, size_t size)
{
	putc('"', p->stream);
	for (size_t i = 0; i < size; i++)
		fprintf(p->stream, "%02x", bytes[i]);
	putc('"', p->stream);
}

static void print_guid(struct json_printer *p, const struct rp_guid *guid)
{
	putc('"', p->stream);
	for (int i = 0; i < 16; i++)
		fprintf(p->stream, i >= 4 && i <= 10 && !(i & 1) ? "-%02x" : "%02x",
			guid->bytes[i]);
	putc('"', p->stream);
}

/* 100 ns since 1601-01-01, the first day of a period of 400 years. */
static void print_time(struct json_printer *p, int64_t ticks)
{
	int64_t rest = ticks % 10000000 + (ticks % 10000000 < 0 ? 10000000 : 0);
	int64_t seconds = ticks / 10000000 - (ticks % 10000000 < 0);
	int64_t days = seconds / 86400 - (seconds % 86400 < 0);
	int64_t of_day = seconds - days * 86400;
	/* Counted from 1600-03-01, so that a leap day ends a year. */
	int64_t shifted = days + 306;
	int64_t era = shifted / 146097 - (shifted % 146097 < 0);
	int64_t of_era = shifted - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153;
	int day = of_year - (153 * month + 2) / 5 + 1;

	year += 1600 + 400 * era + (month >= 10);
	month += month < 10 ? 3 : -9;
	fprintf(p->stream, "\"%04" PRId64 "-%02d-%02dT%02d:%02d:%02d.%07dZ\"", year, (int)month,
		day, (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60),
		(int)rest);
}

static void print_fixed(struct json_printer *p, const struct rp_value *value)
{
	int64_t ticks;

	switch (value->type) {
	case RP_TYPE_BOOL:
		fputs(value->u64 ? "true" : "false", p->stream);
		break;
	case RP_TYPE_CHAR:
		if (value->size_bytes == 1) {
			putc('"', p->stream);
			print_char(p, (uint32_t)value->u64);
			putc('"', p->stream);
			break;
		}
		print_text16(p, value->bytes, 1);
		break;
	case RP_TYPE_F32:
		print_double(p, value->f64, 6, 9, true);
		break;
	case RP_TYPE_F64:
		print_double(p, value->f64, 15, 17, false);
		break;
	case RP_TYPE_GUID:
		print_guid(p, &value->guid);
		break;
	case RP_TYPE_TIME:
		/* Times on the wire may exceed the range of 64-bit nanoseconds. */
		memcpy(&ticks, value->bytes, sizeof(ticks));
		print_time(p, ticks);
		break;
	case RP_TYPE_NONE:
		print_hex(p, value->bytes, value->size_bytes);
		break;
	case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		fprintf(p->stream, "%" PRIu64, value->u64);
		break;
	default:
		fprintf(p->stream, "%" PRId64, value->i64);
	}
}

static void print_members(struct json_printer *p, struct rp_fields *fields);

static void print_elements(struct json_printer *p, struct rp_fields *elements)
{
	struct rp_value value = RP_VALUE_INIT;
	const char *comma = "";
	int ret;

	while ((ret = rp_fields_next(elements, &value)) == 1) {
		fputs(comma, p->stream);
		print_value(p, &value);
		comma = ",";
	}
	p->truncated |= ret < 0;
}

/* reader.h describes an array in an array as a struct whose one member has no name. */
static bool is_inner_array(const struct rp_value *value)
{
	struct rp_fields members = value->inner;
	struct rp_value member = RP_VALUE_INIT;

	return members.left == 1 && rp_fields_next(&members, &member) == 1 && !*member.name;
}

static void print_inner_array(struct json_printer *p, struct rp_value *value)
{
	struct rp_value member = RP_VALUE_INIT;

	if (rp_fields_next(&value->inner, &member) == 1)
		print_value(p, &member);
}

/* Print the fields of a payload that describes itself. Return: false for other bytes. */
static bool print_described(struct json_printer *p, const struct rp_value *bytes)
{
	struct rp_self_describing walk;
	struct rp_value value;
	struct rp_field field;
	const char *comma = "";

	if (!rp_self_describing_begin(&walk, bytes->bytes, bytes->size_bytes))
		return false;
	putc('{', p->stream);
	while (rp_self_describing_next(&walk, &field, &value)) {
		fputs(comma, p->stream);
		print_name(p, value.name);
		/* Payloads in payloads stay bytes, so that the depth of the output is bounded. */
		if (value.type == RP_TYPE_ARRAY)
			print_hex(p, value.bytes, value.size_bytes);
		else
			print_value(p, &value);
		comma = ",";
	}
	if (walk.is_cut)
		fprintf(p->stream, "%s\"…truncated\":true", comma);
	putc('}', p->stream);
	return true;
}

static void print_value(struct json_printer *p, struct rp_value *value)
{
	if (value->type == RP_TYPE_STRUCT && is_inner_array(value)) {
		print_inner_array(p, value);
	} else if (value->type == RP_TYPE_STRUCT) {
		putc('{', p->stream);
		print_members(p, &value->inner);
		putc('}', p->stream);
	} else if (value->type == RP_TYPE_STRING16) {
		print_text16(p, value->bytes, value->size_bytes / 2);
	} else if (value->type == RP_TYPE_STRING) {
		print_text8(p, value->bytes, value->size_bytes);
	} else if (value->type == RP_TYPE_ARRAY && value->element == RP_TYPE_U8) {
		if (!print_described(p, value))
			print_hex(p, value->bytes, value->size_bytes);
	} else if (value->type == RP_TYPE_ARRAY) {
		putc('[', p->stream);
		print_elements(p, &value->inner);
		putc(']', p->stream);
	} else {
		print_fixed(p, value);
	}
}

static void print_members(struct json_printer *p, struct rp_fields *fields)
{
	struct rp_value value = RP_VALUE_INIT;
	const char *comma = "";
	int ret;

	while ((ret = rp_fields_next(fields, &value)) == 1) {
		fputs(comma, p->stream);
		print_name(p, value.name);
		print_value(p, &value);
		comma = ",";
	}
	p->truncated |= ret < 0;
}

int rp_reader_print_json(const struct rp_reader_event *event, FILE *stream)
{
	struct json_printer p = { .stream = stream };
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	putc('{', stream);
	print_members(&p, &fields);
	if (!event->type->field_count && event->payload_bytes) {
		fputs("\"…payload\":", stream);
		print_hex(&p, event->payload, event->payload_bytes);
	}
	if (p.truncated)
		fprintf(stream, "%s\"…truncated\":true", p.named ? "," : "");
	putc('}', stream);
	return ferror(stream) ? -EIO : 0;
}
