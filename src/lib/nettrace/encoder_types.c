/* SPDX-License-Identifier: MIT */
/* The types of the events that an encoder writes. */
#include "nettrace/encoder_parts.h"

#include <string.h>

#include "base/heap.h"
#include "nettrace/metadata.h"

void rp_encoder_destroy_type(struct rp_encoder_event_type *type)
{
	if (!type)
		return;
	rp_plan_fini(&type->plan);
	rp_outbuf_fini(&type->blob);
	rp_heap_free(type->raw);
	rp_heap_free(type);
}

static int grow_types(struct rp_encoder *encoder)
{
	uint32_t capacity = encoder->type_capacity ? encoder->type_capacity * 2 : 16;
	struct rp_encoder_event_type **types;

	if (encoder->type_count < encoder->type_capacity)
		return 0;
	types = rp_heap_resize(encoder->types, capacity * sizeof(*types));
	if (!types)
		return -ENOMEM;
	encoder->types = types;
	encoder->type_capacity = capacity;
	return 0;
}

/* Whether events of this definition have a name and a payload that may describe itself. */
static bool is_raw(const struct rp_definition *definition)
{
	const struct rp_field *fields = definition->fields;

	return !definition->is_wire && definition->field_count == 2 &&
	       strncmp(definition->name, "Dynamic", strlen("Dynamic")) == 0 &&
	       fields[0].type == RP_TYPE_STRING && strcmp(fields[0].name, "name") == 0 &&
	       fields[1].type == RP_TYPE_ARRAY && fields[1].element == RP_TYPE_U8 &&
	       strcmp(fields[1].name, "payload") == 0;
}

/*
 * Copy what a described event has of its raw event's definition: provider, level and keywords.
 * Definitions of other events are not copied. Return: 0; -ENOMEM.
 */
static int copy_raw(const struct rp_definition *definition, struct rp_definition **ret_raw)
{
	const size_t bytes = strlen(definition->provider) + 1;
	struct rp_definition *raw;

	/* A described event may itself have the form of a raw one, which would describe another. */
	if (definition->is_internal || !is_raw(definition))
		return 0;
	raw = rp_heap_alloc(sizeof(*raw) + bytes);
	if (!raw)
		return -ENOMEM;
	*raw = (struct rp_definition){
		.provider = memcpy(raw + 1, definition->provider, bytes),
		.level = definition->level,
		.keywords = definition->keywords,
	};
	*ret_raw = raw;
	return 0;
}

uint32_t rp_encoder_next_id(const struct rp_encoder *encoder)
{
	return encoder->used_ids + encoder->type_count + 1;
}

/* Make a type, with space for it in the encoder. Return: NULL: no memory. */
static struct rp_encoder_event_type *make_type(struct rp_encoder *encoder)
{
	struct rp_encoder_event_type *type = grow_types(encoder) < 0 ? NULL :
					     rp_heap_zalloc(1, sizeof(*type));

	if (type)
		type->plain = (struct rp_encoder_plain){
			.metadata_id = rp_encoder_next_id(encoder), .bytes = UINT32_MAX,
		};
	return type;
}

int rp_encoder_define_encoded(struct rp_encoder *encoder, struct rp_outbuf *definition,
			      struct rp_encoder_event_type **ret_type)
{
	struct rp_encoder_event_type *type = definition->failed ? NULL : make_type(encoder);
	int ret = type ? rp_plan_make(&type->plan, NULL, 0) : -ENOMEM;

	if (ret < 0) {
		rp_encoder_destroy_type(type);
		rp_outbuf_fini(definition);
		return ret;
	}
	type->blob = *definition;
	*definition = (struct rp_outbuf){ 0 };
	encoder->types[encoder->type_count++] = type;
	*ret_type = type;
	return 0;
}

int rp_encoder_define(struct rp_encoder *encoder, const struct rp_definition *definition,
		      struct rp_encoder_event_type **ret_type)
{
	struct rp_encoder_event_type *type = make_type(encoder);
	int ret;

	if (!type)
		return -ENOMEM;
	ret = rp_plan_make(&type->plan, definition->fields,
			   definition->is_wire ? 0 : definition->field_count);
	if (!ret) {
		type->is_internal = definition->is_internal;
		if (encoder->stream.is_v6)
			ret = rp_metadata_write_row(&type->blob, type->plain.metadata_id,
						    definition);
		else
			rp_metadata_write(&type->blob, type->plain.metadata_id, definition);
		if (type->blob.failed)
			ret = -ENOMEM;
	}
	if (!ret)
		ret = copy_raw(definition, &type->raw);
	if (ret < 0) {
		rp_encoder_destroy_type(type);
		return ret;
	}
	encoder->types[encoder->type_count++] = type;
	*ret_type = type;
	return 0;
}
