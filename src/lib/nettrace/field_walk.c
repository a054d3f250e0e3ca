/* SPDX-License-Identifier: MIT */
/*
 * Walks over payloads, in the layout of types.h (for listeners) and in that of nettrace (for
 * readers).
 *
 * The members that struct rp_field and struct rp_reader_field share have the same offsets. So the
 * walk reads both as struct rp_reader_field. For a listener it ignores wire_bytes and the members
 * after it.
 */
#include "nettrace/field_walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <ringpipe/field.h>
#include <ringpipe/reader.h>

#include "base/sized.h"
#include "base/utf.h"
#include "nettrace/convert.h"
#include "base/cursor.h"
#include "nettrace/format.h"

#define SAME_PLACE(member) \
	_Static_assert(offsetof(struct rp_field, member) == \
		       offsetof(struct rp_reader_field, member), "one reads as the other")

SAME_PLACE(name);
SAME_PLACE(members);
SAME_PLACE(member_count);
SAME_PLACE(type);
SAME_PLACE(element);
_Static_assert(sizeof(struct rp_field) == sizeof(struct rp_reader_field), "and so do arrays");

static const uint8_t written_bytes[] = {
	[RP_TYPE_BOOL] = 1, [RP_TYPE_CHAR] = 1, [RP_TYPE_I8] = 1, [RP_TYPE_U8] = 1,
	[RP_TYPE_I16] = 2, [RP_TYPE_U16] = 2, [RP_TYPE_I32] = 4, [RP_TYPE_U32] = 4,
	[RP_TYPE_I64] = 8, [RP_TYPE_U64] = 8, [RP_TYPE_F32] = 4, [RP_TYPE_F64] = 8,
	[RP_TYPE_POINTER] = 8, [RP_TYPE_GUID] = 16, [RP_TYPE_TIME] = 8,
};

static struct rp_reader_field field_at(const void *fields, size_t index)
{
	struct rp_reader_field field;

	memcpy(&field, (const char *)fields + index * sizeof(field), sizeof(field));
	return field;
}

static size_t fixed_bytes(uint8_t layout, const struct rp_reader_field *field, uint8_t type)
{
	if (layout == RP_LAYOUT_WIRE)
		return field->wire_bytes;
	return type < sizeof(written_bytes) ? written_bytes[type] : 0;
}

static bool is_varint(uint8_t layout, const struct rp_reader_field *field, uint8_t type)
{
	return layout == RP_LAYOUT_WIRE && !field->wire_bytes &&
	       (type == RP_TYPE_I64 || type == RP_TYPE_U64);
}

/* Only the field itself has the field's encoding; the elements of an array are plain. */
static enum rp_reader_encoding encoding_of(uint8_t layout, const struct rp_reader_field *field,
					   uint8_t type)
{
	if (layout != RP_LAYOUT_WIRE || type != field->type)
		return RP_READER_PLAIN;
	return (enum rp_reader_encoding)field->encoding;
}

static bool is_located(enum rp_reader_encoding encoding)
{
	return encoding == RP_READER_REL_LOC || encoding == RP_READER_DATA_LOC;
}

/* Take UTF-8 up to a NUL. The NUL is taken too, but not counted. */
static int take_string(struct rp_cursor *in, const uint8_t **ret_text, size_t *ret_bytes)
{
	size_t left = rp_cursor_left(in);
	const uint8_t *nul = left ? memchr(in->at, 0, left) : NULL;

	if (!nul)
		return -EBADMSG;
	*ret_text = in->at;
	*ret_bytes = (size_t)(nul - in->at);
	in->at = nul + 1;
	return 0;
}

static int skip(struct rp_cursor *in, uint8_t layout, const struct rp_reader_field *field,
		uint8_t type);

static int skip_members(struct rp_cursor *in, uint8_t layout, const struct rp_reader_field *field)
{
	for (uint16_t i = 0; i < field->member_count; i++) {
		struct rp_reader_field member = field_at(field->members, i);

		if (skip(in, layout, &member, member.type) < 0)
			return -EBADMSG;
	}
	return 0;
}

/* Skip elements. Stop at an element of size 0, or the loop would run up to 65,535 times. */
static int skip_elements(struct rp_cursor *in, uint8_t layout, const struct rp_reader_field *field,
			 uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		const uint8_t *before = in->at;

		if (skip(in, layout, field, field->element) < 0)
			return -EBADMSG;
		if (in->at == before)
			break;
	}
	return 0;
}

/* Take the number of elements or code units that follow. */
static int take_count(struct rp_cursor *in, enum rp_reader_encoding encoding,
		      const struct rp_reader_field *field, uint16_t *ret_count)
{
	if (encoding != RP_READER_FIXED_COUNT)
		return rp_cursor_u16(in, ret_count);
	*ret_count = field->fixed_count;
	return 0;
}

/* Take the code units of a text whose length does not depend on a NUL. */
static int take_units(struct rp_cursor *in, enum rp_reader_encoding encoding,
		      const struct rp_reader_field *field, uint8_t type, struct rp_cursor *ret_text)
{
	uint16_t count;

	if (take_count(in, encoding, field, &count) < 0)
		return -EBADMSG;
	return rp_cursor_sub(in, type == RP_TYPE_STRING ? count : 2 * (size_t)count, ret_text);
}

static int skip(struct rp_cursor *in, uint8_t layout, const struct rp_reader_field *field,
		uint8_t type)
{
	enum rp_reader_encoding encoding = encoding_of(layout, field, type);
	struct rp_cursor text;
	const uint8_t *bytes;
	uint64_t number;
	uint16_t count;
	size_t length;

	if (type == RP_TYPE_STRUCT)
		return skip_members(in, layout, field);
	if (is_located(encoding))
		return rp_cursor_take(in, 4, &bytes);
	if (type == RP_TYPE_ARRAY)
		return take_count(in, encoding, field, &count) < 0 ? -EBADMSG :
		       skip_elements(in, layout, field, count);
	if ((type == RP_TYPE_STRING || type == RP_TYPE_STRING16) && encoding)
		return take_units(in, encoding, field, type, &text);
	if (type == RP_TYPE_STRING)
		return take_string(in, &bytes, &length);
	if (type == RP_TYPE_STRING16)
		return rp_cursor_string16(in, &bytes, &length);
	if (is_varint(layout, field, type))
		return rp_cursor_varint(in, &number);
	return rp_cursor_take(in, fixed_bytes(layout, field, type), &bytes);
}

/* Times on the wire, in 100 ns since 1601, may exceed the range of 64-bit nanoseconds. */
static int64_t time_from_wire(int64_t ticks)
{
	int64_t ns;

	if (__builtin_sub_overflow(ticks, RP_WIRE_TIME_1970, &ticks) ||
	    __builtin_mul_overflow(ticks, 100, &ns))
		return ticks < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

static void decode(uint8_t layout, struct rp_value *value)
{
	size_t size = value->size_bytes < 8 ? value->size_bytes : 8;
	uint64_t number = 0;
	float f32;

	memcpy(&number, value->bytes, size);
	value->u64 = number;
	switch (value->type) {
	case RP_TYPE_BOOL:
		value->u64 = number != 0;
		break;
	case RP_TYPE_CHAR:
		/* A single unit of UTF-8 is a character only in ASCII. */
		if (layout == RP_LAYOUT_WIRE && size == 1 && number >= 0x80)
			value->u64 = 0xfffd;
		break;
	case RP_TYPE_I8:
		value->i64 = (int8_t)number;
		break;
	case RP_TYPE_I16:
		value->i64 = (int16_t)number;
		break;
	case RP_TYPE_I32:
		value->i64 = (int32_t)number;
		break;
	case RP_TYPE_F32:
		memcpy(&f32, value->bytes, sizeof(f32));
		value->f64 = (double)f32;
		break;
	case RP_TYPE_F64:
		memcpy(&value->f64, value->bytes, sizeof(value->f64));
		break;
	case RP_TYPE_GUID:
		memcpy(&value->guid, value->bytes, sizeof(value->guid));
		if (layout == RP_LAYOUT_WIRE)
			rp_guid_swap(value->bytes, value->guid.bytes);
		break;
	case RP_TYPE_TIME:
		value->i64 = (int64_t)number;
		if (layout == RP_LAYOUT_WIRE)
			value->i64 = time_from_wire(value->i64);
	}
}

/* Find the bytes that a REL_LOC or DATA_LOC field refers to. They lie in the payload. */
static int take_located(const struct rp_fields *fields, struct rp_cursor *in,
			enum rp_reader_encoding encoding, struct rp_cursor *ret_data)
{
	uint32_t place;
	size_t offset, size, left;

	if (rp_cursor_u32(in, &place) < 0)
		return -EBADMSG;
	ret_data->at = encoding == RP_READER_REL_LOC ? in->at : fields->payload;
	left = (size_t)(fields->payload_end - ret_data->at);
	offset = place & 0xffff;
	size = place >> 16;
	if (offset > left || size > left - offset)
		return -EBADMSG;
	ret_data->at += offset;
	ret_data->end = ret_data->at + size;
	return 0;
}

static void begin_inner(struct rp_fields *fields, const struct rp_reader_field *field,
			struct rp_cursor data, struct rp_value *value)
{
	bool is_array = value->type == RP_TYPE_ARRAY;

	value->bytes = data.at;
	value->size_bytes = rp_cursor_left(&data);
	value->inner = (struct rp_fields){
		.at = data.at,
		.end = data.end,
		.fields = is_array ? fields->fields : field->members,
		.left = is_array ? value->count : field->member_count,
		.layout = fields->layout,
		.repeats = is_array,
		.payload = fields->payload,
		.payload_end = fields->payload_end,
	};
}

/* Begin a walk over the elements of a located array: as many as its bytes contain. */
static int take_located_array(struct rp_fields *fields, struct rp_cursor *in,
			      const struct rp_reader_field *field, struct rp_value *value)
{
	struct rp_cursor data, rest;

	if (take_located(fields, in, (enum rp_reader_encoding)field->encoding, &data) < 0)
		return -EBADMSG;
	for (rest = data; rest.at < rest.end && value->count < UINT16_MAX; value->count++) {
		const uint8_t *before = rest.at;

		if (skip(&rest, fields->layout, field, field->element) < 0 || rest.at == before)
			break;
	}
	begin_inner(fields, field, data, value);
	return 0;
}

/* Begin a walk over an array's elements or a struct's members, as far as the payload has them. */
static int take_inner(struct rp_fields *fields, struct rp_cursor *in,
		      const struct rp_reader_field *field, struct rp_value *value)
{
	bool is_array = value->type == RP_TYPE_ARRAY;
	enum rp_reader_encoding encoding = encoding_of(fields->layout, field, value->type);
	const uint8_t *start;
	int ret;

	if (is_located(encoding))
		return take_located_array(fields, in, field, value);
	if (is_array && take_count(in, encoding, field, &value->count) < 0)
		return -EBADMSG;
	start = in->at;
	ret = is_array ? skip_elements(in, fields->layout, field, value->count) :
	      skip_members(in, fields->layout, field);
	if (ret < 0) {
		in->at = in->end;
		fields->cut = 1;
	}
	begin_inner(fields, field, (struct rp_cursor){ start, in->at }, value);
	return 0;
}

/* Take a text that has a length. If the length is a maximum, a NUL ends the text. */
static int take_text(struct rp_fields *fields, struct rp_cursor *in,
		     const struct rp_reader_field *field, enum rp_reader_encoding encoding,
		     struct rp_value *value)
{
	size_t unit = value->type == RP_TYPE_STRING ? 1 : 2, size = 0;
	struct rp_cursor text;

	if ((is_located(encoding) ? take_located(fields, in, encoding, &text) :
	     take_units(in, encoding, field, value->type, &text)) < 0)
		return -EBADMSG;
	while (rp_cursor_left(&text) - size >= unit &&
	       (encoding == RP_READER_COUNTED || text.at[size] || text.at[size + unit - 1]))
		size += unit;
	value->bytes = text.at;
	value->size_bytes = size;
	return 0;
}

static int take_varint(struct rp_cursor *in, struct rp_value *value)
{
	const uint8_t *start = in->at;
	uint64_t number;

	if (rp_cursor_varint(in, &number) < 0)
		return -EBADMSG;
	value->bytes = start;
	value->size_bytes = (size_t)(in->at - start);
	value->u64 = value->type == RP_TYPE_U64 ? number : number >> 1 ^ -(number & 1);
	return 0;
}

static int take(struct rp_fields *fields, struct rp_cursor *in,
		const struct rp_reader_field *field, struct rp_value *value)
{
	enum rp_reader_encoding encoding = encoding_of(fields->layout, field, value->type);
	const uint8_t **ret_bytes = (const uint8_t **)&value->bytes;

	if (value->type == RP_TYPE_ARRAY || value->type == RP_TYPE_STRUCT)
		return take_inner(fields, in, field, value);
	if ((value->type == RP_TYPE_STRING || value->type == RP_TYPE_STRING16) && encoding)
		return take_text(fields, in, field, encoding, value);
	if (value->type == RP_TYPE_STRING)
		return take_string(in, ret_bytes, &value->size_bytes);
	if (value->type == RP_TYPE_STRING16) {
		if (rp_cursor_string16(in, ret_bytes, &value->size_bytes) < 0)
			return -EBADMSG;
		value->size_bytes *= 2;
		return 0;
	}
	if (is_varint(fields->layout, field, value->type))
		return take_varint(in, value);
	value->size_bytes = fixed_bytes(fields->layout, field, value->type);
	if (rp_cursor_take(in, value->size_bytes, ret_bytes) < 0)
		return -EBADMSG;
	decode(fields->layout, value);
	return 0;
}

RP_PUBLIC int rp_fields_next(struct rp_fields *fields, struct rp_value *ret_value)
{
	struct rp_cursor in = { fields->at, fields->end };
	struct rp_value value = RP_VALUE_INIT;
	struct rp_reader_field field;

	if (!rp_sized_fits(ret_value, RP_VALUE_SIZE_V1))
		return -EINVAL;
	if (fields->cut)
		return -EBADMSG;
	if (fields->left == 0)
		return 0;
	field = field_at(fields->fields, 0);
	value.name = field.name;
	value.type = fields->repeats ? field.element : field.type;
	value.element = value.type == RP_TYPE_ARRAY ? field.element : RP_TYPE_NONE;
	if (take(fields, &in, &field, &value) < 0) {
		fields->cut = 1;
		return -EBADMSG;
	}
	fields->at = in.at;
	fields->left--;
	if (!fields->repeats)
		fields->fields = (const char *)fields->fields + sizeof(field);
	rp_sized_write(ret_value, &value, sizeof(value));
	return 1;
}

RP_PUBLIC int rp_fields_find(const struct rp_fields *fields, const char *name,
			     struct rp_value *ret_value)
{
	struct rp_fields walk = *fields;
	struct rp_value value = RP_VALUE_INIT;
	int ret;

	if (!rp_sized_fits(ret_value, RP_VALUE_SIZE_V1))
		return -EINVAL;
	while ((ret = rp_fields_next(&walk, &value)) == 1) {
		if (strcmp(value.name, name) == 0) {
			rp_sized_write(ret_value, &value, sizeof(value));
			return 0;
		}
	}
	return ret < 0 ? ret : -ENOENT;
}

/* Return how many bytes of a text fit into `capacity`, up to the end of a character. */
static size_t whole_characters(const char *text, size_t size, size_t capacity)
{
	if (size <= capacity)
		return size;
	while (capacity && ((uint8_t)text[capacity] & 0xc0) == 0x80)
		capacity--;
	return capacity;
}

static size_t text_from_utf16(const uint8_t *in, size_t units, char *text, size_t capacity,
			      size_t *ret_copied)
{
	size_t total = 0;
	char utf8[4];

	*ret_copied = 0;
	while (units) {
		size_t step = rp_utf16_step(in, units);
		size_t size = rp_utf8_from_utf16(in, step, utf8);

		if (*ret_copied == total && total + size <= capacity) {
			memcpy(text + total, utf8, size);
			*ret_copied += size;
		}
		total += size;
		in += 2 * step;
		units -= step;
	}
	return total;
}

RP_PUBLIC size_t rp_value_get_text(const struct rp_value *value, char *text, size_t capacity)
{
	size_t total = 0, copied = 0, space = capacity ? capacity - 1 : 0;
	uint8_t unit[2] = { value->u64 & 0xff, value->u64 >> 8 & 0xff };

	if (value->type == RP_TYPE_STRING) {
		total = value->size_bytes;
		copied = whole_characters(value->bytes, total, space);
		if (copied)
			memcpy(text, value->bytes, copied);
	} else if (value->type == RP_TYPE_STRING16) {
		total = text_from_utf16(value->bytes, value->size_bytes / 2, text, space, &copied);
	} else if (value->type == RP_TYPE_CHAR) {
		total = text_from_utf16(unit, 1, text, space, &copied);
	}
	if (capacity)
		text[copied] = '\0';
	return total;
}

RP_PUBLIC void rp_reader_get_fields(const struct rp_reader_event *event,
				    struct rp_fields *ret_fields)
{
	*ret_fields = (struct rp_fields){
		.at = event->payload,
		.end = (const uint8_t *)event->payload + event->payload_bytes,
		.fields = event->type->fields,
		.left = event->type->field_count,
		.layout = RP_LAYOUT_WIRE,
		.payload = event->payload,
		.payload_end = (const uint8_t *)event->payload + event->payload_bytes,
	};
}
