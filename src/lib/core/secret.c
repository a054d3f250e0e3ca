/* SPDX-License-Identifier: MIT */
#include "core/secret.h"

#include <errno.h>
#include <string.h>

#include "core/event_def.h"
#include "core/fields.h"

struct secret_walk {
	const struct rp_part *part, *end;
	size_t at;			/* offset in *part */
	bool keep;
	struct rp_part *made;
	unsigned int made_count;
	bool full;
};

static const uint8_t zeros[256];
static const uint16_t redacted16[] = { '*', '*', '*', 0 };

bool rp_secret_is_in(const struct rp_event_def *def)
{
	for (unsigned int i = 0; i < def->field_count; i++) {
		if (def->fields[i].flags & RP_FIELD_SECRET)
			return true;
	}
	return false;
}

static void put(struct secret_walk *walk, const void *bytes, size_t size)
{
	struct rp_part *last = walk->made_count ? &walk->made[walk->made_count - 1] : NULL;

	if (last && (const uint8_t *)last->base + last->size_bytes == bytes) {
		last->size_bytes += size;
	} else if (walk->made_count < RP_SECRET_PARTS) {
		walk->made[walk->made_count++] = (struct rp_part){ bytes, size };
	} else {
		walk->full = true;
	}
}

static void put_zeros(struct secret_walk *walk, size_t size)
{
	struct rp_part *last = walk->made_count ? &walk->made[walk->made_count - 1] : NULL;

	if (last && last->base == zeros && last->size_bytes + size <= sizeof(zeros))
		last->size_bytes += size;
	else
		put(walk, zeros, size);
}

/* Return the rest of the walk's current part; NULL at the payload's end. */
static const uint8_t *look(struct secret_walk *walk, size_t *ret_bytes)
{
	while (walk->part < walk->end && walk->at == walk->part->size_bytes) {
		walk->part++;
		walk->at = 0;
	}
	if (walk->part == walk->end)
		return NULL;
	*ret_bytes = walk->part->size_bytes - walk->at;
	return (const uint8_t *)walk->part->base + walk->at;
}

static void pass(struct secret_walk *walk, const uint8_t *bytes, size_t size)
{
	walk->at += size;
	if (walk->keep)
		put(walk, bytes, size);
}

static bool take(struct secret_walk *walk, size_t size)
{
	const uint8_t *bytes;
	size_t there;

	while (size && (bytes = look(walk, &there))) {
		if (there > size)
			there = size;
		pass(walk, bytes, there);
		size -= there;
	}
	return size == 0;
}

static bool take_string(struct secret_walk *walk)
{
	const uint8_t *bytes;
	size_t there;

	while ((bytes = look(walk, &there))) {
		const uint8_t *nul = memchr(bytes, 0, there);

		pass(walk, bytes, nul ? (size_t)(nul - bytes) + 1 : there);
		if (nul)
			return true;
	}
	return false;
}

/* A part may end between the two bytes of a number. */
static bool take_u16(struct secret_walk *walk, uint16_t *ret_number)
{
	uint8_t two[2];

	for (int i = 0; i < 2; i++) {
		size_t there;
		const uint8_t *bytes = look(walk, &there);

		if (!bytes)
			return false;
		two[i] = *bytes;
		pass(walk, bytes, 1);
	}
	memcpy(ret_number, two, sizeof(two));
	return true;
}

static bool take_string16(struct secret_walk *walk)
{
	uint16_t unit;

	do {
		if (!take_u16(walk, &unit))
			return false;
	} while (unit);
	return true;
}

static bool take_value(struct secret_walk *walk, const struct rp_field *field, uint8_t type)
{
	uint16_t count;

	switch (type) {
	case RP_TYPE_STRING:
		return take_string(walk);
	case RP_TYPE_STRING16:
		return take_string16(walk);
	case RP_TYPE_STRUCT:
		for (uint16_t i = 0; i < field->member_count; i++) {
			if (!take_value(walk, &field->members[i], field->members[i].type))
				return false;
		}
		return true;
	case RP_TYPE_ARRAY:
		if (!take_u16(walk, &count))
			return false;
		if (field->element != RP_TYPE_STRUCT)
			return take(walk, count * rp_type_bytes(field->element));
		while (count--) {
			if (!take_value(walk, field, field->element))
				return false;
		}
		return true;
	default:
		return take(walk, rp_type_bytes(type));
	}
}

static void put_other(struct secret_walk *walk, const struct rp_field *field)
{
	if (field->type == RP_TYPE_STRING)
		put(walk, "***", sizeof("***"));
	else if (field->type == RP_TYPE_STRING16)
		put(walk, redacted16, sizeof(redacted16));
	else if (field->type == RP_TYPE_ARRAY)
		put_zeros(walk, sizeof(uint16_t));
	else if (field->type != RP_TYPE_STRUCT)
		put_zeros(walk, rp_type_bytes(field->type));
	else
		for (uint16_t i = 0; i < field->member_count; i++)
			put_other(walk, &field->members[i]);
}

int rp_secret_replace(const struct rp_event_def *def, const struct rp_part *parts,
		      unsigned int part_count, struct rp_part ret_parts[RP_SECRET_PARTS])
{
	struct secret_walk walk = { .part = parts, .end = parts + part_count, .made = ret_parts };
	size_t bytes = 0;

	/* If the sizes exceed the limit, nothing is read: the caller may have passed any sizes. */
	for (unsigned int i = 0; i < part_count; i++) {
		if (parts[i].size_bytes > RP_PAYLOAD_MAX - bytes)
			return -EMSGSIZE;
		bytes += parts[i].size_bytes;
	}
	for (uint32_t i = 0; i < def->field_count; i++) {
		const struct rp_field *field = &def->fields[i];

		walk.keep = !(field->flags & RP_FIELD_SECRET);
		if (!walk.keep)
			put_other(&walk, field);
		if (!take_value(&walk, field, field->type))
			break;
	}
	return walk.full ? -EMSGSIZE : (int)walk.made_count;
}
