/* SPDX-License-Identifier: MIT */
#include "fields.h"

#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 4096u
#define DEPTH_MAX 16u

enum { STRUCT = 1, BOOL = 3, TEXT = 18, ARRAY = 19 };

/* Size of a value in bytes, by type code. 0: a variable size, or an unknown code. */
static const uint8_t sizes[20] = {
	[3] = 4, [4] = 2, [5] = 1, [6] = 1, [7] = 2, [8] = 2, [9] = 4, [10] = 4, [11] = 8,
	[12] = 8, [13] = 4, [14] = 8, [15] = 16, [16] = 8, [17] = 16,
};

const uint8_t *strict_take(struct strict_input *input, uint64_t size)
{
	static const uint8_t none[4];
	const uint8_t *at = input->at;

	if (input->failed || size > (uint64_t)(input->end - input->at)) {
		input->failed = true;
		return none;
	}
	input->at += size;
	return at;
}

struct strict_input strict_part(struct strict_input *input, uint64_t size)
{
	const uint8_t *at = strict_take(input, size);

	return input->failed ? (struct strict_input){ at, at, at, true } :
	       (struct strict_input){ at, at, at + size, false };
}

uint64_t strict_number(struct strict_input *input, unsigned int bytes)
{
	const uint8_t *at = strict_take(input, bytes);
	uint64_t value = 0;

	for (unsigned int i = bytes; !input->failed && i > 0; i--)
		value = value << 8 | at[i - 1];
	return value;
}

uint64_t strict_varint(struct strict_input *input, unsigned int bits)
{
	uint64_t value = 0;
	uint8_t byte;

	for (unsigned int shift = 0; shift < bits; shift += 7) {
		byte = (uint8_t)strict_number(input, 1);
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (shift + 7 > bits && (byte & 0x7f) >> (bits - shift))
			input->failed = true;
		if (!(byte & 0x80)) {
			input->failed |= shift && byte == 0;
			return value;
		}
	}
	input->failed = true;
	return 0;
}

void strict_text(struct strict_input *input, char *ret_text, size_t space)
{
	size_t length = 0;
	uint64_t unit;

	while ((unit = strict_number(input, 2)) != 0) {
		if (length + 1 < space)
			ret_text[length++] = unit < 128 ? (char)unit : '?';
	}
	ret_text[length] = '\0';
}

void strict_text8(struct strict_input *input, char *ret_text, size_t space)
{
	uint64_t size = strict_varint(input, 32);
	const uint8_t *text = strict_take(input, size);
	size_t length = input->failed ? 0 : size < space ? (size_t)size : space - 1;

	memcpy(ret_text, text, length);
	ret_text[length] = '\0';
}

static void free_fields(struct strict_field *fields, uint32_t count)
{
	for (uint32_t i = 0; fields && i < count; i++)
		free_fields(fields[i].members, fields[i].member_count);
	free(fields);
}

static const char *read_fields(struct strict_input *c, bool second, unsigned int depth,
			       struct strict_field **ret_fields, uint32_t *ret_count);

static const char *read_members(struct strict_input *c, bool second, unsigned int depth,
				struct strict_field *field)
{
	if (field->code != STRUCT && !(field->code == ARRAY && field->element == STRUCT))
		return NULL;
	return read_fields(c, second, depth + 1, &field->members, &field->member_count);
}

static const char *check_code(const struct strict_field *field, bool second)
{
	bool known = field->code == STRUCT || field->code == TEXT || field->code == ARRAY ||
		     (field->code < 20 && sizes[field->code]);

	if (!known || (field->code == ARRAY && !second))
		return "a definition with a type that is not allowed there";
	if (field->code == ARRAY && field->element != STRUCT && field->element != TEXT &&
	    (field->element >= 20 || !sizes[field->element]))
		return "a definition with an array of what is not allowed there";
	return NULL;
}

/* Read a field in the V2 form: size, name, code, element, members. */
static const char *read_second(struct strict_input *all, unsigned int depth,
			       struct strict_field *field)
{
	uint64_t size = strict_number(all, 4);
	struct strict_input c = strict_part(all, size < 4 ? UINT64_MAX : size - 4);
	const char *problem;

	strict_text(&c, field->name, sizeof(field->name));
	field->code = (uint32_t)strict_number(&c, 4);
	if (field->code == ARRAY)
		field->element = (uint32_t)strict_number(&c, 4);
	problem = check_code(field, true);
	if (!problem)
		problem = read_members(&c, true, depth, field);
	if (!problem && (c.failed || c.at != c.end))
		problem = "a definition with a field whose size is wrong";
	return problem;
}

static const char *read_first(struct strict_input *c, unsigned int depth,
			      struct strict_field *field)
{
	const char *problem;

	field->code = (uint32_t)strict_number(c, 4);
	problem = check_code(field, false);
	if (!problem)
		problem = read_members(c, false, depth, field);
	strict_text(c, field->name, sizeof(field->name));
	return problem;
}

static const char *read_fields(struct strict_input *c, bool second, unsigned int depth,
			       struct strict_field **ret_fields, uint32_t *ret_count)
{
	uint64_t count = strict_number(c, 4);
	const char *problem = NULL;

	*ret_count = 0;
	*ret_fields = NULL;
	if (c->failed || count > FIELDS_MAX || depth > DEPTH_MAX)
		return "a definition with too many fields";
	*ret_fields = calloc(count ? count : 1, sizeof(**ret_fields));
	if (!*ret_fields)
		return "no memory";
	*ret_count = (uint32_t)count;
	for (uint32_t i = 0; i < count && !problem && !c->failed; i++)
		problem = second ? read_second(c, depth, &(*ret_fields)[i]) :
			  read_first(c, depth, &(*ret_fields)[i]);
	return problem;
}

/* Read a tag {i32 length, u8 kind, data}. Its data is an opcode, or the fields in the V2 form. */
static const char *read_tag(struct strict_input *c, struct strict_definition *definition)
{
	uint64_t size = strict_number(c, 4), kind = strict_number(c, 1);
	struct strict_input tag = strict_part(c, size);
	const char *problem = NULL;

	if (kind == 1) {
		(void)strict_number(&tag, 1);
	} else if (kind == 2 && definition->field_count == 0) {
		free_fields(definition->fields, 0);
		problem = read_fields(&tag, true, 0, &definition->fields,
				      &definition->field_count);
	} else {
		problem = "a definition with fields twice, or a tag that nobody knows";
	}
	if (!problem && (tag.failed || tag.at != tag.end))
		problem = "a definition with a tag whose size is wrong";
	return problem;
}

static const char *read_definition(struct strict_input *c, struct strict_definition *definition)
{
	const char *problem;
	uint64_t level;

	definition->metadata_id = (uint32_t)strict_number(c, 4);
	strict_text(c, definition->provider, sizeof(definition->provider));
	definition->id = (uint32_t)strict_number(c, 4);
	strict_text(c, definition->name, sizeof(definition->name));
	(void)strict_number(c, 8);	/* keywords */
	(void)strict_number(c, 4);	/* version */
	level = strict_number(c, 4);
	problem = read_fields(c, false, 0, &definition->fields, &definition->field_count);
	while (!problem && !c->failed && c->at < c->end)
		problem = read_tag(c, definition);
	if (!problem && (c->failed || level > 5 || !definition->provider[0]))
		problem = "a definition that is too short, or has a wrong level or no provider";
	return problem;
}

const char *strict_define(struct strict_input blob, struct strict_definition **ret_definition)
{
	struct strict_definition *definition = calloc(1, sizeof(*definition));
	const char *problem;

	if (!definition)
		return "no memory";
	problem = read_definition(&blob, definition);
	if (problem)
		strict_definition_free(definition);
	else
		*ret_definition = definition;
	return problem;
}

static const char *read_row_fields(struct strict_input *c, unsigned int depth,
				   struct strict_field **ret_fields, uint32_t *ret_count);

/* Read a field in the form of version 6: size, name, code, element, members. */
static const char *read_row_field(struct strict_input *all, unsigned int depth,
				  struct strict_field *field)
{
	struct strict_input c = strict_part(all, strict_number(all, 2));
	const char *problem;

	strict_text8(&c, field->name, sizeof(field->name));
	field->code = (uint32_t)strict_number(&c, 1);
	if (field->code == ARRAY)
		field->element = (uint32_t)strict_number(&c, 1);
	problem = check_code(field, true);
	if (!problem && (field->code == STRUCT || field->element == STRUCT))
		problem = read_row_fields(&c, depth + 1, &field->members, &field->member_count);
	if (!problem && (c.failed || c.at != c.end))
		problem = "a definition with a field whose size is wrong";
	return problem;
}

static const char *read_row_fields(struct strict_input *c, unsigned int depth,
				   struct strict_field **ret_fields, uint32_t *ret_count)
{
	uint64_t count = strict_number(c, 2);
	const char *problem = NULL;

	if (c->failed || count > FIELDS_MAX || depth > DEPTH_MAX)
		return "a definition with too many fields";
	*ret_fields = calloc(count ? count : 1, sizeof(**ret_fields));
	if (!*ret_fields)
		return "no memory";
	*ret_count = (uint32_t)count;
	for (uint32_t i = 0; i < count && !problem && !c->failed; i++)
		problem = read_row_field(c, depth, &(*ret_fields)[i]);
	return problem;
}

/* Read opcode, keywords, level and version, each at most once, in the order of their codes. */
static const char *read_attributes(struct strict_input *row)
{
	static const uint8_t sizes_of[10] = { [1] = 1, [3] = 8, [8] = 1, [9] = 1 };
	struct strict_input c = strict_part(row, strict_number(row, 2));
	uint64_t before = 0, level = 6;

	while (!c.failed && c.at < c.end) {
		uint64_t code = strict_number(&c, 1), value;

		if (code <= before || code > 9 || !sizes_of[code])
			return "a definition with an attribute twice, or one that is not allowed";
		value = strict_number(&c, sizes_of[code]);
		if (code == 8)
			level = value;
		before = code;
	}
	return c.failed || level > 5 ? "a definition with a wrong level, or cut attributes" : NULL;
}

const char *strict_define_row(struct strict_input row, struct strict_definition **ret_definition)
{
	struct strict_definition *definition = calloc(1, sizeof(*definition));
	const char *problem;

	if (!definition)
		return "no memory";
	definition->metadata_id = (uint32_t)strict_varint(&row, 32);
	strict_text8(&row, definition->provider, sizeof(definition->provider));
	definition->id = (uint32_t)strict_varint(&row, 32);
	strict_text8(&row, definition->name, sizeof(definition->name));
	problem = read_row_fields(&row, 0, &definition->fields, &definition->field_count);
	if (!problem)
		problem = read_attributes(&row);
	if (!problem && (row.failed || row.at != row.end || !definition->provider[0]))
		problem = "a definition whose size is wrong, or without a provider";
	if (problem)
		strict_definition_free(definition);
	else
		*ret_definition = definition;
	return problem;
}

void strict_definition_free(struct strict_definition *definition)
{
	if (!definition)
		return;
	free_fields(definition->fields, definition->field_count);
	free(definition);
}

static void skip_value(struct strict_input *c, const struct strict_field *field, uint32_t code)
{
	char text[2];

	if (code == TEXT) {
		strict_text(c, text, sizeof(text));
	} else if (code == BOOL) {
		c->failed |= strict_number(c, 4) > 1;
	} else if (code == STRUCT) {
		for (uint32_t i = 0; i < field->member_count && !c->failed; i++)
			skip_value(c, &field->members[i], field->members[i].code);
	} else if (code == ARRAY) {
		uint64_t count = strict_number(c, 2);

		if (field->element < 20 && field->element != BOOL && sizes[field->element]) {
			strict_take(c, count * sizes[field->element]);
			return;
		}
		for (uint64_t i = 0; i < count && !c->failed; i++)
			skip_value(c, field, field->element);
	} else {
		strict_take(c, sizes[code]);
	}
}

const char *strict_payload(const struct strict_definition *definition,
			   struct strict_input payload)
{
	for (uint32_t i = 0; i < definition->field_count && !payload.failed; i++)
		skip_value(&payload, &definition->fields[i], definition->fields[i].code);
	if (payload.failed)
		return "a payload that is shorter than its fields, or a truth value above 1";
	return definition->field_count && payload.at != payload.end ?
	       "a payload that is longer than its fields" : NULL;
}

bool strict_integer(const struct strict_definition *definition, struct strict_input payload,
		    const char *name, uint64_t *ret_value)
{
	for (uint32_t i = 0; i < definition->field_count && !payload.failed; i++) {
		const struct strict_field *field = &definition->fields[i];

		if (strcmp(field->name, name) == 0) {
			if (field->code < 5 || field->code > 12)
				return false;
			*ret_value = strict_number(&payload, sizes[field->code]);
			return !payload.failed;
		}
		skip_value(&payload, field, field->code);
	}
	return false;
}
