/* SPDX-License-Identifier: MIT */
/* Parses the rows of a V6 Metadata block. format.h describes their layout. */
#include "nettrace/describe.h"

#include <string.h>

#include "base/utf.h"
#include "nettrace/convert.h"
#include "nettrace/format.h"

/* The maximum number of located fields of a type whose fields are shown. */
#define LOCATED_MAX 128u

/* An array of arrays becomes an array of structs. This is the name of the struct's one member. */
#define INNER_ARRAY ""

/* Copy a string. Bytes that are not UTF-8, and NULs, become U+FFFD. */
static int take_text(struct rp_type_table *table, struct rp_cursor *c, const char **ret_text)
{
	const uint8_t *at;
	uint32_t size;
	char *text;

	if (rp_cursor_varint32(c, &size) < 0 || rp_cursor_take(c, size, &at) < 0)
		return -EBADMSG;
	text = rp_type_table_alloc(table, 3 * (size_t)size + 1);
	if (!text)
		return -ENOMEM;
	(void)rp_utf8_repair(at, size, text);
	*ret_text = text;
	return 0;
}

static int take_fields(struct rp_type_table *table, struct rp_cursor *c, int depth,
		       const struct rp_reader_field **ret_fields, uint16_t *ret_count);

static int take_type(struct rp_type_table *table, struct rp_cursor *c, int depth,
		     struct rp_reader_field *field);

/* An array's element becomes part of the array's field; an array of arrays nests a struct. */
static int take_element(struct rp_type_table *table, struct rp_cursor *c, int depth,
			struct rp_reader_field *field)
{
	struct rp_reader_field *element = rp_type_table_alloc(table, sizeof(*element));
	int ret = element ? take_type(table, c, depth + 1, element) : -ENOMEM;

	if (ret < 0)
		return ret;
	element->name = INNER_ARRAY;
	field->type = RP_TYPE_ARRAY;
	if (element->type == RP_TYPE_ARRAY || element->encoding) {
		field->element = RP_TYPE_STRUCT;
		field->members = element;
		field->member_count = 1;
	} else {
		field->element = element->type;
		field->wire_bytes = element->wire_bytes;
		field->members = element->members;
		field->member_count = element->member_count;
	}
	return 0;
}

/* Text is declared as an array of code units. */
static void note_text(struct rp_reader_field *field)
{
	if (field->element != RP_TYPE_CHAR)
		return;
	field->type = field->wire_bytes == 1 ? RP_TYPE_STRING : RP_TYPE_STRING16;
	field->element = RP_TYPE_NONE;
	field->wire_bytes = 0;
}

static int take_array(struct rp_type_table *table, struct rp_cursor *c, uint8_t code, int depth,
		      struct rp_reader_field *field)
{
	int ret = take_element(table, c, depth, field);

	if (ret < 0)
		return ret;
	switch (code) {
	case RP_WIRE_FIXED_ARRAY:
		field->encoding = RP_READER_FIXED_COUNT;
		if (rp_cursor_u16(c, &field->fixed_count) < 0)
			return -EBADMSG;
		break;
	case RP_WIRE_REL_LOC:
		field->encoding = RP_READER_REL_LOC;
		break;
	case RP_WIRE_DATA_LOC:
		field->encoding = RP_READER_DATA_LOC;
		break;
	default:
		field->encoding = RP_READER_COUNTED;
	}
	if (!rp_describe_has_size(field->element, field))
		return -ENOTSUP;
	note_text(field);
	return 0;
}

static int take_type(struct rp_type_table *table, struct rp_cursor *c, int depth,
		     struct rp_reader_field *field)
{
	uint8_t code;
	int ret;

	if (depth > RP_STRUCT_DEPTH_MAX)
		return -ENOTSUP;
	if (rp_cursor_u8(c, &code) < 0)
		return -EBADMSG;
	/* In an array, each element could claim all of the payload. */
	if (depth > 0 && (code == RP_WIRE_REL_LOC || code == RP_WIRE_DATA_LOC))
		return -ENOTSUP;
	if (code == RP_WIRE_ARRAY || code == RP_WIRE_FIXED_ARRAY || code == RP_WIRE_REL_LOC ||
	    code == RP_WIRE_DATA_LOC)
		return take_array(table, c, code, depth, field);
	/* A later version may have other codes. */
	ret = rp_describe_code(code, &field->type, &field->wire_bytes) < 0 ? -ENOTSUP : 0;
	if (ret == 0 && field->type == RP_TYPE_STRUCT)
		ret = take_fields(table, c, depth + 1, &field->members, &field->member_count);
	return ret;
}

static int take_fields(struct rp_type_table *table, struct rp_cursor *c, int depth,
		       const struct rp_reader_field **ret_fields, uint16_t *ret_count)
{
	struct rp_reader_field *fields;
	struct rp_cursor row;
	uint16_t count, size;
	int ret;

	/* A field takes at least its size, an empty name and a code. */
	if (depth > RP_STRUCT_DEPTH_MAX || rp_cursor_u16(c, &count) < 0 ||
	    count > rp_cursor_left(c) / 4)
		return -EBADMSG;
	fields = rp_type_table_alloc(table, count * sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	for (uint16_t i = 0; i < count; i++) {
		if (rp_cursor_u16(c, &size) < 0 || rp_cursor_sub(c, size, &row) < 0)
			return -EBADMSG;
		ret = take_text(table, &row, &fields[i].name);
		if (ret == 0)
			ret = take_type(table, &row, depth, &fields[i]);
		if (ret < 0)
			return ret;
		table->has_unknown |= row.at < row.end;
	}
	*ret_fields = fields;
	*ret_count = count;
	return 0;
}

static int take_attribute(struct rp_type_table *table, struct rp_cursor *c,
			  struct rp_reader_type *type)
{
	const char *key, *value;
	uint8_t kind, small;
	int ret;

	if (rp_cursor_u8(c, &kind) < 0)
		return -EBADMSG;
	switch (kind) {
	case RP_METADATA_OPCODE:
		ret = rp_cursor_u8(c, &small);
		type->opcode = ret == 0 ? small : 0;
		return ret;
	case RP_METADATA_KEYWORDS:
		return rp_cursor_u64(c, &type->keywords);
	case RP_METADATA_MESSAGE:
		return take_text(table, c, &type->message);
	case RP_METADATA_DESCRIPTION:
		return take_text(table, c, &type->description);
	case RP_METADATA_KEY_VALUE:
		ret = take_text(table, c, &key);
		return ret < 0 ? ret : take_text(table, c, &value);
	case RP_METADATA_PROVIDER_GUID:
		ret = rp_cursor_copy(c, type->provider_guid.bytes, sizeof(type->provider_guid));
		rp_guid_swap(type->provider_guid.bytes, type->provider_guid.bytes);
		return ret;
	case RP_METADATA_LEVEL:
		ret = rp_cursor_u8(c, &small);
		type->level = ret == 0 ? small : 0;
		return ret;
	case RP_METADATA_VERSION:
		ret = rp_cursor_u8(c, &small);
		type->version = ret == 0 ? small : 0;
		return ret;
	}
	/* An attribute of a later version: its size is unknown, so the rest is unreadable. */
	c->at = c->end;
	table->has_unknown = true;
	return 0;
}

/* Each located value may refer to the whole payload, so limit the number of such values. */
static bool has_too_many_located(const struct rp_reader_field *fields, uint16_t count)
{
	unsigned int located = 0;

	for (uint16_t i = 0; i < count; i++)
		located += fields[i].encoding == RP_READER_REL_LOC ||
			   fields[i].encoding == RP_READER_DATA_LOC;
	return located > LOCATED_MAX;
}

/* Skip a list of fields that cannot be expressed, of which `fields` is the beginning. */
static int skip_fields(struct rp_cursor fields, struct rp_cursor *row)
{
	const uint8_t *skipped;
	uint16_t count, size;
	int ret = rp_cursor_u16(&fields, &count);

	while (ret == 0 && count--) {
		ret = rp_cursor_u16(&fields, &size);
		if (ret == 0)
			ret = rp_cursor_take(&fields, size, &skipped);
	}
	*row = fields;
	return ret;
}

/* A field list that is damaged or cannot be expressed leaves the type without fields. */
static int take_description(struct rp_type_table *table, struct rp_cursor *row,
			    struct rp_reader_type *type)
{
	const struct rp_cursor begin = *row;
	const struct rp_reader_field *fields = NULL;
	struct rp_cursor attributes;
	uint16_t count = 0, size;
	int ret = take_fields(table, row, 0, &fields, &count);

	if (ret == -ENOTSUP)
		ret = skip_fields(begin, row);
	table->has_unknown |= ret == -EBADMSG;
	if (ret < 0)
		return ret == -ENOMEM ? ret : 0;
	if (!has_too_many_located(fields, count)) {
		type->fields = fields;
		type->field_count = count;
	}
	if (rp_cursor_u16(row, &size) < 0 || rp_cursor_sub(row, size, &attributes) < 0) {
		table->has_unknown = true;
		return 0;
	}
	while (ret == 0 && attributes.at < attributes.end)
		ret = take_attribute(table, &attributes, type);
	table->has_unknown |= ret == -EBADMSG || row->at < row->end;
	return ret == -ENOMEM ? ret : 0;
}

int rp_describe_row(struct rp_type_table *table, struct rp_cursor row)
{
	struct rp_reader_type *type = rp_type_table_alloc(table, sizeof(*type));
	int ret;

	if (!type)
		return -ENOMEM;
	type->message = type->description = "";
	if (rp_cursor_varint32(&row, &type->metadata_id) < 0)
		return -EBADMSG;
	ret = take_text(table, &row, &type->provider);
	if (ret == 0)
		ret = rp_cursor_varint32(&row, &type->id);
	if (ret == 0)
		ret = take_text(table, &row, &type->name);
	if (ret == 0)
		ret = take_description(table, &row, type);
	return ret < 0 ? ret : rp_type_table_insert(table, type);
}
