/* SPDX-License-Identifier: MIT */
#include "nettrace/self_describing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/component.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/text.h"
#include "nettrace/encoder.h"
#include "nettrace/field_walk.h"

#define FIELDS_MAX 128u
#define FIRST_ID 32768u			/* as the library's ids from names; see event.c */
#define ID_COUNT (RP_EVENT_ID_MAX - 2 - FIRST_ID)

/* A type of a stream, found by its schema. */
struct described_type {
	struct rp_encoder_event_type *type;
	uint64_t hash;
	uint32_t id;
	size_t schema_bytes;
	uint8_t schema[];
};

/* Take a NUL-terminated name that a field may have. */
static bool take_name(struct rp_cursor *rest, const char **ret_name)
{
	const uint8_t *end = memchr(rest->at, 0, rp_cursor_left(rest));

	*ret_name = (const char *)rest->at;
	if (!end || !rp_text_is_name(*ret_name))
		return false;
	rest->at = end + 1;
	return true;
}

/* The types that component_payload.h writes. */
static bool is_scalar(uint8_t type)
{
	return type != RP_TYPE_NONE && type <= RP_TYPE_STRING && type != RP_TYPE_TIME;
}

bool rp_self_describing_next(struct rp_self_describing *walk, struct rp_field *ret_field,
			     struct rp_value *ret_value)
{
	struct rp_field field = { 0 };
	struct rp_fields value;

	if (!walk->left || rp_cursor_u8(&walk->rest, &field.type) != 0)
		return false;
	if (field.type == RP_TYPE_ARRAY) {
		if (rp_cursor_u8(&walk->rest, &field.element) != 0 || field.element != RP_TYPE_U8)
			return false;
	} else if (!is_scalar(field.type)) {
		return false;
	}
	if (!take_name(&walk->rest, &field.name))
		return false;
	*ret_field = field;
	*ret_value = (struct rp_value)RP_VALUE_INIT;
	value = (struct rp_fields){
		.at = walk->rest.at, .end = walk->rest.end, .fields = ret_field, .left = 1,
		.layout = RP_LAYOUT_WRITTEN, .payload = walk->rest.at,
		.payload_end = walk->rest.end,
	};
	if (rp_fields_next(&value, ret_value) != 1)
		return false;
	/* The function returns the existing elements of an array that is cut. */
	if (field.type == RP_TYPE_ARRAY && ret_value->count != ret_value->size_bytes)
		return false;
	walk->rest.at = value.at;
	walk->left--;
	return true;
}

bool rp_self_describing_begin(struct rp_self_describing *walk, const void *payload,
			      size_t payload_bytes)
{
	struct rp_value value;
	struct rp_field field;
	uint16_t count, is_cut;

	if (payload_bytes < RP_COMPONENT_PAYLOAD_HEADER ||
	    memcmp(payload, RP_COMPONENT_MAGIC, 4) != 0)
		return false;
	memcpy(&count, (const uint8_t *)payload + 4, sizeof(count));
	memcpy(&is_cut, (const uint8_t *)payload + 6, sizeof(is_cut));
	if (is_cut > 1 || count > FIELDS_MAX)
		return false;
	walk->rest = rp_cursor_over((const uint8_t *)payload + RP_COMPONENT_PAYLOAD_HEADER,
				    payload_bytes - RP_COMPONENT_PAYLOAD_HEADER);
	walk->left = count;
	walk->is_cut = is_cut;
	for (struct rp_self_describing check = *walk;;) {
		if (!check.left)
			return rp_cursor_left(&check.rest) == 0;
		if (!rp_self_describing_next(&check, &field, &value))
			return false;
	}
}

/*
 * Read a raw event: its name, and the walk over its payload. Return: whether an event can be made
 * of it.
 */
static bool read_raw(const struct rp_encoder_event *event, const char **ret_name,
		     struct rp_self_describing *ret_walk)
{
	struct rp_cursor rest = rp_cursor_over(event->payload, event->payload_bytes);
	uint16_t bytes;

	return event->payload_bytes && take_name(&rest, ret_name) &&
	       rp_cursor_u16(&rest, &bytes) == 0 && rp_cursor_left(&rest) == bytes &&
	       rp_self_describing_begin(ret_walk, rest.at, bytes);
}

/* Collect the fields, their values, and the schema: all but the values. Return: 0; -ENOMEM. */
static int collect(struct rp_self_describing_types *types, const struct rp_definition *definition,
		   struct rp_self_describing *walk, struct rp_field *fields)
{
	struct rp_value value;

	types->values.size = types->schema.size = 0;
	rp_outbuf_put_u8(&types->schema, definition->level);
	rp_outbuf_put(&types->schema, definition->name, strlen(definition->name) + 1);
	rp_outbuf_put(&types->schema, definition->provider, strlen(definition->provider) + 1);
	for (struct rp_field *field = fields; walk->left; field++) {
		const uint8_t *begin, *end;

		if (!rp_self_describing_next(walk, field, &value))
			break;	/* cannot be: the payload was checked */
		end = walk->rest.at;
		begin = (const uint8_t *)field->name + strlen(field->name) + 1;
		rp_outbuf_put(&types->values, begin, (size_t)(end - begin));
		rp_outbuf_put_u8(&types->schema, field->type);
		rp_outbuf_put(&types->schema, field->name, strlen(field->name) + 1);
	}
	if (!types->values.failed && !types->schema.failed)
		return 0;
	types->values.failed = types->schema.failed = false;
	return -ENOMEM;
}

static struct described_type *find_type(const struct rp_self_describing_types *types, uint64_t hash)
{
	for (uint32_t i = 0; i < types->count; i++) {
		struct described_type *type = types->list[i];

		if (type->hash == hash && type->schema_bytes == types->schema.size &&
		    memcmp(type->schema, types->schema.bytes, types->schema.size) == 0)
			return type;
	}
	return NULL;
}

static bool id_is_used(const struct rp_self_describing_types *types, uint32_t id)
{
	for (uint32_t i = 0; i < types->count; i++) {
		if (types->list[i]->id == id)
			return true;
	}
	return false;
}

/* Return: an id that follows from the schema, so that it is the same in all traces. */
static uint32_t choose_id(const struct rp_self_describing_types *types, uint64_t hash)
{
	uint32_t offset = (uint32_t)(hash % ID_COUNT);

	while (id_is_used(types, FIRST_ID + offset))
		offset = (offset + 1) % ID_COUNT;
	return FIRST_ID + offset;
}

/* Add a type for the present schema. */
static int add_type(struct rp_self_describing_types *types, struct rp_encoder *encoder,
		    const struct rp_definition *definition, uint64_t hash,
		    struct described_type **ret_type)
{
	struct rp_definition own = *definition;
	struct described_type *type, **grown;
	int ret;

	grown = rp_array_reserve(types->list, types->count, &types->capacity, 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	types->list = grown;
	type = malloc(sizeof(*type) + types->schema.size);
	if (!type)
		return -ENOMEM;
	own.id = choose_id(types, hash);
	*type = (struct described_type){
		.id = own.id, .hash = hash, .schema_bytes = types->schema.size,
	};
	memcpy(type->schema, types->schema.bytes, types->schema.size);
	/* A definition that the format cannot hold remains in the list, without a type. */
	ret = rp_encoder_define(encoder, &own, &type->type);
	if (ret == -ENOMEM) {
		free(type);
		return ret;
	}
	types->list[types->count++] = type;
	*ret_type = type;
	return 0;
}

int rp_self_describing_get(struct rp_self_describing_types *types, struct rp_encoder *encoder,
			   const struct rp_definition *raw, const struct rp_encoder_event *event,
			   struct rp_encoder_event *ret_event)
{
	struct rp_field fields[FIELDS_MAX];
	struct rp_definition definition = *raw;
	struct rp_self_describing walk;
	struct described_type *type;
	uint64_t hash;
	int ret;

	if (!read_raw(event, &definition.name, &walk))
		return 0;
	definition.fields = fields;
	definition.field_count = walk.left;
	definition.is_internal = true;
	ret = collect(types, &definition, &walk, fields);
	if (ret != 0)
		return ret;
	hash = rp_hash_bytes(RP_HASH_BEGIN, types->schema.bytes, types->schema.size);
	type = find_type(types, hash);
	if (!type && types->count == RP_SELF_DESCRIBING_TYPES)
		return 0;
	if (!type)
		ret = add_type(types, encoder, &definition, hash, &type);
	if (ret != 0 || !type->type)
		return ret;
	*ret_event = *event;
	ret_event->type = type->type;
	ret_event->payload = types->values.bytes;
	ret_event->payload_bytes = types->values.size;
	return 1;
}

size_t rp_self_describing_memory(const struct rp_self_describing_types *types)
{
	size_t bytes = types->capacity * sizeof(*types->list) + types->values.capacity +
		       types->schema.capacity;

	for (uint32_t i = 0; i < types->count; i++)
		bytes += sizeof(*types->list[i]) + types->list[i]->schema_bytes;
	return bytes;
}

void rp_self_describing_fini(struct rp_self_describing_types *types)
{
	for (uint32_t i = 0; i < types->count; i++)
		free(types->list[i]);
	free(types->list);
	rp_outbuf_fini(&types->values);
	rp_outbuf_fini(&types->schema);
}
