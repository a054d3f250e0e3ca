/* SPDX-License-Identifier: MIT */
/*
 * Makes the values that LTTng's filters see of an event: for each field 64 bits of an integer, a
 * double, a pointer to a text, or a length and a pointer.
 */
#include "modules/lttng/record.h"

#include "base/utf.h"

static char *push(char *stack, const void *value, size_t size)
{
	return (char *)memcpy(stack, value, size) + size;
}

static char *push_text(char *stack, const char *text)
{
	return push(stack, &text, sizeof(text));
}

/* LTTng's interpreter expects integers as 64 bits and floats as double. */
static char *push_number(char *stack, const struct rp_leaf *leaf, struct rp_lttng_cursor *cursor)
{
	uint64_t bits = 0;
	double number;
	float single;

	rp_lttng_cursor_take(cursor, &bits, leaf->size);
	if (leaf->kind == RP_LEAF_FLOAT) {
		memcpy(&number, &bits, sizeof(number));
		if (leaf->size == sizeof(single)) {
			memcpy(&single, &bits, sizeof(single));
			number = (double)single;
		}
		return push(stack, &number, sizeof(number));
	}
	if (leaf->kind == RP_LEAF_SIGNED && leaf->size < 8) {
		unsigned int unused = 64 - 8 * leaf->size;

		bits = (uint64_t)((int64_t)(bits << unused) >> unused);
	}
	return push(stack, &bits, sizeof(bits));
}

/* Filters see an empty array if its bytes are in several parts. */
static char *push_array(char *stack, struct rp_lttng_cursor *cursor, uint32_t size, bool counted)
{
	const uint8_t *at = (const uint8_t *)"";
	unsigned long elements = size;
	uint64_t shown;
	uint16_t count = 1;

	if (counted) {
		rp_lttng_cursor_take(cursor, &count, sizeof(count));
		shown = count;
		stack = push(stack, &shown, sizeof(shown));
		elements = count;
	}
	if (rp_lttng_cursor_together(cursor, &at) < (size_t)count * size)
		elements = 0;
	rp_lttng_cursor_take(cursor, NULL, (size_t)count * size);
	stack = push(stack, &elements, sizeof(elements));
	return push(stack, &at, sizeof(at));
}

/* Converts the text into the remaining space; cuts it at the end of that space. */
static const char *show_units(const uint8_t *text, size_t units, char **space, const char *end)
{
	const char *shown = *space;

	while (units && end - *space > 6) {
		size_t step = rp_utf16_step(text, units);

		*space += rp_utf8_from_utf16(text, step, *space);
		text += 2 * step;
		units -= step;
	}
	if (*space == end)
		return "";
	*(*space)++ = '\0';
	return shown;
}

static char *push_leaf(char *stack, const struct rp_leaf *leaf, struct rp_lttng_cursor *cursor,
		       char **space, const char *space_end)
{
	const uint8_t *text;
	size_t units;
	uint16_t count = 0;

	switch (leaf->kind) {
	case RP_LEAF_STRING:
		text = rp_lttng_cursor_take_text(cursor, 1, &units);
		return push_text(stack, text ? (const char *)text : "");
	case RP_LEAF_STRING16:
		text = rp_lttng_cursor_take_text(cursor, 2, &units);
		return push_text(stack, text ? show_units(text, units, space, space_end) : "");
	case RP_LEAF_BYTES:
		return push_array(stack, cursor, leaf->size, false);
	case RP_LEAF_ARRAY:
		return push_array(stack, cursor, leaf->size, true);
	case RP_LEAF_GUIDS:	/* filters do not see these fields */
	case RP_LEAF_STRUCTS:
		rp_lttng_cursor_take(cursor, &count, sizeof(count));
		rp_lttng_cursor_take(cursor, NULL, (size_t)count * leaf->size);
		return stack;
	case RP_LEAF_MEMBER:
	case RP_LEAF_GUID_MEMBER:
		return stack;
	default:
		return push_number(stack, leaf, cursor);
	}
}

void rp_lttng_fill_stack(const struct rp_lttng_record *record, char *stack, char *space,
			 size_t space_bytes)
{
	const struct rp_lttng_event *event = record->event;
	uint64_t own[3] = { event->keywords, event->id, event->opcode };
	struct rp_lttng_cursor cursor;
	const char *space_end = space + space_bytes;

	rp_lttng_cursor_begin(&cursor, record);
	for (size_t i = 0; i < event->leaf_count; i++)
		stack = push_leaf(stack, &event->leaves[i], &cursor, &space, space_end);
	stack = push_text(stack, record->activity);
	stack = push_text(stack, record->related);
	push(stack, own, sizeof(own));
}
