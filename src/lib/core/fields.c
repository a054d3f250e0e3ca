/* SPDX-License-Identifier: MIT */
#include "core/fields.h"

#include <stdlib.h>
#include <string.h>

#include <ringpipe/detail/declare.h>

#include "base/hash.h"
#include "base/text.h"

static const uint8_t fixed_bytes[] = {
	[RP_TYPE_BOOL] = 1, [RP_TYPE_CHAR] = 1, [RP_TYPE_I8] = 1, [RP_TYPE_U8] = 1,
	[RP_TYPE_I16] = 2, [RP_TYPE_U16] = 2, [RP_TYPE_I32] = 4, [RP_TYPE_U32] = 4,
	[RP_TYPE_I64] = 8, [RP_TYPE_U64] = 8, [RP_TYPE_F32] = 4, [RP_TYPE_F64] = 8,
	[RP_TYPE_POINTER] = 8, [RP_TYPE_GUID] = 16, [RP_TYPE_TIME] = 8,
	[RP_TYPE_STRUCT] = 0,
};

size_t rp_type_bytes(uint8_t type)
{
	return type < sizeof(fixed_bytes) ? fixed_bytes[type] : 0;
}

#define DEPTH_MAX 8u

static bool value_fits(int64_t value, uint8_t type)
{
	unsigned int bits = 8 * (unsigned int)rp_type_bytes(type);
	bool is_signed = type == RP_TYPE_I8 || type == RP_TYPE_I16 || type == RP_TYPE_I32;

	if (bits == 64)
		return true;
	return is_signed ? value >= -(1ll << (bits - 1)) && value < 1ll << (bits - 1) :
			   value >= 0 && value < 1ll << bits;
}

static bool enumeration_is_valid(const struct rp_enumeration *enumeration, uint8_t type)
{
	if (type < RP_TYPE_I8 || type > RP_TYPE_U64 || !rp_text_is_name(enumeration->name) ||
	    enumeration->count == 0 || enumeration->count > RP_ENUMERATORS_MAX ||
	    !enumeration->enumerators)
		return false;
	for (size_t i = 0; i < enumeration->count; i++) {
		if (!rp_text_is_name(enumeration->enumerators[i].name) ||
		    !value_fits(enumeration->enumerators[i].value, type))
			return false;
	}
	return true;
}

/*
 * Rules: each field has a name, except that a struct need not have one. Elements of an array have a
 * fixed size. Only structs have members. Only a field of the event itself may be secret.
 */
static bool are_valid(const struct rp_field *fields, size_t count, unsigned int depth,
		      bool in_array)
{
	if (count > RP_FIELDS_MAX || (count && !fields) || depth > DEPTH_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct rp_field *field = &fields[i];
		bool is_array = field->type == RP_TYPE_ARRAY && depth == 0;
		uint8_t type = is_array ? field->element : field->type;

		if (!field->name || (field->flags & ~(depth ? 0u : RP_FIELD_SECRET)) ||
		    (!rp_text_is_name(field->name) && (type != RP_TYPE_STRUCT || *field->name)) ||
		    (type != RP_TYPE_STRUCT && field->member_count) ||
		    (field->enumeration &&
		     !enumeration_is_valid(field->enumeration, field->type)))
			return false;
		if ((type == RP_TYPE_STRING || type == RP_TYPE_STRING16) && !is_array && !in_array)
			continue;
		if (type == RP_TYPE_STRUCT) {
			if (!field->member_count ||
			    !are_valid(field->members, field->member_count, depth + 1,
				       is_array || in_array))
				return false;
		} else if (!rp_type_bytes(type)) {
			return false;
		}
	}
	return true;
}

bool rp_fields_are_valid(const struct rp_field *fields, size_t count)
{
	return are_valid(fields, count, 0, false);
}

static uint64_t hash_enumeration(uint64_t hash, const struct rp_enumeration *enumeration)
{
	if (!enumeration)
		return hash;
	hash = rp_hash_text(hash, enumeration->name);
	for (size_t i = 0; i < enumeration->count; i++) {
		const struct rp_enumerator *each = &enumeration->enumerators[i];

		hash = rp_hash_text(rp_hash_bytes(hash, &each->value, sizeof(each->value)),
				    each->name);
	}
	return hash;
}

uint64_t rp_fields_hash(uint64_t hash, const struct rp_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t types[2] = { fields[i].type, fields[i].element };

		hash = rp_hash_text(hash, fields[i].name);
		hash = rp_hash_bytes(hash, types, sizeof(types));
		hash = rp_hash_bytes(hash, &fields[i].flags, sizeof(fields[i].flags));
		hash = hash_enumeration(hash, fields[i].enumeration);
		hash = rp_fields_hash(hash, fields[i].members, fields[i].member_count);
	}
	return hash;
}

static bool same_enumeration(const struct rp_enumeration *a, const struct rp_enumeration *b)
{
	if (a == b)
		return true;
	if (!a || !b || a->count != b->count || strcmp(a->name, b->name) != 0)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (a->enumerators[i].value != b->enumerators[i].value ||
		    strcmp(a->enumerators[i].name, b->enumerators[i].name) != 0)
			return false;
	}
	return true;
}

bool rp_fields_are_same(const struct rp_field *a, const struct rp_field *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (a[i].type != b[i].type || a[i].element != b[i].element ||
		    a[i].flags != b[i].flags || a[i].member_count != b[i].member_count ||
		    strcmp(a[i].name, b[i].name) != 0 ||
		    !same_enumeration(a[i].enumeration, b[i].enumeration) ||
		    !rp_fields_are_same(a[i].members, b[i].members, a[i].member_count))
			return false;
	}
	return true;
}

void rp_fields_free(struct rp_field *fields, size_t count)
{
	for (size_t i = 0; fields && i < count; i++) {
		free((char *)fields[i].name);
		free((struct rp_enumeration *)fields[i].enumeration);
		rp_fields_free((struct rp_field *)fields[i].members, fields[i].member_count);
	}
	free(fields);
}

/* Copy an enumeration into one block of memory. */
static struct rp_enumeration *copy_enumeration(const struct rp_enumeration *from)
{
	size_t bytes = sizeof(*from) + from->count * sizeof(*from->enumerators);
	struct rp_enumerator *enumerators;
	struct rp_enumeration *copy;
	char *text;

	for (size_t i = 0; i < from->count; i++)
		bytes += strlen(from->enumerators[i].name) + 1;
	copy = malloc(bytes + strlen(from->name) + 1);
	if (!copy)
		return NULL;
	enumerators = (struct rp_enumerator *)(copy + 1);
	text = (char *)(enumerators + from->count);
	*copy = (struct rp_enumeration){ text, enumerators, from->count };
	text = stpcpy(text, from->name) + 1;
	for (size_t i = 0; i < from->count; i++) {
		enumerators[i] = (struct rp_enumerator){ text, from->enumerators[i].value };
		text = stpcpy(text, from->enumerators[i].name) + 1;
	}
	return copy;
}

/* Return: whether the copy is complete. */
static bool copy_field(struct rp_field *copy, const struct rp_field *from)
{
	*copy = *from;
	copy->name = rp_text_copy(from->name);
	copy->members = from->member_count ? rp_fields_copy(from->members, from->member_count) :
			NULL;
	copy->enumeration = from->enumeration ? copy_enumeration(from->enumeration) : NULL;
	if (!copy->members)
		copy->member_count = 0;
	return copy->name && copy->member_count == from->member_count &&
	       !copy->enumeration == !from->enumeration;
}

struct rp_field *rp_fields_copy(const struct rp_field *fields, size_t count)
{
	struct rp_field *copy = calloc(count ? count : 1, sizeof(*copy));

	for (size_t i = 0; copy && i < count; i++) {
		if (!copy_field(&copy[i], &fields[i])) {
			rp_fields_free(copy, i + 1);
			return NULL;
		}
	}
	return copy;
}
