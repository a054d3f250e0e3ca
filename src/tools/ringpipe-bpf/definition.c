/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-bpf/definition.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "tools/trace/json_event.h"

#define DEPTH_MAX 32u
/* The smallest encoding of a field in a frame. */
#define FIELD_BYTES_MIN 8u

static char *get_text(struct rp_cursor *cursor)
{
	uint32_t bytes = rp_cursor_get_u32(cursor);
	char *text = NULL;

	if (bytes <= rp_cursor_left(cursor) && !rp_cursor_failed(cursor))
		text = malloc((size_t)bytes + 1);
	if (!text) {
		rp_cursor_fail(cursor);
		return NULL;
	}
	rp_cursor_get(cursor, text, bytes);
	text[bytes] = '\0';
	return text;
}

static struct rp_field *get_fields(struct rp_cursor *cursor, uint32_t count, unsigned int depth)
{
	struct rp_field *fields = NULL;

	if (count == 0 || rp_cursor_failed(cursor))
		return NULL;
	if (depth < DEPTH_MAX && count <= rp_cursor_left(cursor) / FIELD_BYTES_MIN)
		fields = calloc(count, sizeof(*fields));
	if (!fields) {
		rp_cursor_fail(cursor);
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++) {
		rp_cursor_get(cursor, &fields[i].type, 1);
		rp_cursor_get(cursor, &fields[i].element, 1);
		rp_cursor_get(cursor, &fields[i].member_count, sizeof(fields[i].member_count));
		fields[i].name = get_text(cursor);
		fields[i].members = get_fields(cursor, fields[i].member_count, depth + 1);
		if (!fields[i].members)
			fields[i].member_count = 0;
	}
	return fields;
}

static void free_fields(struct rp_field *fields, uint32_t count)
{
	for (uint32_t i = 0; fields && i < count; i++) {
		free_fields((struct rp_field *)fields[i].members, fields[i].member_count);
		free((char *)fields[i].name);
	}
	free(fields);
}

void rp_bpf_definition_fini(struct rp_bpf_definition *definition)
{
	free_fields(definition->fields, definition->field_count);
	free(definition->json);
	free(definition->provider);
	free(definition->name);
}

/* Describe a JSON event as a trace does: both texts have the same bytes in a ring. */
static int describe_json(struct rp_bpf_definition *definition)
{
	struct {
		struct rp_reader_type type;
		struct rp_reader_field fields[2];
	} *json;

	if (definition->field_count != 2)
		return 0;
	json = calloc(1, sizeof(*json));
	if (!json)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		json->fields[i].name = definition->fields[i].name;
		json->fields[i].type = definition->fields[i].type;
	}
	json->type.provider = definition->provider;
	json->type.name = definition->name;
	json->type.fields = json->fields;
	json->type.field_count = 2;
	if (rp_json_event_is(&json->type))
		definition->json = &json->type;
	else
		free(json);
	return 0;
}

int rp_bpf_definition_read(const uint8_t *bytes, size_t size,
			   struct rp_bpf_definition *ret_definition)
{
	struct rp_cursor cursor = rp_cursor_over(bytes, size);
	struct rp_bpf_definition definition = { 0 };
	uint32_t count;
	int ret;

	errno = 0;
	definition.number = rp_cursor_get_u32(&cursor);
	definition.id = rp_cursor_get_u32(&cursor);
	definition.version = rp_cursor_get_u32(&cursor);
	definition.level = rp_cursor_get_u32(&cursor);
	definition.keywords = rp_cursor_get_u64(&cursor);
	definition.provider = get_text(&cursor);
	definition.name = get_text(&cursor);
	count = rp_cursor_get_u32(&cursor);
	definition.fields = get_fields(&cursor, count, 0);
	definition.field_count = definition.fields ? count : 0;
	if (rp_cursor_failed(&cursor)) {
		/* Only malloc(3) and calloc(3), among the functions called above, set errno. */
		ret = errno == ENOMEM ? -ENOMEM : -EBADMSG;
	} else {
		ret = describe_json(&definition);
	}
	if (ret) {
		rp_bpf_definition_fini(&definition);
		return ret;
	}
	*ret_definition = definition;
	return 0;
}

/* Return: 0 if the payload determines the size. */
static uint32_t fixed_bytes(uint8_t type)
{
	switch (type) {
	case RP_TYPE_BOOL:
	case RP_TYPE_CHAR:
	case RP_TYPE_I8:
	case RP_TYPE_U8:
		return 1;
	case RP_TYPE_I16:
	case RP_TYPE_U16:
		return 2;
	case RP_TYPE_I32:
	case RP_TYPE_U32:
	case RP_TYPE_F32:
		return 4;
	case RP_TYPE_I64:
	case RP_TYPE_U64:
	case RP_TYPE_F64:
	case RP_TYPE_POINTER:
	case RP_TYPE_TIME:
		return 8;
	case RP_TYPE_GUID:
		return 16;
	default:
		return 0;
	}
}

/* Elements of an array have a fixed size, including structs. */
static uint32_t element_bytes(const struct rp_field *field)
{
	uint32_t bytes = 0;

	if (field->element != RP_TYPE_STRUCT)
		return fixed_bytes(field->element);
	for (uint16_t i = 0; i < field->member_count; i++)
		bytes += field->members[i].type == RP_TYPE_STRUCT ?
			 element_bytes(&(struct rp_field){
				.element = RP_TYPE_STRUCT,
				.members = field->members[i].members,
				.member_count = field->members[i].member_count,
			 }) : fixed_bytes(field->members[i].type);
	return bytes;
}

static int add_step(struct rp_bpf_path *path, enum rp_bpf_step_kind kind, uint32_t bytes)
{
	struct rp_bpf_step *last = path->step_count ? &path->steps[path->step_count - 1] : NULL;

	if (kind == RP_BPF_STEP_FIXED && last && last->kind == RP_BPF_STEP_FIXED) {
		last->bytes += bytes;
		return 0;
	}
	if (path->step_count == RP_BPF_STEPS)
		return -E2BIG;
	path->steps[path->step_count++] = (struct rp_bpf_step){ kind, bytes };
	return 0;
}

static int add_steps_over(struct rp_bpf_path *path, const struct rp_field *field)
{
	int ret = 0;

	switch (field->type) {
	case RP_TYPE_STRING:
		return add_step(path, RP_BPF_STEP_STRING, 0);
	case RP_TYPE_STRING16:
		return add_step(path, RP_BPF_STEP_STRING16, 0);
	case RP_TYPE_ARRAY:
		return add_step(path, RP_BPF_STEP_ARRAY, element_bytes(field));
	case RP_TYPE_STRUCT:
		for (uint16_t i = 0; ret == 0 && i < field->member_count; i++)
			ret = add_steps_over(path, &field->members[i]);
		return ret;
	default:
		return add_step(path, RP_BPF_STEP_FIXED, fixed_bytes(field->type));
	}
}

static int end_path(struct rp_bpf_path *path, const struct rp_field *field)
{
	path->value_bytes = fixed_bytes(field->type);
	switch (field->type) {
	case RP_TYPE_I8:
	case RP_TYPE_I16:
	case RP_TYPE_I32:
	case RP_TYPE_I64:
	case RP_TYPE_TIME:
		path->value_kind = RP_BPF_VALUE_SIGNED;
		return 0;
	case RP_TYPE_F32:
	case RP_TYPE_F64:
		path->value_kind = RP_BPF_VALUE_FLOAT;
		return 0;
	case RP_TYPE_GUID:
		path->value_kind = RP_BPF_VALUE_BYTES;
		return 0;
	case RP_TYPE_STRING:
		path->value_kind = RP_BPF_VALUE_STRING;
		return 0;
	default:
		path->value_kind = RP_BPF_VALUE_UNSIGNED;
		return path->value_bytes ? 0 : -EOPNOTSUPP;
	}
}

/* `name` is `FIELD.MEMBER`. Return: MEMBER; NULL if FIELD is not this field, or is no struct. */
static const char *name_inside(const struct rp_field *field, const char *name)
{
	size_t length = strlen(field->name);

	if (field->type != RP_TYPE_STRUCT)
		return NULL;
	if (length == 0)
		return name;
	return strncmp(field->name, name, length) == 0 && name[length] == '.' ?
	       name + length + 1 : NULL;
}

static int find(struct rp_bpf_path *path, const struct rp_field *fields, uint32_t count,
		const char *name)
{
	for (uint32_t i = 0; i < count; i++) {
		const char *inside = name_inside(&fields[i], name);
		uint32_t steps = path->step_count;
		struct rp_bpf_step last = path->steps[steps ? steps - 1 : 0];
		int ret = -ENOENT;

		if (inside)
			ret = find(path, fields[i].members, fields[i].member_count, inside);
		else if (strcmp(fields[i].name, name) == 0)
			ret = end_path(path, &fields[i]);
		if (ret != -ENOENT)
			return ret;
		/* Drop the steps that the search inside the field added. */
		path->step_count = steps;
		path->steps[steps ? steps - 1 : 0] = last;
		ret = add_steps_over(path, &fields[i]);
		if (ret != 0)
			return ret;
	}
	return -ENOENT;
}

int rp_bpf_path_find(const struct rp_bpf_definition *definition, const char *name,
		     struct rp_bpf_path *ret_path)
{
	struct rp_bpf_path path = { 0 };
	int ret = find(&path, definition->fields, definition->field_count, name);

	if (ret == 0)
		*ret_path = path;
	return ret;
}
