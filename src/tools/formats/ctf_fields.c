/* SPDX-License-Identifier: MIT */
#include "tools/formats/ctf_fields.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf.h"
#include "nettrace/self_describing.h"
#include "tools/formats/json_out.h"

#define NAME_BYTES 256u		/* a longer name is cut */
#define NUMBER_BYTES 16u	/* after the name, with the NUL */

/* A structure whose fields are being set. */
struct ctf_walk {
	struct rp_format_out *text;
	bool is_truncated;		/* the payload ended before its last field */
	int error;			/* 0; -ENOMEM */
};

static bt_field_class *make_field_class(bt_trace_class *trace, const struct rp_reader_field *field,
					uint8_t type);

/* Return: the class of a structure with these fields, which the caller puts; NULL: no memory. */
static bt_field_class *make_fields_class(bt_trace_class *trace,
					 const struct rp_reader_field *fields, size_t count);

bt_field_class *rp_ctf_integer_class(bt_trace_class *trace, bool is_signed, unsigned int bits)
{
	bt_field_class *made = is_signed ? bt_field_class_integer_signed_create(trace) :
					   bt_field_class_integer_unsigned_create(trace);

	if (made)
		bt_field_class_integer_set_field_value_range(made, bits);
	return made;
}

bt_field_class *rp_ctf_hexadecimal_class(bt_trace_class *trace, unsigned int bits)
{
	bt_field_class *made = rp_ctf_integer_class(trace, false, bits);

	if (made)
		bt_field_class_integer_set_preferred_display_base(
			made, BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_HEXADECIMAL);
	return made;
}

bt_field_class *rp_ctf_sequence_class(bt_trace_class *trace, bt_field_class *element)
{
	bt_field_class *made = element ?
			       bt_field_class_array_dynamic_create(trace, element, NULL) : NULL;

	bt_field_class_put_ref(element);
	return made;
}

bool rp_ctf_append(bt_field_class *structure, const char *name, bt_field_class *member)
{
	const bool is_appended = member &&
		!bt_field_class_structure_append_member(structure, name, member);

	bt_field_class_put_ref(member);
	return is_appended;
}

static bt_field_class *make_array(bt_trace_class *trace, const struct rp_reader_field *field)
{
	if (field->element == RP_TYPE_U8)
		return rp_ctf_sequence_class(trace, rp_ctf_hexadecimal_class(trace, 8));
	return rp_ctf_sequence_class(trace, make_field_class(trace, field, field->element));
}

static bt_field_class *make_field_class(bt_trace_class *trace, const struct rp_reader_field *field,
					uint8_t type)
{
	switch (type) {
	case RP_TYPE_BOOL:
		return bt_field_class_bool_create(trace);
	case RP_TYPE_I8:
		return rp_ctf_integer_class(trace, true, 8);
	case RP_TYPE_I16:
		return rp_ctf_integer_class(trace, true, 16);
	case RP_TYPE_I32:
		return rp_ctf_integer_class(trace, true, 32);
	case RP_TYPE_I64:
		return rp_ctf_integer_class(trace, true, 64);
	case RP_TYPE_U8:
		return rp_ctf_integer_class(trace, false, 8);
	case RP_TYPE_U16:
		return rp_ctf_integer_class(trace, false, 16);
	case RP_TYPE_U32:
		return rp_ctf_integer_class(trace, false, 32);
	case RP_TYPE_U64:
		return rp_ctf_integer_class(trace, false, 64);
	case RP_TYPE_POINTER:
		return rp_ctf_hexadecimal_class(trace, 64);
	case RP_TYPE_F32:
		return bt_field_class_real_single_precision_create(trace);
	case RP_TYPE_F64:
		return bt_field_class_real_double_precision_create(trace);
	case RP_TYPE_NONE:
		return rp_ctf_sequence_class(trace, rp_ctf_hexadecimal_class(trace, 8));
	case RP_TYPE_ARRAY:
		return make_array(trace, field);
	case RP_TYPE_STRUCT:
		return make_fields_class(trace, field->members, field->member_count);
	default:
		return bt_field_class_string_create(trace);
	}
}

/*
 * Write the name as CTF permits it, unique in `structure`. sink.ctf.fs adds a member _NAME_len for
 * each sequence, so no name begins with an underscore.
 */
static void make_name(const bt_field_class *structure, const char *name, char *made)
{
	size_t length = 0;

	/* reader.h describes an array in an array as a struct whose one member has no name. */
	if (!*name)
		name = "elements";
	if (!isascii(*name) || !isalpha(*name))
		made[length++] = 'x';
	for (; *name && length < NAME_BYTES - NUMBER_BYTES; name++)
		made[length++] = isascii(*name) && isalnum(*name) ? *name : '_';
	made[length] = '\0';
	for (unsigned int i = 2;
	     bt_field_class_structure_borrow_member_by_name_const(structure, made); i++)
		snprintf(made + length, NUMBER_BYTES, "_%u", i);
}

static bt_field_class *make_fields_class(bt_trace_class *trace,
					 const struct rp_reader_field *fields, size_t count)
{
	bt_field_class *made = bt_field_class_structure_create(trace);
	char name[NAME_BYTES];
	bool is_made = made;

	for (size_t i = 0; is_made && i < count; i++) {
		make_name(made, fields[i].name, name);
		is_made = rp_ctf_append(made, name,
					make_field_class(trace, &fields[i], fields[i].type));
	}
	if (is_made)
		return made;
	bt_field_class_put_ref(made);
	return NULL;
}

int rp_ctf_text_set(bt_field *field, const void *utf8, size_t bytes, struct rp_format_out *text)
{
	char *copy;

	bt_field_string_clear(field);
	if (!rp_utf8_is_valid(utf8, bytes) || memchr(utf8, 0, bytes)) {
		text->used = 0;
		copy = rp_out_reserve(text, 3 * bytes);
		if (!copy)
			return text->error;
		bytes = rp_utf8_repair(utf8, bytes, copy);
		utf8 = copy;
	}
	return bt_field_string_append_with_length(field, utf8, bytes) ? -ENOMEM : 0;
}

static int set_utf16(bt_field *field, const uint8_t *units, size_t count,
		     struct rp_format_out *text)
{
	size_t bytes;
	char *utf8;

	text->used = 0;
	utf8 = rp_out_reserve(text, 12 * count + 1);
	if (!utf8)
		return text->error;
	bytes = rp_utf8_from_utf16(units, count, utf8);
	if (memchr(utf8, 0, bytes)) {
		char *repaired = utf8 + bytes;

		bytes = rp_utf8_repair((const uint8_t *)utf8, bytes, repaired);
		utf8 = repaired;
	}
	bt_field_string_clear(field);
	return bt_field_string_append_with_length(field, utf8, bytes) ? -ENOMEM : 0;
}

/* A value that JSON has as a string without escapes: a GUID or a time. */
static int set_quoted(bt_field *field, const struct rp_value *value, struct rp_format_out *text)
{
	text->used = 0;
	rp_json_out_exact_value(text, value);
	if (text->error)
		return text->error;
	bt_field_string_clear(field);
	return bt_field_string_append_with_length(field, text->buffer + 1, text->used - 2) ?
	       -ENOMEM : 0;
}

static int set_text(bt_field *field, const struct rp_value *value, struct rp_format_out *text)
{
	char latin[4];

	switch (value->type) {
	case RP_TYPE_STRING16:
		return set_utf16(field, value->bytes, value->size_bytes / 2, text);
	case RP_TYPE_STRING:
		return rp_ctf_text_set(field, value->bytes, value->size_bytes, text);
	case RP_TYPE_CHAR:
		if (value->size_bytes != 1)
			return set_utf16(field, value->bytes, 1, text);
		return rp_ctf_text_set(field, latin, rp_utf8_put((uint32_t)value->u64, latin),
				       text);
	default:
		return set_quoted(field, value, text);
	}
}

static int set_bytes(bt_field *field, const uint8_t *bytes, size_t size)
{
	if (bt_field_array_dynamic_set_length(field, size))
		return -ENOMEM;
	for (size_t i = 0; i < size; i++)
		bt_field_integer_unsigned_set_value(
			bt_field_array_borrow_element_field_by_index(field, i), bytes[i]);
	return 0;
}

static void set_value(struct ctf_walk *walk, bt_field *field, struct rp_value *value);

static void set_elements(struct ctf_walk *walk, bt_field *field, struct rp_fields *elements)
{
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields counted = *elements;
	uint64_t count = 0;
	int ret;

	while ((ret = rp_fields_next(&counted, &value)) == 1)
		count++;
	walk->is_truncated |= ret < 0;
	if (bt_field_array_dynamic_set_length(field, count)) {
		walk->error = -ENOMEM;
		return;
	}
	for (uint64_t i = 0; i < count && rp_fields_next(elements, &value) == 1; i++)
		set_value(walk, bt_field_array_borrow_element_field_by_index(field, i), &value);
}

/* Set a field whose value the payload does not contain. */
static void set_missing(bt_field *field)
{
	const bt_field_class *class = bt_field_borrow_class_const(field);

	switch (bt_field_get_class_type(field)) {
	case BT_FIELD_CLASS_TYPE_BOOL:
		bt_field_bool_set_value(field, false);
		break;
	case BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER:
		bt_field_integer_unsigned_set_value(field, 0);
		break;
	case BT_FIELD_CLASS_TYPE_SIGNED_INTEGER:
		bt_field_integer_signed_set_value(field, 0);
		break;
	case BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL:
		bt_field_real_single_precision_set_value(field, 0);
		break;
	case BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL:
		bt_field_real_double_precision_set_value(field, 0);
		break;
	case BT_FIELD_CLASS_TYPE_STRING:
		/* Before an append, the text of a field that was used before has its old bytes. */
		bt_field_string_clear(field);
		(void)bt_field_string_append_with_length(field, "", 0);
		break;
	case BT_FIELD_CLASS_TYPE_STRUCTURE:
		for (uint64_t i = 0; i < bt_field_class_structure_get_member_count(class); i++)
			set_missing(bt_field_structure_borrow_member_field_by_index(field, i));
		break;
	default:
		(void)bt_field_array_dynamic_set_length(field, 0);
	}
}

static void set_members(struct ctf_walk *walk, bt_field *structure, struct rp_fields *fields)
{
	const uint64_t count = bt_field_class_structure_get_member_count(
		bt_field_borrow_class_const(structure));
	struct rp_value value = RP_VALUE_INIT;
	int ret = 1;

	for (uint64_t i = 0; i < count; i++) {
		bt_field *field = bt_field_structure_borrow_member_field_by_index(structure, i);

		if (ret == 1)
			ret = rp_fields_next(fields, &value);
		if (ret == 1)
			set_value(walk, field, &value);
		else
			set_missing(field);
	}
	/* A part of the last value may be missing, which only the next call reports. */
	if (ret == 1)
		ret = rp_fields_next(fields, &value);
	walk->is_truncated |= ret < 0;
}

/*
 * The place of the payload among the fields of a component's raw event, of which the structure of
 * the event has a further member for the text of the payload; else -1.
 */
static int payload_place(const struct rp_reader_type *type)
{
	const struct rp_reader_field *fields = type->fields;
	const bool is_raw = type->field_count == 2 && !strncmp(type->name, "Dynamic", 7) &&
			    fields[1].type == RP_TYPE_ARRAY && fields[1].element == RP_TYPE_U8 &&
			    !strcmp(fields[1].name, "payload");

	return is_raw ? 1 : -1;
}

bt_field_class *rp_ctf_event_class(bt_trace_class *trace, const struct rp_reader_type *type)
{
	bt_field_class *made = make_fields_class(trace, type->fields, type->field_count);

	if (made && !type->field_count &&
	    !rp_ctf_append(made, "payload",
			   rp_ctf_sequence_class(trace, rp_ctf_hexadecimal_class(trace, 8)))) {
		bt_field_class_put_ref(made);
		return NULL;
	}
	if (!made || payload_place(type) < 0 ||
	    rp_ctf_append(made, "fields", bt_field_class_string_create(trace)))
		return made;
	bt_field_class_put_ref(made);
	return NULL;
}

/* Set the text of a payload that describes itself; that of other payloads is empty. */
static int set_payload_text(bt_field *structure, const struct rp_reader_event *event,
			    struct rp_format_out *text)
{
	const int place = payload_place(event->type);
	struct rp_value value = RP_VALUE_INIT;
	struct rp_self_describing payload;
	struct rp_fields fields;
	int ret = 1;

	rp_reader_get_fields(event, &fields);
	for (int i = 0; i <= place && ret == 1; i++)
		ret = rp_fields_next(&fields, &value);
	if (place < 0 || ret != 1 ||
	    !rp_self_describing_begin(&payload, value.bytes, value.size_bytes))
		return 0;
	text->used = 0;
	rp_json_out_exact_value(text, &value);
	if (text->error)
		return text->error;
	return bt_field_string_append_with_length(
		bt_field_structure_borrow_member_field_by_index(structure, (uint64_t)place + 1),
		text->buffer, text->used) ? -ENOMEM : 0;
}

static void set_array(struct ctf_walk *walk, bt_field *field, struct rp_value *value)
{
	if (value->element != RP_TYPE_U8)
		set_elements(walk, field, &value->inner);
	else if (set_bytes(field, value->bytes, value->size_bytes) < 0)
		walk->error = -ENOMEM;
}

static void set_value(struct ctf_walk *walk, bt_field *field, struct rp_value *value)
{
	int ret = 0;

	switch (value->type) {
	case RP_TYPE_BOOL:
		bt_field_bool_set_value(field, value->u64 != 0);
		break;
	case RP_TYPE_I8: case RP_TYPE_I16: case RP_TYPE_I32: case RP_TYPE_I64:
		bt_field_integer_signed_set_value(field, value->i64);
		break;
	case RP_TYPE_U8: case RP_TYPE_U16: case RP_TYPE_U32: case RP_TYPE_U64:
	case RP_TYPE_POINTER:
		bt_field_integer_unsigned_set_value(field, value->u64);
		break;
	case RP_TYPE_F32:
		bt_field_real_single_precision_set_value(field, (float)value->f64);
		break;
	case RP_TYPE_F64:
		bt_field_real_double_precision_set_value(field, value->f64);
		break;
	case RP_TYPE_NONE:
		ret = set_bytes(field, value->bytes, value->size_bytes);
		break;
	case RP_TYPE_ARRAY:
		set_array(walk, field, value);
		break;
	case RP_TYPE_STRUCT:
		set_members(walk, field, &value->inner);
		break;
	default:
		ret = set_text(field, value, walk->text);
	}
	if (ret < 0)
		walk->error = ret;
}

int rp_ctf_fields_set(bt_field *structure, const struct rp_reader_event *event,
		      struct rp_format_out *text, bool *ret_truncated)
{
	struct ctf_walk walk = { .text = text };
	struct rp_fields fields;

	rp_reader_get_fields(event, &fields);
	set_members(&walk, structure, &fields);
	*ret_truncated = walk.is_truncated;
	if (!event->type->field_count)
		return set_bytes(bt_field_structure_borrow_member_field_by_index(structure, 0),
				 event->payload, event->payload_bytes);
	return walk.error ? walk.error : set_payload_text(structure, event, text);
}
