/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace_fields.h"

#include <errno.h>
#include <string.h>

#include <ringpipe/field.h>

#include "base/utf.h"
#include "nettrace/describe.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"
#include "nettrace/metadata.h"

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

/* See get_field of struct rp_metadata. */
static struct rp_metadata_field get_field(const void *fields, size_t index, const void *user)
{
	const enum rp_trace_form *form = user;
	const struct rp_reader_field to =
		change((const struct rp_reader_field *)fields + index, *form);
	struct rp_metadata_field field = {
		.name = to.name, .members = to.members, .member_count = to.member_count,
		.fixed_count = to.fixed_count,
	};

	if (is_text(to.type) && to.encoding != RP_READER_PLAIN) {
		field.code = array_code(&to);
		field.element = to.type == RP_TYPE_STRING ? RP_WIRE_CHAR8 : RP_WIRE_CHAR16;
	} else if (to.type == RP_TYPE_ARRAY) {
		field.code = array_code(&to);
		field.element = find_code(to.element, to.wire_bytes);
	} else {
		field.code = find_code(to.type, to.wire_bytes);
	}
	return field;
}

int rp_trace_put_definition(struct rp_outbuf *out, enum rp_trace_form form, uint32_t metadata_id,
			    const struct rp_reader_type *type,
			    const struct rp_trace_attributes *attributes)
{
	const enum rp_trace_form own_form = form_of(type, form);
	struct rp_metadata metadata = {
		.metadata_id = metadata_id, .event_id = type->id, .provider = type->provider,
		.name = type->name, .name_bytes = strlen(type->name),
		.keywords = attributes->keywords, .version = attributes->version,
		.level = attributes->level, .opcode = attributes->opcode, .fields = type->fields,
		.field_count = type->field_count, .get_field = get_field, .user = &own_form,
		.message = type->message, .description = type->description,
		.provider_guid = type->provider_guid,
	};
	const size_t start = out->size;
	int ret;

	if (form == RP_TRACE_FORM_V4) {
		rp_metadata_put_v4(out, &metadata);
		return 0;
	}
	ret = rp_metadata_put_v6(out, &metadata);
	/* A type whose fields do not fit into a row is written without them. */
	if (ret == -EMSGSIZE && type->field_count) {
		out->size = start;
		metadata.field_count = 0;
		ret = rp_metadata_put_v6(out, &metadata);
	}
	if (ret < 0)
		out->size = start;
	return ret;
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

	if (wire_bytes) {
		rp_outbuf_put(out, &number, wire_bytes);
		return;
	}
	if (type == RP_TYPE_I64)
		number = number << 1 ^ (uint64_t)((int64_t)number >> 63);
	rp_outbuf_put_varint(out, number);
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
	rp_outbuf_put_u16(out, 0);
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
	rp_outbuf_patch_u16(out, start, size);
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
		rp_outbuf_put_u16(rewrite->out, 0);
	ret = put_values(rewrite, &value->inner, from, value->count, true, &count);
	if (to->encoding != RP_READER_FIXED_COUNT)
		rp_outbuf_patch_u16(rewrite->out, count_at, count);
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
