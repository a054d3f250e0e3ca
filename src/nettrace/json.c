/* SPDX-License-Identifier: MIT */
#include <ringpipe/reader.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/utf.h"
#include "nettrace/convert.h"
#include "nettrace/cursor.h"
#include "nettrace/format.h"

struct printer {
	FILE *stream;
	struct rp_cursor in;
	bool truncated;		/* the payload ended before its description */
	bool named;		/* at least one member is printed */
};

static void print_members(struct printer *p, const struct rp_reader_field *fields, uint32_t count);

static void print_char(struct printer *p, uint32_t character)
{
	char utf8[4];

	if (character == '"' || character == '\\')
		fprintf(p->stream, "\\%c", (int)character);
	else if (character < 0x20 || character == 0x7f)
		fprintf(p->stream, "\\u%04x", character);
	else
		fwrite(utf8, 1, rp_utf8_put(character, utf8), p->stream);
}

/* Names come from our own conversion: valid UTF-8, only to be escaped. */
static void print_name(struct printer *p, const char *name)
{
	p->named = true;
	putc('"', p->stream);
	for (; *name; name++) {
		if ((uint8_t)*name < 0x80)
			print_char(p, *name);
		else
			putc(*name, p->stream);
	}
	fputs("\":", p->stream);
}

static void print_text16(struct printer *p, const uint8_t *text, size_t units)
{
	char utf8[4];

	putc('"', p->stream);
	for (size_t i = 0; i < units; i++) {
		uint32_t unit = text[2 * i] | text[2 * i + 1] << 8;

		if (unit < 0x80) {
			print_char(p, unit);
		} else if (unit >= 0xd800 && unit <= 0xdbff && i + 1 < units &&
			   (text[2 * i + 3] & 0xfc) == 0xdc) {
			fwrite(utf8, 1, rp_utf8_from_utf16(text + 2 * i, 2, utf8), p->stream);
			i++;
		} else {
			fwrite(utf8, 1, rp_utf8_from_utf16(text + 2 * i, 1, utf8), p->stream);
		}
	}
	putc('"', p->stream);
}

/* The fewest digits that read back the same; a point whatever the host's locale has. */
static void print_double(struct printer *p, double value, int digits, int digits_max, bool single)
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

static void print_hex(struct printer *p, const uint8_t *bytes, size_t size)
{
	putc('"', p->stream);
	for (size_t i = 0; i < size; i++)
		fprintf(p->stream, "%02x", bytes[i]);
	putc('"', p->stream);
}

static void print_guid(struct printer *p, const uint8_t *wire)
{
	uint8_t bytes[16];

	rp_guid_swap(wire, bytes);
	putc('"', p->stream);
	for (int i = 0; i < 16; i++)
		fprintf(p->stream, i >= 4 && i <= 10 && !(i & 1) ? "-%02x" : "%02x", bytes[i]);
	putc('"', p->stream);
}

/* 100 ns since 1601-01-01, the first day of a period of 400 years. */
static void print_time(struct printer *p, int64_t ticks)
{
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
		(int)(ticks - seconds * 10000000));
}

static void print_integer(struct printer *p, uint8_t type, const uint8_t *bytes, uint8_t size)
{
	int64_t value = 0;

	memcpy(&value, bytes, size);
	if (type == RP_TYPE_U64 || type == RP_TYPE_POINTER) {
		fprintf(p->stream, "%" PRIu64, (uint64_t)value);
		return;
	}
	if (type == RP_TYPE_I8 || type == RP_TYPE_I16 || type == RP_TYPE_I32)
		value = (int64_t)((uint64_t)value << (64 - 8 * size)) >> (64 - 8 * size);
	fprintf(p->stream, "%" PRId64, value);
}

static void print_fixed(struct printer *p, uint8_t type, const uint8_t *bytes, uint8_t size)
{
	int64_t ticks;
	double f64;
	float f32;

	switch (type) {
	case RP_TYPE_BOOL:
		fputs(bytes[0] | bytes[1] | bytes[2] | bytes[3] ? "true" : "false", p->stream);
		break;
	case RP_TYPE_CHAR:
		print_text16(p, bytes, 1);
		break;
	case RP_TYPE_F32:
		memcpy(&f32, bytes, sizeof(f32));
		print_double(p, (double)f32, 6, 9, true);
		break;
	case RP_TYPE_F64:
		memcpy(&f64, bytes, sizeof(f64));
		print_double(p, f64, 15, 17, false);
		break;
	case RP_TYPE_GUID:
		print_guid(p, bytes);
		break;
	case RP_TYPE_TIME:
		memcpy(&ticks, bytes, sizeof(ticks));
		print_time(p, ticks);
		break;
	case RP_TYPE_NONE:
		print_hex(p, bytes, size);
		break;
	default:
		print_integer(p, type, bytes, size);
	}
}

/* What a value begins with. Nothing of it is printed unless this is there. */
struct head {
	const uint8_t *bytes;
	size_t units;		/* of a string */
	uint16_t count;		/* of an array */
};

static bool take_head(struct printer *p, uint8_t type, uint8_t wire_bytes, struct head *ret_head)
{
	if (type == RP_TYPE_STRUCT)
		return true;
	if (type == RP_TYPE_STRING16)
		return !rp_cursor_string16(&p->in, &ret_head->bytes, &ret_head->units);
	if (type == RP_TYPE_ARRAY)
		return !rp_cursor_u16(&p->in, &ret_head->count);
	return !rp_cursor_take(&p->in, wire_bytes, &ret_head->bytes);
}

static void print_blob(struct printer *p, uint16_t count)
{
	size_t left = rp_cursor_left(&p->in);

	if (count > left) {
		p->truncated = true;
		count = left;
	}
	print_hex(p, p->in.at, count);
	p->in.at += count;
}

static void print_elements(struct printer *p, const struct rp_reader_field *field, uint16_t count);

static void print_value(struct printer *p, const struct rp_reader_field *field, uint8_t type,
			const struct head *head)
{
	if (type == RP_TYPE_STRUCT) {
		putc('{', p->stream);
		print_members(p, field->members, field->member_count);
		putc('}', p->stream);
	} else if (type == RP_TYPE_STRING16) {
		print_text16(p, head->bytes, head->units);
	} else if (type == RP_TYPE_ARRAY && field->element == RP_TYPE_U8) {
		print_blob(p, head->count);
	} else if (type == RP_TYPE_ARRAY) {
		print_elements(p, field, head->count);
	} else {
		print_fixed(p, type, head->bytes, field->wire_bytes);
	}
}

static void print_elements(struct printer *p, const struct rp_reader_field *field, uint16_t count)
{
	struct head head = { 0 };

	putc('[', p->stream);
	for (uint16_t i = 0; i < count && !p->truncated; i++) {
		if (!take_head(p, field->element, field->wire_bytes, &head)) {
			p->truncated = true;
			break;
		}
		if (i)
			putc(',', p->stream);
		print_value(p, field, field->element, &head);
	}
	putc(']', p->stream);
}

static void print_members(struct printer *p, const struct rp_reader_field *fields, uint32_t count)
{
	struct head head = { 0 };

	for (uint32_t i = 0; i < count && !p->truncated; i++) {
		if (!take_head(p, fields[i].type, fields[i].wire_bytes, &head)) {
			p->truncated = true;
			break;
		}
		if (i)
			putc(',', p->stream);
		print_name(p, fields[i].name);
		print_value(p, &fields[i], fields[i].type, &head);
	}
}

int rp_reader_print_json(const struct rp_reader_event *event, FILE *stream)
{
	struct printer p = {
		.stream = stream,
		.in = {
			.at = event->payload,
			.end = (const uint8_t *)event->payload + event->payload_bytes,
		},
	};

	putc('{', stream);
	print_members(&p, event->type->fields, event->type->field_count);
	if (p.truncated)
		fprintf(stream, "%s\"…truncated\":true", p.named ? "," : "");
	putc('}', stream);
	return ferror(stream) ? -EIO : 0;
}
