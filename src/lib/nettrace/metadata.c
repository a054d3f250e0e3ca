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

#include "nettrace/convert.h"
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
 * Find the .NET form of an event whose name ends in _start or _stop: job_start becomes jobStart,
 * which TraceEvent shows as job/Start. If the event has no opcode, TraceEvent derives one from the
 * suffix.
 * @ret_prefix_bytes: the length of the name without the ending; untouched if the result is NULL.
 *
 * Return: "Start" or "Stop", to append to the prefix; NULL if the name has no such ending or the
 * opcode does not match it.
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

/* See get_field of struct rp_metadata. */
static struct rp_metadata_field get_field(const void *fields, size_t index, const void *user)
{
	const struct rp_field *field = (const struct rp_field *)fields + index;

	(void)user;
	return (struct rp_metadata_field){
		.name = field->name, .members = field->members,
		.member_count = field->member_count, .code = wire_types[field->type],
		.element = field->type == RP_TYPE_ARRAY ? wire_types[field->element] : 0,
	};
}

static struct rp_metadata describe(uint32_t metadata_id, const struct rp_definition *definition)
{
	struct rp_metadata metadata = {
		.metadata_id = metadata_id, .event_id = definition->id,
		.provider = definition->provider, .name = definition->name,
		.name_bytes = strlen(definition->name), .keywords = definition->keywords,
		.version = definition->version, .level = definition->level,
		.opcode = definition->opcode, .fields = definition->fields,
		.field_count = definition->field_count, .get_field = get_field,
	};

	/* job_start is written as jobStart: otherwise, TraceEvent would show job_/Start. */
	metadata.suffix = start_stop_suffix(definition, &metadata.name_bytes);
	return metadata;
}

/* The only call of get_field; tests/lint/locks.py has a row for it. */
static __attribute__((noinline)) struct rp_metadata_field
field_at(const struct rp_metadata *metadata, const void *fields, size_t index)
{
	return metadata->get_field(fields, index, metadata->user);
}

static bool has_members(const struct rp_metadata_field *field)
{
	return field->code == RP_WIRE_STRUCT || field->element == RP_WIRE_STRUCT;
}

static void put_fields_v1(struct rp_outbuf *out, const struct rp_metadata *metadata,
			  const void *fields, size_t count)
{
	rp_outbuf_put_u32(out, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_metadata_field field = field_at(metadata, fields, i);

		rp_outbuf_put_u32(out, field.code);
		if (has_members(&field))
			put_fields_v1(out, metadata, field.members, field.member_count);
		rp_outbuf_put_text16(out, field.name);
	}
}

static void put_fields_v2(struct rp_outbuf *out, const struct rp_metadata *metadata,
			  const void *fields, size_t count)
{
	rp_outbuf_put_u32(out, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_metadata_field field = field_at(metadata, fields, i);
		const size_t start = out->size;

		rp_outbuf_put_u32(out, 0);
		rp_outbuf_put_text16(out, field.name);
		rp_outbuf_put_u32(out, field.code);
		if (field.element)
			rp_outbuf_put_u32(out, field.element);
		if (has_members(&field))
			put_fields_v2(out, metadata, field.members, field.member_count);
		rp_outbuf_patch_u32(out, start, out->size - start);
	}
}

static bool has_array(const struct rp_metadata *metadata, const void *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct rp_metadata_field field = field_at(metadata, fields, i);

		if (field.element || (has_members(&field) &&
				      has_array(metadata, field.members, field.member_count)))
			return true;
	}
	return false;
}

void rp_metadata_put_v4(struct rp_outbuf *out, const struct rp_metadata *metadata)
{
	const bool is_v2 = has_array(metadata, metadata->fields, metadata->field_count);
	size_t tag;

	rp_outbuf_put_u32(out, metadata->metadata_id);
	rp_outbuf_put_text16(out, metadata->provider);
	rp_outbuf_put_u32(out, metadata->event_id);
	rp_outbuf_put_utf16(out, metadata->name, metadata->name_bytes);
	rp_outbuf_put_text16(out, metadata->suffix);
	rp_outbuf_put_u64(out, metadata->keywords);
	rp_outbuf_put_u32(out, metadata->version);
	rp_outbuf_put_u32(out, metadata->level);
	put_fields_v1(out, metadata, metadata->fields, is_v2 ? 0 : metadata->field_count);
	/* This tag is the first, because record-trace looks for fields in the first tag only. */
	if (is_v2) {
		tag = out->size;
		rp_outbuf_put_u32(out, 0);
		rp_outbuf_put_u8(out, RP_METADATA_FIELDS_V2);
		put_fields_v2(out, metadata, metadata->fields, metadata->field_count);
		rp_outbuf_patch_u32(out, tag, out->size - tag - 5);
	}
	if (metadata->opcode) {
		rp_outbuf_put_u32(out, 1);
		rp_outbuf_put_u8(out, RP_METADATA_OPCODE);
		rp_outbuf_put_u8(out, (uint8_t)metadata->opcode);
	}
}

/* Set the size at the beginning of a part of V6. The size does not include its own bytes. */
static void patch_size(struct rp_outbuf *out, size_t start)
{
	rp_outbuf_patch_u16(out, start, out->size - start - sizeof(uint16_t));
}

static void put_fields_v6(struct rp_outbuf *out, const struct rp_metadata *metadata,
			  const void *fields, size_t count)
{
	rp_outbuf_put_u16(out, count);
	for (size_t i = 0; i < count; i++) {
		const struct rp_metadata_field field = field_at(metadata, fields, i);
		const size_t start = out->size;

		rp_outbuf_put_u16(out, 0);
		rp_outbuf_put_text8(out, field.name);
		rp_outbuf_put_u8(out, field.code);
		if (field.element)
			rp_outbuf_put_u8(out, field.element);
		if (has_members(&field))
			put_fields_v6(out, metadata, field.members, field.member_count);
		if (field.code == RP_WIRE_FIXED_ARRAY)
			rp_outbuf_put_u16(out, field.fixed_count);
		patch_size(out, start);
	}
}

static void put_text_attribute(struct rp_outbuf *out, uint8_t kind, const char *text)
{
	if (!text || !*text)
		return;
	rp_outbuf_put_u8(out, kind);
	rp_outbuf_put_text8(out, text);
}

static void put_attributes(struct rp_outbuf *out, const struct rp_metadata *metadata)
{
	static const struct rp_guid none;
	const size_t start = out->size;
	struct rp_guid guid;

	rp_outbuf_put_u16(out, 0);
	if (metadata->opcode) {
		rp_outbuf_put_u8(out, RP_METADATA_OPCODE);
		rp_outbuf_put_u8(out, (uint8_t)metadata->opcode);
	}
	if (metadata->keywords) {
		rp_outbuf_put_u8(out, RP_METADATA_KEYWORDS);
		rp_outbuf_put_u64(out, metadata->keywords);
	}
	put_text_attribute(out, RP_METADATA_MESSAGE, metadata->message);
	put_text_attribute(out, RP_METADATA_DESCRIPTION, metadata->description);
	if (memcmp(&metadata->provider_guid, &none, sizeof(none)) != 0) {
		rp_guid_swap(metadata->provider_guid.bytes, guid.bytes);
		rp_outbuf_put_u8(out, RP_METADATA_PROVIDER_GUID);
		rp_outbuf_put(out, &guid, sizeof(guid));
	}
	rp_outbuf_put_u8(out, RP_METADATA_LEVEL);
	rp_outbuf_put_u8(out, (uint8_t)metadata->level);
	if (metadata->version) {
		rp_outbuf_put_u8(out, RP_METADATA_VERSION);
		rp_outbuf_put_u8(out, (uint8_t)metadata->version);
	}
	patch_size(out, start);
}

int rp_metadata_put_v6(struct rp_outbuf *out, const struct rp_metadata *metadata)
{
	const size_t suffix_bytes = metadata->suffix ? strlen(metadata->suffix) : 0;
	const size_t start = out->size;

	rp_outbuf_put_u16(out, 0);
	rp_outbuf_put_varint(out, metadata->metadata_id);
	rp_outbuf_put_text8(out, metadata->provider);
	rp_outbuf_put_varint(out, metadata->event_id);
	rp_outbuf_put_varint(out, metadata->name_bytes + suffix_bytes);
	rp_outbuf_put(out, metadata->name, metadata->name_bytes);
	rp_outbuf_put(out, metadata->suffix, suffix_bytes);
	put_fields_v6(out, metadata, metadata->fields, metadata->field_count);
	put_attributes(out, metadata);
	/* Sizes of rows have 16 bits. */
	if (out->size - start > UINT16_MAX)
		return -EMSGSIZE;
	patch_size(out, start);
	return 0;
}

void rp_metadata_write(struct rp_outbuf *out, uint32_t metadata_id,
		       const struct rp_definition *definition)
{
	const struct rp_metadata metadata = describe(metadata_id, definition);

	rp_metadata_put_v4(out, &metadata);
}

int rp_metadata_write_row(struct rp_outbuf *out, uint32_t metadata_id,
			  const struct rp_definition *definition)
{
	const struct rp_metadata metadata = describe(metadata_id, definition);

	return rp_metadata_put_v6(out, &metadata);
}
