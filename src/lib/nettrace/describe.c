/* SPDX-License-Identifier: MIT */
/* Parses the blobs of V4. metadata.c describes their layout. */
#include "nettrace/describe.h"

#include <stdbool.h>

#include "base/utf.h"
#include "nettrace/format.h"

static const struct {
	uint8_t type, bytes;
} known_types[] = {
	[RP_WIRE_STRUCT] = { RP_TYPE_STRUCT, 0 },
	[RP_WIRE_BOOL32] = { RP_TYPE_BOOL, 4 },
	[RP_WIRE_CHAR16] = { RP_TYPE_CHAR, 2 },
	[RP_WIRE_I8] = { RP_TYPE_I8, 1 },
	[RP_WIRE_U8] = { RP_TYPE_U8, 1 },
	[RP_WIRE_I16] = { RP_TYPE_I16, 2 },
	[RP_WIRE_U16] = { RP_TYPE_U16, 2 },
	[RP_WIRE_I32] = { RP_TYPE_I32, 4 },
	[RP_WIRE_U32] = { RP_TYPE_U32, 4 },
	[RP_WIRE_I64] = { RP_TYPE_I64, 8 },
	[RP_WIRE_U64] = { RP_TYPE_U64, 8 },
	[RP_WIRE_F32] = { RP_TYPE_F32, 4 },
	[RP_WIRE_F64] = { RP_TYPE_F64, 8 },
	[RP_WIRE_DECIMAL] = { RP_TYPE_NONE, 16 },
	[RP_WIRE_TIME] = { RP_TYPE_TIME, 8 },
	[RP_WIRE_GUID] = { RP_TYPE_GUID, 16 },
	[RP_WIRE_STRING16] = { RP_TYPE_STRING16, 0 },
	[RP_WIRE_ARRAY] = { RP_TYPE_ARRAY, 0 },
	[RP_WIRE_VARINT] = { RP_TYPE_I64, 0 },
	[RP_WIRE_VARUINT] = { RP_TYPE_U64, 0 },
	[RP_WIRE_CHAR8] = { RP_TYPE_CHAR, 1 },
	[RP_WIRE_BOOL8] = { RP_TYPE_BOOL, 1 },
};

static int take_name(struct rp_type_table *table, struct rp_cursor *c, const char **ret_name)
{
	const uint8_t *text;
	size_t units, size;
	char *name;

	if (rp_cursor_string16(c, &text, &units) < 0)
		return -EBADMSG;
	/* A unit needs three bytes at most. */
	name = rp_type_table_alloc(table, 3 * units + 1);
	if (!name)
		return -ENOMEM;
	size = rp_utf8_from_utf16(text, units, name);
	name[size] = 0;
	*ret_name = name;
	return 0;
}

static int take_fields(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		       const struct rp_reader_field **ret_fields, uint16_t *ret_count);

bool rp_describe_has_size(uint8_t type, const struct rp_reader_field *field)
{
	if (type == RP_TYPE_ARRAY && field->encoding == RP_READER_FIXED_COUNT)
		return field->fixed_count && rp_describe_has_size(field->element, field);
	if (type != RP_TYPE_STRUCT)
		return true;
	for (uint16_t i = 0; i < field->member_count; i++)
		if (rp_describe_has_size(field->members[i].type, &field->members[i]))
			return true;
	return false;
}

int rp_describe_code(uint32_t code, uint8_t *ret_type, uint8_t *ret_bytes)
{
	if (code >= sizeof(known_types) / sizeof(*known_types) ||
	    (!known_types[code].type && !known_types[code].bytes))
		return -EBADMSG;
	*ret_type = known_types[code].type;
	*ret_bytes = known_types[code].bytes;
	return 0;
}

static int take_code(struct rp_cursor *c, uint8_t *ret_type, uint8_t *ret_bytes)
{
	uint32_t code;

	if (rp_cursor_u32(c, &code) < 0 || code > RP_WIRE_ARRAY)
		return -EBADMSG;
	return rp_describe_code(code, ret_type, ret_bytes);
}

static int take_type(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		     struct rp_reader_field *field)
{
	uint8_t value;
	int ret = take_code(c, &field->type, &field->wire_bytes);

	if (ret < 0)
		return ret;
	value = field->type;
	if (value == RP_TYPE_ARRAY) {
		if (!v2 || take_code(c, &field->element, &field->wire_bytes) < 0)
			return -EBADMSG;
		value = field->element;
		if (value == RP_TYPE_ARRAY)
			return -ENOTSUP;
	}
	if (value == RP_TYPE_STRUCT) {
		ret = take_fields(table, c, v2, depth + 1, &field->members, &field->member_count);
		if (ret < 0)
			return ret;
	}
	if (field->type == RP_TYPE_ARRAY && !rp_describe_has_size(value, field))
		return -ENOTSUP;
	return 0;
}

static int take_field(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		      struct rp_reader_field *field)
{
	struct rp_cursor sub;
	uint32_t size;
	int ret;

	if (!v2) {
		ret = take_type(table, c, v2, depth, field);
		return ret < 0 ? ret : take_name(table, c, &field->name);
	}
	if (rp_cursor_u32(c, &size) < 0 || size < 4 || rp_cursor_sub(c, size - 4, &sub) < 0)
		return -EBADMSG;
	ret = take_name(table, &sub, &field->name);
	return ret < 0 ? ret : take_type(table, &sub, v2, depth, field);
}

static int take_fields(struct rp_type_table *table, struct rp_cursor *c, bool v2, int depth,
		       const struct rp_reader_field **ret_fields, uint16_t *ret_count)
{
	struct rp_reader_field *fields;
	uint32_t count;
	int ret;

	/* A field takes at least a code and an empty name, in V2 also its size. */
	if (depth > RP_STRUCT_DEPTH_MAX || rp_cursor_u32(c, &count) < 0 ||
	    count > rp_cursor_left(c) / (v2 ? 10 : 6) || count > UINT16_MAX)
		return -EBADMSG;
	fields = rp_type_table_alloc(table, count * sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		ret = take_field(table, c, v2, depth, &fields[i]);
		if (ret < 0)
			return ret;
	}
	*ret_fields = fields;
	*ret_count = count;
	return 0;
}

static int take_tag(struct rp_type_table *table, struct rp_cursor *c, struct rp_reader_type *type)
{
	const struct rp_reader_field *fields;
	struct rp_cursor data;
	const uint8_t *kind;
	uint32_t size;
	uint16_t count;
	int ret;

	if (rp_cursor_u32(c, &size) < 0 || rp_cursor_take(c, 1, &kind) < 0 ||
	    rp_cursor_sub(c, size, &data) < 0)
		return -EBADMSG;
	if (*kind == RP_METADATA_OPCODE && data.at < data.end) {
		type->opcode = *data.at;
	} else if (*kind == RP_METADATA_FIELDS_V2) {
		ret = take_fields(table, &data, true, 0, &fields, &count);
		if (ret == -ENOMEM)
			return ret;
		table->has_unknown |= ret == -EBADMSG;
		type->fields = ret ? NULL : fields;
		type->field_count = ret ? 0 : count;
	}
	return 0;
}

/* If the list of V1 fields is damaged, the tags after it cannot be found either. */
static int take_description(struct rp_type_table *table, struct rp_cursor *c,
			    struct rp_reader_type *type)
{
	const struct rp_reader_field *fields;
	uint16_t count;
	int ret = 0;

	if (c->at == c->end)
		return 0;
	ret = take_fields(table, c, false, 0, &fields, &count);
	if (!ret) {
		type->fields = fields;
		type->field_count = count;
	}
	while (!ret && c->at < c->end)
		ret = take_tag(table, c, type);
	table->has_unknown |= ret == -EBADMSG;
	return ret == -ENOMEM ? ret : 0;
}

static int take_header(struct rp_type_table *table, struct rp_cursor *c,
		       struct rp_reader_type *type)
{
	int ret;

	if (rp_cursor_u32(c, &type->metadata_id) < 0)
		return -EBADMSG;
	ret = take_name(table, c, &type->provider);
	if (ret < 0 || rp_cursor_u32(c, &type->id) < 0)
		return ret < 0 ? ret : -EBADMSG;
	ret = take_name(table, c, &type->name);
	if (ret < 0)
		return ret;
	if (rp_cursor_u64(c, &type->keywords) < 0 || rp_cursor_u32(c, &type->version) < 0 ||
	    rp_cursor_u32(c, &type->level) < 0)
		return -EBADMSG;
	return 0;
}

int rp_describe(struct rp_type_table *table, struct rp_cursor blob)
{
	struct rp_reader_type *type = rp_type_table_alloc(table, sizeof(*type));
	int ret;

	if (!type)
		return -ENOMEM;
	ret = take_header(table, &blob, type);
	if (!ret)
		ret = take_description(table, &blob, type);
	return ret < 0 ? ret : rp_type_table_insert(table, type);
}
