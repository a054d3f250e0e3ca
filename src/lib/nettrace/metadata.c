/* SPDX-License-Identifier: MIT */
/*
 *	i32 metadata id, provider, i32 event id, name, i64 keywords, i32 version, i32 level,
 *	i32 field count, V1 fields, then tags {i32 length, u8 kind, data}
 *	V1 field: i32 type [struct: i32 count, fields], name
 *	V2 field: i32 size with itself, name, i32 type [array: i32 element]
 *		[struct: i32 count, fields]
 *
 * V1 cannot express an array. If an event has one, it has no V1 field, and a V2 tag contains all
 * its fields: i32 count, V2 fields. The length of a tag is that of its data. The rows of V6, in
 * format.h, have the same type codes in one byte, UTF-8 text, varints, and attributes for keywords,
 * level, version and opcode.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "nettrace/metadata.h"

#include "nettrace/event_header.h"
#include "nettrace/format.h"

static const uint8_t wire_types[] = {
	[RP_TYPE_BOOL] = RP_WIRE_BOOL32,
	[RP_TYPE_CHAR] = RP_WIRE_CHAR16,
	[RP_TYPE_I8] = RP_WIRE_I8,
	[RP_TYPE_U8] = RP_WIRE_U8,
	[RP_TYPE_I16] = RP_WIRE_I16,
	[RP_TYPE_U16] = RP_WIRE_U16,
	[RP_TYPE_I32] = RP_WIRE_I32,
	[RP_TYPE_U32] = RP_WIRE_U32,
	[RP_TYPE_I64] = RP_WIRE_I64,
	[RP_TYPE_U64] = RP_WIRE_U64,
	[RP_TYPE_F32] = RP_WIRE_F32,
	[RP_TYPE_F64] = RP_WIRE_F64,
	[RP_TYPE_POINTER] = RP_WIRE_U64,
	[RP_TYPE_GUID] = RP_WIRE_GUID,
	[RP_TYPE_TIME] = RP_WIRE_TIME,
	[RP_TYPE_STRING] = RP_WIRE_STRING16,
	[RP_TYPE_STRING16] = RP_WIRE_STRING16,
	[RP_TYPE_ARRAY] = RP_WIRE_ARRAY,
	[RP_TYPE_STRUCT] = RP_WIRE_STRUCT,
};

/*
 * Return the suffix that TraceEvent removes from the event's name to show the opcode instead: it
 * shows jobStart as job/Start. NULL: none. If the event has no opcode, TraceEvent derives one from
 * the suffix.
 */
static const char *start_stop_suffix(const struct rp_definition *definition,
				     size_t *ret_prefix_bytes)
{
	static const struct {
		const char *ending, *suffix;
		uint8_t opcode;
	} rows[] = { { "_start", "Start", RP_OPCODE_START }, { "_stop", "Stop", RP_OPCODE_STOP } };
	size_t bytes = strlen(definition->name);

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t ending_bytes = strlen(rows[i].ending);

		if ((definition->opcode != RP_OPCODE_INFO &&
		     definition->opcode != rows[i].opcode) ||
		    bytes <= ending_bytes ||
		    strcasecmp(definition->name + bytes - ending_bytes, rows[i].ending) != 0)
			continue;
		*ret_prefix_bytes = bytes - ending_bytes;
		return rows[i].suffix;
	}
	return NULL;
}

/* job_start is written as jobStart: with the underscore, TraceEvent would show job_/Start. */
static void put_event_name(struct rp_outbuf *out, const struct rp_definition *definition)
{
	size_t prefix_bytes;
	const char *suffix = start_stop_suffix(definition, &prefix_bytes);

	if (suffix)
		rp_outbuf_put_utf16(out, definition->name, prefix_bytes);
	rp_outbuf_put_text16(out, suffix ? suffix : definition->name);
}

static void patch_u32(struct rp_outbuf *out, size_t at, uint32_t value)
{
	if (!out->failed)
		memcpy(out->bytes + at, &value, sizeof(value));
}

static void put_fields_v1(struct rp_outbuf *out, const struct rp_field *fields, size_t count)
{
	rp_outbuf_put_u32(out, count);
	for (size_t i = 0; i < count; i++) {
		rp_outbuf_put_u32(out, wire_types[fields[i].type]);
		if (fields[i].type == RP_TYPE_STRUCT)
			put_fields_v1(out, fields[i].members, fields[i].member_count);
		rp_outbuf_put_text16(out, fields[i].name);
	}
}

static void put_fields_v2(struct rp_outbuf *out, const struct rp_field *fields, size_t count)
{
	rp_outbuf_put_u32(out, count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_field *field = &fields[i];
		size_t start = out->size;

		rp_outbuf_put_u32(out, 0);
		rp_outbuf_put_text16(out, field->name);
		rp_outbuf_put_u32(out, wire_types[field->type]);
		if (field->type == RP_TYPE_ARRAY)
			rp_outbuf_put_u32(out, wire_types[field->element]);
		if (field->type == RP_TYPE_STRUCT ||
		    (field->type == RP_TYPE_ARRAY && field->element == RP_TYPE_STRUCT))
			put_fields_v2(out, field->members, field->member_count);
		patch_u32(out, start, out->size - start);
	}
}

static bool has_array(const struct rp_definition *definition)
{
	for (size_t i = 0; i < definition->field_count; i++)
		if (definition->fields[i].type == RP_TYPE_ARRAY)
			return true;
	return false;
}

void rp_metadata_write(struct rp_outbuf *out, uint32_t metadata_id,
		       const struct rp_definition *definition)
{
	bool v2 = has_array(definition);
	size_t tag;

	rp_outbuf_put_u32(out, metadata_id);
	rp_outbuf_put_text16(out, definition->provider);
	rp_outbuf_put_u32(out, definition->id);
	put_event_name(out, definition);
	rp_outbuf_put_u64(out, definition->keywords);
	rp_outbuf_put_u32(out, definition->version);
	rp_outbuf_put_u32(out, definition->level);
	put_fields_v1(out, definition->fields, v2 ? 0 : definition->field_count);
	/* This tag is the first, because record-trace looks for fields in the first tag only. */
	if (v2) {
		tag = out->size;
		rp_outbuf_put_u32(out, 0);
		rp_outbuf_put_u8(out, RP_METADATA_FIELDS_V2);
		put_fields_v2(out, definition->fields, definition->field_count);
		patch_u32(out, tag, out->size - tag - 5);
	}
	if (definition->opcode) {
		rp_outbuf_put_u32(out, 1);
		rp_outbuf_put_u8(out, RP_METADATA_OPCODE);
		rp_outbuf_put_u8(out, definition->opcode);
	}
}

/* Put a string of V6. Names are UTF-8 already. */
static void put_text8(struct rp_outbuf *out, const char *text, size_t bytes)
{
	uint8_t length[10];

	rp_outbuf_put(out, length, (size_t)(rp_wire_varint_put(length, bytes) - length));
	rp_outbuf_put(out, text, bytes);
}

static void put_event_name8(struct rp_outbuf *out, const struct rp_definition *definition)
{
	size_t prefix_bytes;
	const char *suffix = start_stop_suffix(definition, &prefix_bytes);
	uint8_t length[10];
	size_t bytes;

	if (!suffix) {
		put_text8(out, definition->name, strlen(definition->name));
		return;
	}
	bytes = prefix_bytes + strlen(suffix);
	rp_outbuf_put(out, length, (size_t)(rp_wire_varint_put(length, bytes) - length));
	rp_outbuf_put(out, definition->name, prefix_bytes);
	rp_outbuf_put(out, suffix, strlen(suffix));
}

static void put_u16(struct rp_outbuf *out, size_t value)
{
	const uint16_t small = (uint16_t)value;

	rp_outbuf_put(out, &small, sizeof(small));
}

static void patch_u16(struct rp_outbuf *out, size_t at)
{
	const uint16_t size = (uint16_t)(out->size - at - sizeof(size));

	if (!out->failed)
		memcpy(out->bytes + at, &size, sizeof(size));
}

static void put_fields_row(struct rp_outbuf *out, const struct rp_field *fields, size_t count)
{
	put_u16(out, count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_field *field = &fields[i];
		const char *name = field->name ? field->name : "";
		size_t start = out->size;

		put_u16(out, 0);
		put_text8(out, name, strlen(name));
		rp_outbuf_put_u8(out, wire_types[field->type]);
		if (field->type == RP_TYPE_ARRAY)
			rp_outbuf_put_u8(out, wire_types[field->element]);
		if (field->type == RP_TYPE_STRUCT ||
		    (field->type == RP_TYPE_ARRAY && field->element == RP_TYPE_STRUCT))
			put_fields_row(out, field->members, field->member_count);
		patch_u16(out, start);
	}
}

static void put_attributes(struct rp_outbuf *out, const struct rp_definition *definition)
{
	size_t start = out->size;

	put_u16(out, 0);
	if (definition->opcode) {
		rp_outbuf_put_u8(out, RP_METADATA_OPCODE);
		rp_outbuf_put_u8(out, definition->opcode);
	}
	if (definition->keywords) {
		rp_outbuf_put_u8(out, RP_METADATA_KEYWORDS);
		rp_outbuf_put_u64(out, definition->keywords);
	}
	rp_outbuf_put_u8(out, RP_METADATA_LEVEL);
	rp_outbuf_put_u8(out, definition->level);
	if (definition->version) {
		rp_outbuf_put_u8(out, RP_METADATA_VERSION);
		rp_outbuf_put_u8(out, definition->version);
	}
	patch_u16(out, start);
}

int rp_metadata_write_row(struct rp_outbuf *out, uint32_t metadata_id,
			  const struct rp_definition *definition)
{
	size_t start = out->size;
	uint8_t number[10];

	put_u16(out, 0);
	rp_outbuf_put(out, number, (size_t)(rp_wire_varint_put(number, metadata_id) - number));
	put_text8(out, definition->provider, strlen(definition->provider));
	rp_outbuf_put(out, number, (size_t)(rp_wire_varint_put(number, definition->id) - number));
	put_event_name8(out, definition);
	put_fields_row(out, definition->fields, definition->field_count);
	put_attributes(out, definition);
	/* Sizes of rows have 16 bits. */
	if (out->size - start > UINT16_MAX)
		return -EMSGSIZE;
	patch_u16(out, start);
	return 0;
}
