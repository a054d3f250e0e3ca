/* SPDX-License-Identifier: MIT */
#include "recover/definitions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64	/* above the encoder's own limit, which is reported */

static void put_text(struct rp_outbuf *out, const char *text)
{
	rp_outbuf_put(out, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void put_fields(struct rp_outbuf *out, const struct rp_field *fields, size_t field_count)
{
	uint16_t count = (uint16_t)field_count;

	rp_outbuf_put(out, &count, sizeof(count));
	for (uint16_t i = 0; i < count; i++) {
		rp_outbuf_put_u8(out, fields[i].type);
		rp_outbuf_put_u8(out, fields[i].element);
		put_text(out, fields[i].name);
		put_fields(out, fields[i].members, fields[i].member_count);
	}
}

void rp_definition_put(struct rp_outbuf *out, uint32_t index,
		       const struct rp_definition *definition)
{
	size_t start = out->size;
	uint32_t bytes;

	rp_outbuf_put_u32(out, 0);
	rp_outbuf_put_u32(out, index);
	rp_outbuf_put_u32(out, definition->id);
	rp_outbuf_put_u8(out, definition->version);
	rp_outbuf_put_u8(out, definition->level);
	rp_outbuf_put_u8(out, definition->opcode);
	rp_outbuf_put_u8(out, definition->is_wire);
	rp_outbuf_put_u64(out, definition->keywords);
	put_text(out, definition->provider);
	put_text(out, definition->name);
	put_fields(out, definition->fields, definition->field_count);
	bytes = (uint32_t)(out->size - start - sizeof(bytes));
	if (!out->failed)
		memcpy(out->bytes + start, &bytes, sizeof(bytes));
}

static int take_text(struct rp_cursor *cursor, const char **ret_text)
{
	const uint8_t *end = memchr(cursor->at, 0, rp_cursor_left(cursor));

	if (!end)
		return -EBADMSG;
	*ret_text = (const char *)cursor->at;
	cursor->at = end + 1;
	return 0;
}

static void free_fields(const struct rp_field *fields, size_t count)
{
	for (size_t i = 0; fields && i < count; i++)
		free_fields(fields[i].members, fields[i].member_count);
	free((struct rp_field *)fields);
}

static int take_fields(struct rp_cursor *cursor, int depth, const struct rp_field **ret_fields,
		       uint16_t *ret_count)
{
	struct rp_field *fields;
	uint16_t count;
	int ret = 0;

	/* A field has at least five bytes, so the bytes that are left limit the allocation. */
	if (rp_cursor_u16(cursor, &count) < 0 || depth > DEPTH_MAX ||
	    count > rp_cursor_left(cursor) / 5)
		return -EBADMSG;
	*ret_fields = NULL;
	*ret_count = 0;
	if (count == 0)
		return 0;
	fields = calloc(count, sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	for (uint16_t i = 0; ret == 0 && i < count; i++) {
		ret = rp_cursor_copy(cursor, &fields[i].type, 1);
		if (ret == 0)
			ret = rp_cursor_copy(cursor, &fields[i].element, 1);
		if (fields[i].type > RP_TYPE_STRUCT || fields[i].element > RP_TYPE_STRUCT)
			ret = -EBADMSG;
		if (ret == 0)
			ret = take_text(cursor, &fields[i].name);
		if (ret == 0)
			ret = take_fields(cursor, depth + 1, &fields[i].members,
					  &fields[i].member_count);
	}
	if (ret != 0) {
		free_fields(fields, count);
		return ret;
	}
	*ret_fields = fields;
	*ret_count = count;
	return 0;
}

static int take_header(struct rp_cursor *cursor, uint32_t *ret_index,
		       struct rp_definition *definition)
{
	const uint8_t *bytes;

	if (rp_cursor_u32(cursor, ret_index) < 0 || rp_cursor_u32(cursor, &definition->id) < 0 ||
	    rp_cursor_take(cursor, 4, &bytes) < 0)
		return -EBADMSG;
	definition->version = bytes[0];
	definition->level = bytes[1];
	definition->opcode = bytes[2];
	definition->is_wire = bytes[3];
	if (rp_cursor_u64(cursor, &definition->keywords) < 0 ||
	    take_text(cursor, &definition->provider) != 0)
		return -EBADMSG;
	return take_text(cursor, &definition->name);
}

int rp_definition_take(struct rp_cursor *cursor, uint32_t *ret_index,
		       struct rp_definition *ret_definition)
{
	struct rp_definition definition = { 0 };
	struct rp_cursor rest = *cursor, content;
	uint32_t bytes, index;
	uint16_t count;
	int ret;

	if (rp_cursor_u32(&rest, &bytes) < 0 || rp_cursor_left(&rest) < bytes)
		return -ENODATA;
	content = (struct rp_cursor){ rest.at, rest.at + bytes };
	ret = take_header(&content, &index, &definition);
	if (ret == 0)
		ret = take_fields(&content, 0, &definition.fields, &count);
	if (ret != 0 && ret != -EBADMSG)
		return ret;
	cursor->at = content.end;
	if (ret != 0)
		return ret;
	definition.field_count = count;
	*ret_index = index;
	*ret_definition = definition;
	return 0;
}

void rp_definition_fini(struct rp_definition *definition)
{
	free_fields(definition->fields, definition->field_count);
	definition->fields = NULL;
	definition->field_count = 0;
}
