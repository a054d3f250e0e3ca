/* SPDX-License-Identifier: MIT */
#include "export/user_fields.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field_kind {
	FIXED,
	STRING,
	STRING16,
	ARRAY,
	REST,		/* the rest of the payload */
};

/* A field of the tracepoint. `bytes`: size of a FIXED value or of an ARRAY's element. */
struct rp_user_field {
	enum field_kind kind;
	uint32_t bytes;
};

#define PLACE_BYTES 4u	/* size of a __data_loc */
#define ENTRY_BYTES 8u	/* the kernel's own prefix, from which offsets are counted */
#define FIELDS_MAX 256u	/* more than fit into any command */

static const struct {
	const char *type;	/* type of a field */
	const char *element;	/* type of an array's element */
	uint32_t bytes;
} types[] = {
	[RP_TYPE_BOOL] = { "u8", "u8", 1 },
	[RP_TYPE_CHAR] = { "char", "u8", 1 },
	[RP_TYPE_I8] = { "s8", "s8", 1 },
	[RP_TYPE_U8] = { "u8", "u8", 1 },
	[RP_TYPE_I16] = { "s16", "s16", 2 },
	[RP_TYPE_U16] = { "u16", "u16", 2 },
	[RP_TYPE_I32] = { "s32", "s32", 4 },
	[RP_TYPE_U32] = { "u32", "u32", 4 },
	[RP_TYPE_I64] = { "s64", "s64", 8 },
	[RP_TYPE_U64] = { "u64", "u64", 8 },
	[RP_TYPE_F32] = { "struct float", "float", 4 },
	[RP_TYPE_F64] = { "struct double", "double", 8 },
	[RP_TYPE_POINTER] = { "u64", "u64", 8 },
	[RP_TYPE_GUID] = { "unsigned char[16]", "guid", 16 },
	[RP_TYPE_TIME] = { "s64", "s64", 8 },
};

struct builder {
	char text[RP_USER_COMMAND_BYTES_MAX];
	size_t length;		/* may exceed the buffer: then the text does not fit */
	struct rp_user_field fields[FIELDS_MAX];
	size_t count;
	size_t header_bytes;
};

static void put_text(struct builder *builder, const char *text)
{
	size_t bytes = strlen(text);

	if (builder->length + bytes < sizeof(builder->text))
		memcpy(builder->text + builder->length, text, bytes + 1);
	builder->length += bytes;
}

/* Put a name with the characters that the kernel's tools accept. */
static void put_name(struct builder *builder, const char *name)
{
	for (; *name; name++) {
		char c[2] = { isalnum((unsigned char)*name) && !(*name & 0x80) ? *name : '_' };

		put_text(builder, c);
	}
}

static void put_field(struct builder *builder, enum field_kind kind, uint32_t bytes,
		      const char *type, const char *prefix, const char *name)
{
	put_text(builder, builder->count ? "; " : " ");
	put_text(builder, type);
	put_text(builder, " ");
	put_name(builder, prefix);
	put_name(builder, *name ? name : "value");
	if (strncmp(type, "struct ", 7) == 0)
		put_text(builder, bytes == 4 ? " 4" : " 8");
	if (builder->count < FIELDS_MAX)
		builder->fields[builder->count] = (struct rp_user_field){ kind, bytes };
	builder->count++;
	builder->header_bytes += kind == FIXED ? bytes : PLACE_BYTES;
}

/* The size of an array's element, also for structs. */
static uint32_t element_bytes(uint8_t type, const struct rp_field *members, size_t count)
{
	uint32_t bytes = 0;

	if (type != RP_TYPE_STRUCT)
		return type < sizeof(types) / sizeof(*types) ? types[type].bytes : 0;
	for (size_t i = 0; i < count; i++)
		bytes += element_bytes(members[i].type, members[i].members,
				       members[i].member_count);
	return bytes;
}

static void put_array(struct builder *builder, const struct rp_field *field, const char *prefix)
{
	uint32_t bytes = element_bytes(field->element, field->members, field->member_count);
	char type[32];

	snprintf(type, sizeof(type), "__data_loc %s[]",
		 field->element == RP_TYPE_STRUCT ? "u8" : types[field->element].element);
	put_field(builder, ARRAY, bytes ? bytes : 1, type, prefix, field->name);
}

static void put_fields(struct builder *builder, const struct rp_field *fields, size_t count,
		       const char *prefix)
{
	for (size_t i = 0; i < count; i++) {
		const struct rp_field *field = &fields[i];
		char inner[RP_USER_COMMAND_BYTES_MAX];

		switch (field->type) {
		case RP_TYPE_STRING:
			put_field(builder, STRING, 1, "__data_loc char[]", prefix, field->name);
			break;
		case RP_TYPE_STRING16:
			put_field(builder, STRING16, 2, "__data_loc u16[]", prefix, field->name);
			break;
		case RP_TYPE_ARRAY:
			put_array(builder, field, prefix);
			break;
		case RP_TYPE_STRUCT:
			snprintf(inner, sizeof(inner), "%s%s_", prefix, field->name);
			put_fields(builder, field->members, field->member_count,
				   *field->name ? inner : prefix);
			break;
		default:
			put_field(builder, FIXED, types[field->type].bytes,
				  types[field->type].type, prefix, field->name);
		}
	}
}

int rp_user_fields_make(struct rp_user_fields *fields, const struct rp_event_def *def)
{
	struct builder *builder = calloc(1, sizeof(*builder));
	size_t names;
	int r = 0;

	if (!builder)
		return -ENOMEM;
	put_name(builder, def->provider);
	put_text(builder, "_");
	put_name(builder, def->name);
	names = builder->length;
	put_fields(builder, def->fields, def->field_count, "");
	if (builder->length >= sizeof(builder->text) || builder->count > FIELDS_MAX) {
		builder->length = names;
		builder->count = builder->header_bytes = 0;
		put_field(builder, REST, 1, "__data_loc u8[]", "", "payload");
	}
	*fields = (struct rp_user_fields){
		.count = builder->count, .header_bytes = builder->header_bytes,
	};
	if (builder->length >= sizeof(builder->text)) {
		r = -EINVAL;
	} else {
		fields->command = strdup(builder->text);
		fields->fields = calloc(fields->count + 1, sizeof(*fields->fields));
		r = fields->command && fields->fields ? 0 : -ENOMEM;
	}
	if (r == 0)
		memcpy(fields->fields, builder->fields, fields->count * sizeof(*fields->fields));
	else
		rp_user_fields_fini(fields);
	free(builder);
	return r;
}

void rp_user_fields_fini(struct rp_user_fields *fields)
{
	free(fields->command);
	free(fields->fields);
	*fields = (struct rp_user_fields){ 0 };
}

/* The part of a payload with a dynamic field. */
struct piece {
	const uint8_t *bytes;
	size_t size;
	bool ends_here;		/* append a NUL */
};

static struct piece take(const struct rp_user_field *field, const uint8_t **at, const uint8_t *end)
{
	struct piece piece = { .bytes = *at };
	size_t left = (size_t)(end - *at);
	uint16_t count = 0;

	switch (field->kind) {
	case STRING:
		piece.size = strnlen((const char *)*at, left);
		*at += piece.size < left ? piece.size + 1 : left;
		piece.ends_here = true;
		break;
	case STRING16:
		while (piece.size + 1 < left && ((*at)[piece.size] || (*at)[piece.size + 1]))
			piece.size += 2;
		*at += piece.size + 2 <= left ? piece.size + 2 : left;
		break;
	case ARRAY:
		if (left >= sizeof(count))
			memcpy(&count, *at, sizeof(count));
		piece.bytes += left < sizeof(count) ? left : sizeof(count);
		piece.size = (size_t)count * field->bytes;
		if (piece.size > (size_t)(end - piece.bytes))
			piece.size = (size_t)(end - piece.bytes) / field->bytes * field->bytes;
		*at = piece.bytes + piece.size;
		break;
	default:
		piece.size = left;
		*at = end;
	}
	return piece;
}

int64_t rp_user_fields_put(const struct rp_user_fields *fields, const uint8_t *payload,
			   size_t payload_bytes, uint8_t *out, size_t space)
{
	const uint8_t *at = payload, *end = payload + payload_bytes;
	size_t head = 0, tail = fields->header_bytes;

	if (tail > space)
		return -EMSGSIZE;
	memset(out, 0, tail);
	for (size_t i = 0; i < fields->count; i++) {
		const struct rp_user_field *field = &fields->fields[i];
		size_t left = (size_t)(end - at), size;
		struct piece piece;
		uint32_t place;

		if (field->kind == FIXED) {
			size = left < field->bytes ? left : field->bytes;
			memcpy(out + head, at, size);
			at += size;
			head += field->bytes;
			continue;
		}
		piece = take(field, &at, end);
		size = piece.size + piece.ends_here;
		if (size > space - tail)
			return -EMSGSIZE;
		place = (uint32_t)(ENTRY_BYTES + tail) | (uint32_t)size << 16;
		memcpy(out + head, &place, sizeof(place));
		head += PLACE_BYTES;
		memcpy(out + tail, piece.bytes, piece.size);
		if (piece.ends_here)
			out[tail + piece.size] = 0;
		tail += size;
	}
	return (int64_t)tail;
}
