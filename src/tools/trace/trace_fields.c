/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_fields.h"

#include <errno.h>
#include <string.h>

#include <ringpipe/field.h>

#include "base/utf.h"
#include "nettrace/convert.h"
#include "nettrace/describe.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"

/* A hostile payload may claim its bytes in many fields. */
#define PAYLOAD_MAX (4u << 20)

static bool is_text(uint8_t type)
{
	return type == RP_TYPE_STRING || type == RP_TYPE_STRING16;
}

static bool is_located(const struct rp_reader_field *field)
{
	return field->encoding == RP_READER_REL_LOC || field->encoding == RP_READER_DATA_LOC;
}

static bool has_types_of_v4(enum rp_trace_form form)
{
	return form == RP_TRACE_FORM_V4 || form == RP_TRACE_FORM_PLAIN;
}

/* Change a value of fixed size, or the element of an array, to what the form has for it. */
static void change_simple(uint8_t *type, uint8_t *wire_bytes, enum rp_trace_form form)
{
	const bool is_number = *type == RP_TYPE_I64 || *type == RP_TYPE_U64;

	if (has_types_of_v4(form)) {
		if (*type == RP_TYPE_BOOL)
			*wire_bytes = 4;
		else if (*type == RP_TYPE_CHAR)
			*wire_bytes = 2;
		else if (is_number)
			*wire_bytes = 8;
	} else if (is_number || *type == RP_TYPE_I32 || *type == RP_TYPE_U32) {
		*type = *type == RP_TYPE_I32 || *type == RP_TYPE_I64 ? RP_TYPE_I64 : RP_TYPE_U64;
		*wire_bytes = 0;
	}
}

/* Return: the field as the form has it, with the members as they were. */
static struct rp_reader_field change(const struct rp_reader_field *field, enum rp_trace_form form)
{
	struct rp_reader_field to = *field;

	if (form == RP_TRACE_FORM_V6)
		return to;
	if (is_text(field->type)) {
		if (has_types_of_v4(form)) {
			to.type = RP_TYPE_STRING16;
			to.encoding = RP_READER_PLAIN;
		} else if (field->encoding != RP_READER_FIXED_COUNT) {
			to.type = RP_TYPE_STRING;
			to.encoding = RP_READER_COUNTED;
		}
	} else if (field->type == RP_TYPE_ARRAY) {
		change_simple(&to.element, &to.wire_bytes, form);
		if (has_types_of_v4(form) || is_located(field))
			to.encoding = RP_READER_COUNTED;
	} else {
		change_simple(&to.type, &to.wire_bytes, form);
	}
	return to;
}

static bool differs(const struct rp_reader_field *fields, size_t count, enum rp_trace_form form)
{
	for (size_t i = 0; i < count; i++) {
		const struct rp_reader_field to = change(&fields[i], form);
		const bool same_encoding = to.encoding == fields[i].encoding ||
			(to.type == RP_TYPE_ARRAY && to.encoding == RP_READER_COUNTED &&
			 fields[i].encoding == RP_READER_PLAIN);

		if (to.type != fields[i].type || to.element != fields[i].element ||
		    to.wire_bytes != fields[i].wire_bytes || !same_encoding ||
		    differs(fields[i].members, fields[i].member_count, form))
			return true;
	}
	return false;
}

/* Readers know the layout of these providers' events, and do not look at their fields. */
static enum rp_trace_form form_of(const struct rp_reader_type *type, enum rp_trace_form form)
{
	static const char *const known[] = { "ringpipe", "Universal.", "Microsoft-" };

	for (size_t i = 0; form == RP_TRACE_FORM_COMPACT && i < sizeof(known) / sizeof(*known); i++)
		if (strncmp(type->provider, known[i], strlen(known[i])) == 0)
			return RP_TRACE_FORM_V6;
	return form;
}

bool rp_trace_is_rewritten(const struct rp_reader_type *type, enum rp_trace_form form)
{
	form = form_of(type, form);
	return form != RP_TRACE_FORM_V6 && differs(type->fields, type->field_count, form);
}

/* The inverse of rp_describe_code(). A pointer of ringpipe is a U64 in every trace. */
static uint8_t find_code(uint8_t type, uint8_t wire_bytes)
{
	uint8_t known, bytes;

	for (uint8_t code = 0; code <= RP_WIRE_BOOL8; code++)
		if (rp_describe_code(code, &known, &bytes) == 0 && known == type &&
		    bytes == wire_bytes)
			return code;
	return RP_WIRE_DECIMAL;
}

static void put_u16(struct rp_outbuf *out, size_t value)
{
	const uint16_t small = (uint16_t)value;

	rp_outbuf_put(out, &small, sizeof(small));
}

static void put_utf8(struct rp_outbuf *out, const char *text)
{
	const size_t bytes = text ? strlen(text) : 0;
	uint8_t length[10];

	rp_outbuf_put(out, length, (size_t)(rp_wire_varint_put(length, bytes) - length));
	rp_outbuf_put(out, text, bytes);
}

static void patch_u16(struct rp_outbuf *out, size_t at)
{
	const uint16_t size = (uint16_t)(out->size - at - sizeof(size));

	if (!out->failed)
		memcpy(out->bytes + at, &size, sizeof(size));
}

static void patch_u32(struct rp_outbuf *out, size_t at, size_t value)
{
	const uint32_t size = (uint32_t)value;

	if (!out->failed)
		memcpy(out->bytes + at, &size, sizeof(size));
}

static void put_fields_v6(struct rp_outbuf *out, const struct rp_reader_field *fields, size_t count,
			  enum rp_trace_form form);

/* The code of an array, or of text with a length of its own. */
static uint8_t array_code(const struct rp_reader_field *field)
{
	switch (field->encoding) {
	case RP_READER_FIXED_COUNT:
		return RP_WIRE_FIXED_ARRAY;
	case RP_READER_REL_LOC:
		return RP_WIRE_REL_LOC;
	case RP_READER_DATA_LOC:
		return RP_WIRE_DATA_LOC;
	}
	return RP_WIRE_ARRAY;
}

static void put_type_v6(struct rp_outbuf *out, const struct rp_reader_field *field,
			enum rp_trace_form form)
{
	const struct rp_reader_field to = change(field, form);
	uint8_t value = to.type;

	if (is_text(to.type) && to.encoding != RP_READER_PLAIN) {
		rp_outbuf_put_u8(out, array_code(&to));
		rp_outbuf_put_u8(out, to.type == RP_TYPE_STRING ? RP_WIRE_CHAR8 : RP_WIRE_CHAR16);
	} else {
		if (to.type == RP_TYPE_ARRAY) {
			rp_outbuf_put_u8(out, array_code(&to));
			value = to.element;
		}
		rp_outbuf_put_u8(out, find_code(value, to.wire_bytes));
		if (value == RP_TYPE_STRUCT)
			put_fields_v6(out, to.members, to.member_count, form);
	}
	if (to.encoding == RP_READER_FIXED_COUNT)
		put_u16(out, to.fixed_count);
}

static void put_fields_v6(struct rp_outbuf *out, const struct rp_reader_field *fields, size_t count,
			  enum rp_trace_form form)
{
	put_u16(out, count);
	for (size_t i = 0; i < count; i++) {
		const size_t start = out->size;

		put_u16(out, 0);
		put_utf8(out, fields[i].name);
		put_type_v6(out, &fields[i], form);
		patch_u16(out, start);
	}
}

static void put_attributes_v6(struct rp_outbuf *out, const struct rp_reader_type *type,
			      const struct rp_trace_attributes *attributes)
{
	static const struct rp_guid none;
	const size_t start = out->size;
	struct rp_guid guid;

	put_u16(out, 0);
	if (attributes->opcode) {
		rp_outbuf_put_u8(out, RP_METADATA_OPCODE);
		rp_outbuf_put_u8(out, (uint8_t)attributes->opcode);
	}
	if (attributes->keywords) {
		rp_outbuf_put_u8(out, RP_METADATA_KEYWORDS);
		rp_outbuf_put_u64(out, attributes->keywords);
	}
	if (type->message && *type->message) {
		rp_outbuf_put_u8(out, RP_METADATA_MESSAGE);
		put_utf8(out, type->message);
	}
	if (type->description && *type->description) {
		rp_outbuf_put_u8(out, RP_METADATA_DESCRIPTION);
		put_utf8(out, type->description);
	}
	if (memcmp(&type->provider_guid, &none, sizeof(none)) != 0) {
		rp_guid_swap(type->provider_guid.bytes, guid.bytes);
		rp_outbuf_put_u8(out, RP_METADATA_PROVIDER_GUID);
		rp_outbuf_put(out, &guid, sizeof(guid));
	}
	rp_outbuf_put_u8(out, RP_METADATA_LEVEL);
	rp_outbuf_put_u8(out, (uint8_t)attributes->level);
	if (attributes->version) {
		rp_outbuf_put_u8(out, RP_METADATA_VERSION);
		rp_outbuf_put_u8(out, (uint8_t)attributes->version);
	}
	patch_u16(out, start);
}

/* Rows have a size of 16 bits: a type whose fields do not fit is written without them. */
static int put_row(struct rp_outbuf *out, enum rp_trace_form form, uint32_t metadata_id,
		   const struct rp_reader_type *type, size_t field_count,
		   const struct rp_trace_attributes *attributes)
{
	const size_t start = out->size;
	uint8_t number[10];

	put_u16(out, 0);
	rp_outbuf_put(out, number, (size_t)(rp_wire_varint_put(number, metadata_id) - number));
	put_utf8(out, type->provider);
	rp_outbuf_put(out, number, (size_t)(rp_wire_varint_put(number, type->id) - number));
	put_utf8(out, type->name);
	put_fields_v6(out, type->fields, field_count, form);
	put_attributes_v6(out, type, attributes);
	if (out->size - start <= UINT16_MAX) {
		patch_u16(out, start);
		return 0;
	}
	out->size = start;
	return field_count ? put_row(out, form, metadata_id, type, 0, attributes) : -EMSGSIZE;
}

static void put_fields_v1(struct rp_outbuf *out, const struct rp_reader_field *fields, size_t count)
{
	rp_outbuf_put_u32(out, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_reader_field to = change(&fields[i], RP_TRACE_FORM_V4);

		rp_outbuf_put_u32(out, find_code(to.type, to.wire_bytes));
		if (to.type == RP_TYPE_STRUCT)
			put_fields_v1(out, to.members, to.member_count);
		rp_outbuf_put_text16(out, to.name);
	}
}

static void put_fields_v2(struct rp_outbuf *out, const struct rp_reader_field *fields, size_t count)
{
	rp_outbuf_put_u32(out, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_reader_field to = change(&fields[i], RP_TRACE_FORM_V4);
		const size_t start = out->size;
		uint8_t value = to.type;

		rp_outbuf_put_u32(out, 0);
		rp_outbuf_put_text16(out, to.name);
		if (to.type == RP_TYPE_ARRAY) {
			rp_outbuf_put_u32(out, RP_WIRE_ARRAY);
			value = to.element;
		}
		rp_outbuf_put_u32(out, find_code(value, to.wire_bytes));
		if (value == RP_TYPE_STRUCT)
			put_fields_v2(out, to.members, to.member_count);
		patch_u32(out, start, out->size - start);
	}
}

static bool has_array(const struct rp_reader_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fields[i].type == RP_TYPE_ARRAY ||
		    has_array(fields[i].members, fields[i].member_count))
			return true;
	return false;
}

static void put_blob(struct rp_outbuf *out, uint32_t metadata_id, const struct rp_reader_type *type,
		     const struct rp_trace_attributes *attributes)
{
	const bool is_v2 = has_array(type->fields, type->field_count);
	size_t tag;

	rp_outbuf_put_u32(out, metadata_id);
	rp_outbuf_put_text16(out, type->provider);
	rp_outbuf_put_u32(out, type->id);
	rp_outbuf_put_text16(out, type->name);
	rp_outbuf_put_u64(out, attributes->keywords);
	rp_outbuf_put_u32(out, attributes->version);
	rp_outbuf_put_u32(out, attributes->level);
	put_fields_v1(out, type->fields, is_v2 ? 0 : type->field_count);
	if (is_v2) {
		tag = out->size;
		rp_outbuf_put_u32(out, 0);
		rp_outbuf_put_u8(out, RP_METADATA_FIELDS_V2);
		put_fields_v2(out, type->fields, type->field_count);
		patch_u32(out, tag, out->size - tag - 5);
	}
	if (attributes->opcode) {
		rp_outbuf_put_u32(out, 1);
		rp_outbuf_put_u8(out, RP_METADATA_OPCODE);
		rp_outbuf_put_u8(out, (uint8_t)attributes->opcode);
	}
}

int rp_trace_put_definition(struct rp_outbuf *out, enum rp_trace_form form, uint32_t metadata_id,
			    const struct rp_reader_type *type,
			    const struct rp_trace_attributes *attributes)
{
	if (form != RP_TRACE_FORM_V4)
		return put_row(out, form_of(type, form), metadata_id, type, type->field_count,
			       attributes);
	put_blob(out, metadata_id, type, attributes);
	return 0;
}

/* A payload under construction. */
struct rewrite {
	struct rp_outbuf *out;
	enum rp_trace_form form;
	size_t start;
	bool is_cut;
};

static void put_integer(struct rp_outbuf *out, const struct rp_value *value, uint8_t type,
			uint8_t wire_bytes)
{
	uint64_t number = value->u64;
	uint8_t bytes[10];

	if (wire_bytes) {
		rp_outbuf_put(out, &number, wire_bytes);
		return;
	}
	if (type == RP_TYPE_I64)
		number = number << 1 ^ (uint64_t)((int64_t)number >> 63);
	rp_outbuf_put(out, bytes, (size_t)(rp_wire_varint_put(bytes, number) - bytes));
}

/* UTF-16 that ends with a NUL cannot contain one: it becomes U+FFFD. */
static void put_text16(struct rewrite *rewrite, const struct rp_value *value)
{
	struct rp_outbuf *out = rewrite->out;
	const size_t units = value->type == RP_TYPE_STRING ? value->size_bytes :
			     value->size_bytes / 2;
	uint8_t *text;
	size_t count;

	if (rp_outbuf_reserve(out, 2 * units + 2) < 0) {
		out->failed = true;
		return;
	}
	text = out->bytes + out->size;
	count = units;
	if (value->type == RP_TYPE_STRING)
		count = rp_utf16_from_utf8(value->bytes, value->size_bytes, text, units);
	else if (units)
		memcpy(text, value->bytes, 2 * units);
	for (size_t i = 0; i < count; i++) {
		if (!text[2 * i] && !text[2 * i + 1])
			memcpy(text + 2 * i, "\xfd\xff", 2);
	}
	out->size += 2 * count;
	put_u16(out, 0);
}

/* A count of 16 bits and UTF-8, cut at a character. */
static void put_text8(struct rewrite *rewrite, const struct rp_value *value)
{
	struct rp_outbuf *out = rewrite->out;
	const size_t bytes_max = value->type == RP_TYPE_STRING ? value->size_bytes :
				 value->size_bytes / 2 * 3;
	const size_t start = out->size;
	size_t size = value->size_bytes;
	uint8_t *text;

	if (rp_outbuf_reserve(out, bytes_max + 2) < 0) {
		out->failed = true;
		return;
	}
	text = out->bytes + out->size + 2;
	if (value->type == RP_TYPE_STRING16)
		size = rp_utf8_from_utf16(value->bytes, value->size_bytes / 2, (char *)text);
	else if (size)
		memcpy(text, value->bytes, size);
	if (size > UINT16_MAX) {
		size = UINT16_MAX;
		while (size && (text[size] & 0xc0) == 0x80)
			size--;
		rewrite->is_cut = true;
	}
	out->size += 2 + size;
	patch_u16(out, start);
}

/* Text of a fixed number of units, of which the value has those before a NUL. */
static void put_fixed_text(struct rewrite *rewrite, const struct rp_reader_field *to,
			   const struct rp_value *value)
{
	const size_t bytes = (to->type == RP_TYPE_STRING ? 1 : 2) * (size_t)to->fixed_count;

	rp_outbuf_put(rewrite->out, value->bytes, value->size_bytes);
	for (size_t i = value->size_bytes; i < bytes; i++)
		rp_outbuf_put_u8(rewrite->out, 0);
}

static int put_values(struct rewrite *rewrite, struct rp_fields *fields,
		      const struct rp_reader_field *from, size_t count, bool repeats,
		      size_t *ret_count);

static int put_array(struct rewrite *rewrite, struct rp_value *value,
		     const struct rp_reader_field *from, const struct rp_reader_field *to)
{
	const size_t count_at = rewrite->out->size;
	size_t count;
	int ret;

	if (to->encoding != RP_READER_FIXED_COUNT)
		put_u16(rewrite->out, 0);
	ret = put_values(rewrite, &value->inner, from, value->count, true, &count);
	if (to->encoding != RP_READER_FIXED_COUNT && !rewrite->out->failed) {
		const uint16_t there = (uint16_t)count;

		memcpy(rewrite->out->bytes + count_at, &there, sizeof(there));
	}
	return ret;
}

static int put_value(struct rewrite *rewrite, struct rp_value *value,
		     const struct rp_reader_field *from, bool is_element)
{
	const struct rp_reader_field to = change(from, rewrite->form);
	const uint8_t type = is_element ? to.element : to.type;
	const bool is_integer = type == RP_TYPE_BOOL || type == RP_TYPE_CHAR ||
				type == RP_TYPE_I64 || type == RP_TYPE_U64;
	size_t count;

	if (type == RP_TYPE_ARRAY)
		return put_array(rewrite, value, from, &to);
	if (type == RP_TYPE_STRUCT)
		return put_values(rewrite, &value->inner, from->members, from->member_count, false,
				  &count);
	if (is_text(type) && !is_element && to.encoding == RP_READER_FIXED_COUNT)
		put_fixed_text(rewrite, &to, value);
	else if (type == RP_TYPE_STRING)
		put_text8(rewrite, value);
	else if (type == RP_TYPE_STRING16)
		put_text16(rewrite, value);
	else if (is_integer && to.wire_bytes != from->wire_bytes)
		put_integer(rewrite->out, value, type, to.wire_bytes);
	else
		rp_outbuf_put(rewrite->out, value->bytes, value->size_bytes);
	return rewrite->out->failed ? -ENOMEM : 0;
}

/* Return: 0; -EBADMSG: the payload ends here; -EMSGSIZE: it was cut; -ENOMEM. */
static int put_values(struct rewrite *rewrite, struct rp_fields *fields,
		      const struct rp_reader_field *from, size_t count, bool repeats,
		      size_t *ret_count)
{
	struct rp_value value = RP_VALUE_INIT;
	int ret = 0;

	for (*ret_count = 0; *ret_count < count; ++*ret_count) {
		if (rewrite->out->size - rewrite->start > PAYLOAD_MAX)
			return -EMSGSIZE;
		ret = rp_fields_next(fields, &value);
		if (ret != 1)
			return ret < 0 ? ret : -EBADMSG;
		ret = put_value(rewrite, &value, repeats ? from : from + *ret_count, repeats);
		if (ret)
			break;
	}
	return ret;
}

bool rp_trace_put_payload(struct rp_outbuf *out, enum rp_trace_form form,
			  const struct rp_reader_event *event)
{
	struct rewrite rewrite = {
		.out = out, .form = form_of(event->type, form), .start = out->size,
	};
	const struct rp_reader_type *type = event->type;
	bool has_located = false;
	struct rp_fields fields;
	size_t count;
	int ret;

	rp_reader_get_fields(event, &fields);
	ret = put_values(&rewrite, &fields, type->fields, type->field_count, false, &count);
	for (size_t i = 0; i < type->field_count; i++)
		has_located |= is_located(&type->fields[i]);
	/* Located values lie after the fields; other bytes there belong to a later version. */
	if (ret == 0 && !has_located)
		rp_outbuf_put(out, fields.at, (size_t)(fields.end - fields.at));
	return ret != -EMSGSIZE && !rewrite.is_cut;
}
