/* SPDX-License-Identifier: MIT */
/*
 * A decoded event has a payload in the layout of nettrace, so everything that reads the fields of
 * events reads these, too. While the payload is built, `shape` notes the fields: type, type of the
 * elements, name with NUL; then for structs and arrays of structs the number of members (u16) and
 * the members. Equal shapes have one type.
 */
#include "tools/trace/json_event.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/field.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/utf.h"
#include "tools/trace/json_text.h"

/* The types of all shapes may use this much memory. */
#define TYPE_BYTES_MAX (64u << 20)
#define REASON_BYTES 128
#define NAME_BEGIN "json_"

struct decoded_type {
	struct rp_chain_node node;
	const struct rp_reader_type *raw;	/* of the JSON events */
	struct rp_reader_type type;
	struct rp_reader_field *fields;
	size_t shape_bytes;
	uint8_t *shape;			/* contains the names */
};

struct shape_walk {
	struct rp_cursor rest;
	struct rp_reader_field *next;	/* where the next fields begin; NULL: only count them */
	size_t count;
};

/* Decoded types have this very text as the name of a field, and are not decoded again. */
static const char source_name[] = "source";

static bool is_text(const struct rp_reader_field *field, const char *name)
{
	return (field->type == RP_TYPE_STRING || field->type == RP_TYPE_STRING16) &&
	       strcmp(field->name, name) == 0;
}

bool rp_json_event_is(const struct rp_reader_type *type)
{
	return type->field_count == 2 && type->fields[0].name != source_name &&
	       strncmp(type->name, NAME_BEGIN, strlen(NAME_BEGIN)) == 0 &&
	       is_text(&type->fields[0], source_name) && is_text(&type->fields[1], "json");
}

static void put_field(struct rp_json_decoder *to, uint8_t type, uint8_t element, const char *name)
{
	rp_outbuf_put_u8(&to->shape, type);
	rp_outbuf_put_u8(&to->shape, element);
	rp_outbuf_put(&to->shape, name, strlen(name) + 1);
}

/* A NUL ends a text in a payload, so one inside becomes U+FFFD. */
static void put_text(struct rp_outbuf *out, const char *text, size_t bytes)
{
	while (bytes) {
		const size_t part = strnlen(text, bytes);

		rp_outbuf_put(out, text, part);
		if (part == bytes)
			break;
		rp_outbuf_put(out, "\ufffd", strlen("\ufffd"));
		text += part + 1;
		bytes -= part + 1;
	}
	rp_outbuf_put_u8(out, 0);
}

static void put_double(struct rp_outbuf *out, double value)
{
	rp_outbuf_put(out, &value, sizeof(value));
}

/* Return: the type of a field with this value; NONE: the value stays a JSON text. */
static uint8_t type_of(struct json_object *value)
{
	switch (json_object_get_type(value)) {
	case json_type_null:
		return RP_TYPE_F64;
	case json_type_boolean:
		return RP_TYPE_BOOL;
	case json_type_int:
		return json_object_get_uint64(value) > INT64_MAX ? RP_TYPE_U64 : RP_TYPE_I64;
	case json_type_double:
		return isfinite(json_object_get_double(value)) ? RP_TYPE_F64 : RP_TYPE_NONE;
	case json_type_string:
		return RP_TYPE_STRING;
	case json_type_object:
		return json_object_object_length(value) > UINT16_MAX ? RP_TYPE_NONE :
		       RP_TYPE_STRUCT;
	case json_type_array:
		return RP_TYPE_ARRAY;
	}
	return RP_TYPE_NONE;
}

static void put_json(struct rp_json_decoder *to, struct json_object *value)
{
	const int style = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
	const char *text = json_object_to_json_string_ext(value, style);

	if (text)
		put_text(&to->payload, text, strlen(text));
	else
		to->payload.failed = true;
}

/* Put a value of a type that is neither a struct nor an array. */
static void put_simple(struct rp_json_decoder *to, uint8_t type, struct json_object *value)
{
	switch (type) {
	case RP_TYPE_BOOL:
		rp_outbuf_put_u8(&to->payload, json_object_get_boolean(value) != 0);
		break;
	case RP_TYPE_I64:
		rp_outbuf_put_u64(&to->payload, (uint64_t)json_object_get_int64(value));
		break;
	case RP_TYPE_U64:
		rp_outbuf_put_u64(&to->payload, json_object_get_uint64(value));
		break;
	case RP_TYPE_F64:
		put_double(&to->payload, value ? json_object_get_double(value) : NAN);
		break;
	case RP_TYPE_STRING:
		put_text(&to->payload, json_object_get_string(value),
			 (size_t)json_object_get_string_len(value));
		break;
	default:
		put_json(to, value);
	}
}

static void put_value(struct rp_json_decoder *to, const char *name, struct json_object *value,
		      unsigned int level);

static void put_members(struct rp_json_decoder *to, struct json_object *object, unsigned int level)
{
	rp_outbuf_put_u16(&to->shape, (size_t)json_object_object_length(object));
	json_object_object_foreach(object, name, value) {
		/* A member without a name would make the struct look like an array in an array. */
		put_value(to, *name ? name : "…empty", value, level);
	}
}

/* Put the members of an array's element: those of an object, or the array without a name. */
static void put_element(struct rp_json_decoder *to, struct json_object *element,
			unsigned int level)
{
	if (json_object_get_type(element) == json_type_object) {
		put_members(to, element, level);
		return;
	}
	rp_outbuf_put_u16(&to->shape, 1);
	put_value(to, "", element, level);
}

/* Return: whether an element is an integer that a double may not have. */
static bool has_large_integer(struct json_object *array)
{
	const int64_t most = 1ll << 53;

	for (size_t i = 0; i < json_object_array_length(array); i++) {
		struct json_object *element = json_object_array_get_idx(array, i);
		const uint8_t type = type_of(element);
		const int64_t number = type == RP_TYPE_I64 ? json_object_get_int64(element) : 0;

		if (type == RP_TYPE_U64 || number > most || number < -most)
			return true;
	}
	return false;
}

/* Return: the type that all elements can have; NONE: there is none. */
static uint8_t element_type(struct json_object *array)
{
	const size_t count = json_object_array_length(array);
	uint8_t common = count ? RP_TYPE_NONE : RP_TYPE_I64;

	if (count > UINT16_MAX)
		return RP_TYPE_NONE;
	for (size_t i = 0; i < count; i++) {
		struct json_object *element = json_object_array_get_idx(array, i);
		uint8_t type = type_of(element);
		const bool is_number = type == RP_TYPE_I64 || type == RP_TYPE_U64 ||
				       type == RP_TYPE_F64;

		if (type == RP_TYPE_ARRAY)
			type = RP_TYPE_STRUCT;
		if (type == RP_TYPE_NONE)
			return type;
		if (i == 0 || common == type)
			common = type;
		else if (is_number && (common == RP_TYPE_I64 || common == RP_TYPE_U64 ||
				       common == RP_TYPE_F64))
			common = RP_TYPE_F64;
		else
			return RP_TYPE_NONE;
	}
	return common == RP_TYPE_F64 && has_large_integer(array) ? RP_TYPE_NONE : common;
}

/* Put the elements of an array of structs. Return: whether they have the same members. */
static bool put_structs(struct rp_json_decoder *to, struct json_object *array, unsigned int level)
{
	const size_t count = json_object_array_length(array);
	const enum json_type kind = json_object_get_type(json_object_array_get_idx(array, 0));
	const size_t first = to->shape.size, begin = to->payload.size;
	size_t first_bytes = 0;

	for (size_t i = 0; i < count && !to->shape.failed && !to->payload.failed; i++) {
		struct json_object *element = json_object_array_get_idx(array, i);
		const size_t at = to->shape.size;

		if (json_object_get_type(element) != kind)
			return false;
		put_element(to, element, level);
		/* Readers end an array at an element of no bytes. */
		if (to->shape.failed || to->payload.size == begin)
			return false;
		if (i == 0)
			first_bytes = to->shape.size - at;
		else if (to->shape.size - at != first_bytes ||
			 memcmp(to->shape.bytes + first, to->shape.bytes + at, first_bytes) != 0)
			return false;
		else
			to->shape.size = at;
	}
	return true;
}

/* Put an array as a field. Return: false, and nothing is put, if it has to stay a JSON text. */
static bool put_array(struct rp_json_decoder *to, const char *name, struct json_object *array,
		      unsigned int level)
{
	const size_t shape_size = to->shape.size, payload_size = to->payload.size;
	const uint8_t element = element_type(array);

	if (element == RP_TYPE_NONE)
		return false;
	put_field(to, RP_TYPE_ARRAY, element, name);
	rp_outbuf_put_u16(&to->payload, json_object_array_length(array));
	if (element == RP_TYPE_STRUCT) {
		if (put_structs(to, array, level + 1))
			return true;
		to->shape.size = shape_size;
		to->payload.size = payload_size;
		return false;
	}
	for (size_t i = 0; i < json_object_array_length(array); i++)
		put_simple(to, element, json_object_array_get_idx(array, i));
	return true;
}

static void put_value(struct rp_json_decoder *to, const char *name, struct json_object *value,
		      unsigned int level)
{
	const uint8_t type = type_of(value);
	const bool is_flat = type != RP_TYPE_STRUCT && type != RP_TYPE_ARRAY;

	if (type == RP_TYPE_ARRAY && level < RP_JSON_LEVELS_MAX &&
	    put_array(to, name, value, level))
		return;
	if (type == RP_TYPE_STRUCT && level < RP_JSON_LEVELS_MAX) {
		put_field(to, type, RP_TYPE_NONE, name);
		put_members(to, value, level + 1);
	} else if (is_flat && type != RP_TYPE_NONE) {
		put_field(to, type, RP_TYPE_NONE, name);
		put_simple(to, type, value);
	} else {
		put_field(to, RP_TYPE_STRING, RP_TYPE_NONE, name);
		put_json(to, value);
	}
}

static uint8_t wire_bytes(uint8_t type)
{
	switch (type) {
	case RP_TYPE_BOOL:
		return 1;
	case RP_TYPE_I64:
	case RP_TYPE_U64:
	case RP_TYPE_F64:
		return 8;
	}
	return 0;
}

/* Read the fields of a shape into `fields`, or count them. The shape is that of put_value(). */
static void read_fields(struct shape_walk *walk, struct rp_reader_field *fields, size_t count)
{
	walk->count += count;
	if (fields)
		walk->next += count;
	for (size_t i = 0; i < count; i++) {
		struct rp_reader_field field = { 0 };

		(void)rp_cursor_u8(&walk->rest, &field.type);
		(void)rp_cursor_u8(&walk->rest, &field.element);
		field.name = (const char *)walk->rest.at;
		walk->rest.at += strlen(field.name) + 1;
		field.wire_bytes = wire_bytes(field.type == RP_TYPE_ARRAY ? field.element :
					      field.type);
		if (field.type == RP_TYPE_STRUCT || field.element == RP_TYPE_STRUCT) {
			(void)rp_cursor_u16(&walk->rest, &field.member_count);
			field.members = walk->next;
			read_fields(walk, walk->next, field.member_count);
		}
		if (fields)
			fields[i] = field;
	}
}

/* Return how many fields the shape has at its top. */
static size_t top_count(const struct rp_json_decoder *decoder)
{
	uint16_t count;

	memcpy(&count, decoder->shape.bytes, sizeof(count));
	return count + 1u;
}

static struct shape_walk begin_walk(const uint8_t *shape, size_t bytes)
{
	return (struct shape_walk){ .rest = rp_cursor_over(shape + 2, bytes - 2) };
}

/* Return: NULL without memory. */
static struct decoded_type *add_type(struct rp_json_decoder *decoder,
				  const struct rp_reader_type *raw, uint64_t hash)
{
	const size_t shape_bytes = decoder->shape.size;
	struct shape_walk walk = begin_walk(decoder->shape.bytes, shape_bytes);
	struct decoded_type *type;
	size_t bytes;

	read_fields(&walk, NULL, top_count(decoder));
	bytes = sizeof(*type) + walk.count * sizeof(*type->fields) + shape_bytes;
	type = malloc(bytes);
	if (!type)
		return NULL;
	*type = (struct decoded_type){ .raw = raw, .type = *raw, .shape_bytes = shape_bytes };
	type->fields = (struct rp_reader_field *)(type + 1);
	type->shape = memcpy(type->fields + walk.count, decoder->shape.bytes, shape_bytes);
	walk = begin_walk(type->shape, shape_bytes);
	walk.next = type->fields;
	read_fields(&walk, type->fields, top_count(decoder));
	if (strcmp(type->fields[0].name, source_name) == 0)
		type->fields[0].name = source_name;
	type->type.fields = type->fields;
	type->type.field_count = (uint32_t)top_count(decoder);
	type->type.user = NULL;
	rp_chains_add(&decoder->types, &type->node, hash);
	decoder->type_count++;
	decoder->type_bytes += bytes;
	return type;
}

static struct decoded_type *find_type(struct rp_json_decoder *decoder,
				   const struct rp_reader_type *raw, uint64_t hash)
{
	const struct cds_hlist_head *chain = rp_chains_at(&decoder->types, hash);
	struct decoded_type *type;

	cds_hlist_for_each_entry_2(type, chain, node.node) {
		if (type->node.hash == hash && type->raw == raw &&
		    type->shape_bytes == decoder->shape.size &&
		    memcmp(type->shape, decoder->shape.bytes, type->shape_bytes) == 0)
			return type;
	}
	return NULL;
}

/* Return: the decoded event; NULL: no memory. */
static const struct rp_reader_event *finish(struct rp_json_decoder *decoder,
					    const struct rp_reader_event *event, bool is_limited)
{
	struct decoded_type *type;
	uint64_t hash;

	if (decoder->shape.failed || decoder->payload.failed)
		return NULL;
	hash = rp_hash_bytes(RP_HASH_BEGIN, &event->type, sizeof(event->type));
	hash = rp_hash_bytes(hash, decoder->shape.bytes, decoder->shape.size);
	type = find_type(decoder, event->type, hash);
	if (!type && is_limited && (decoder->type_count >= RP_JSON_TYPES_MAX ||
				    decoder->type_bytes >= TYPE_BYTES_MAX)) {
		decoder->is_full = true;
		return event;
	}
	if (!type)
		type = add_type(decoder, event->type, hash);
	if (!type)
		return NULL;
	decoder->event = *event;
	decoder->event.type = &type->type;
	decoder->event.payload = decoder->payload.bytes;
	decoder->event.payload_bytes = decoder->payload.size;
	return &decoder->event;
}

/* Begin an event of `members` fields after its source. */
static void begin(struct rp_json_decoder *decoder, const char *source, bool has_source,
		  size_t members)
{
	decoder->shape.size = decoder->payload.size = 0;
	decoder->shape.failed = decoder->payload.failed = false;
	rp_outbuf_put_u16(&decoder->shape, members);
	put_field(decoder, RP_TYPE_STRING, RP_TYPE_NONE, has_source ? "…source" : source_name);
	put_text(&decoder->payload, source, strlen(source));
}

/* Return: as finish(). */
static const struct rp_reader_event *keep_text(struct rp_json_decoder *decoder,
					       const struct rp_reader_event *event,
					       const char *source, const char *json,
					       size_t json_bytes, const char *reason)
{
	begin(decoder, source, false, 2);
	put_field(decoder, RP_TYPE_STRING, RP_TYPE_NONE, "json");
	put_text(&decoder->payload, json, json_bytes);
	put_field(decoder, RP_TYPE_STRING, RP_TYPE_NONE, RP_JSON_INVALID);
	put_text(&decoder->payload, reason, strlen(reason));
	return finish(decoder, event, false);
}

/* Return: as finish(); `event` itself: there are too many types. */
static const struct rp_reader_event *put_event(struct rp_json_decoder *decoder,
					       const struct rp_reader_event *event,
					       const char *source, struct json_object *value)
{
	if (type_of(value) == RP_TYPE_STRUCT) {
		const size_t members = (size_t)json_object_object_length(value);

		begin(decoder, source, json_object_object_get_ex(value, source_name, NULL),
		      members);
		json_object_object_foreach(value, name, member)
			put_value(decoder, *name ? name : "…empty", member, 0);
	} else {
		begin(decoder, source, false, 1);
		put_value(decoder, "value", value, 0);
	}
	return finish(decoder, event, true);
}

/* Copy both texts of an event. Return: 0; -EBADMSG: the payload is cut; -ENOMEM. */
static int copy_texts(struct rp_json_decoder *decoder, const struct rp_reader_event *event,
		      size_t *ret_json)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_outbuf *text = &decoder->text;
	struct rp_fields fields;

	text->size = 0;
	text->failed = false;
	rp_reader_get_fields(event, &fields);
	for (int i = 0; i < 2; i++) {
		size_t bytes;

		if (rp_fields_next(&fields, &value) != 1)
			return -EBADMSG;
		*ret_json = text->size;
		bytes = value.size_bytes;
		/* A unit of UTF-16 has up to 3 bytes in UTF-8. */
		if (rp_outbuf_reserve(text, bytes / 2 * 3 + bytes % 2 + 1) != 0)
			return -ENOMEM;
		if (value.type == RP_TYPE_STRING16)
			bytes = rp_utf8_from_utf16(value.bytes, bytes / 2,
						   (char *)text->bytes + text->size);
		else
			memcpy(text->bytes + text->size, value.bytes, bytes);
		text->size += bytes;
		rp_outbuf_put_u8(text, 0);
	}
	return 0;
}

const struct rp_reader_event *rp_json_decode(struct rp_json_decoder *decoder,
					     const struct rp_reader_event *event)
{
	struct json_object *value;
	char reason[REASON_BYTES];
	const struct rp_reader_event *decoded;
	const char *source, *json;
	size_t at, json_bytes;
	int ret;

	if (!rp_json_event_is(event->type))
		return event;
	ret = copy_texts(decoder, event, &at);
	if (ret)
		return ret == -ENOMEM ? NULL : event;
	source = (const char *)decoder->text.bytes;
	json = source + at;
	json_bytes = decoder->text.size - at - 1;
	ret = rp_json_text_parse(json, json_bytes, &value, reason, sizeof(reason));
	if (ret == -ENOMEM)
		return NULL;
	if (ret)
		return keep_text(decoder, event, source, json, json_bytes, reason);
	decoded = put_event(decoder, event, source, value);
	json_object_put(value);
	if (decoded == event)
		decoded = keep_text(decoder, event, source, json, json_bytes,
				    "the trace has too many different sets of members");
	return decoded;
}

void rp_json_decoder_fini(struct rp_json_decoder *decoder)
{
	struct cds_hlist_head *chains = decoder->types.grown ? decoder->types.grown :
					decoder->types.first;
	const size_t count = decoder->types.grown ? decoder->types.capacity : RP_CHAINS_AT_FIRST;

	for (size_t i = 0; i < count; i++) {
		struct decoded_type *type, *next;

		cds_hlist_for_each_entry_safe_2(type, next, &chains[i], node.node)
			free(type);
	}
	free(decoder->types.grown);
	rp_outbuf_fini(&decoder->text);
	rp_outbuf_fini(&decoder->payload);
	rp_outbuf_fini(&decoder->shape);
	memset(decoder, 0, sizeof(*decoder));
}
