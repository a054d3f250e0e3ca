/* SPDX-License-Identifier: MIT */
#include "tools/formats/ctf_context.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "tools/formats/ctf_fields.h"
#include "tools/trace/guids.h"
#include "tools/trace/stack_frame.h"

/* The members of the context, in their order. */
enum ctf_member {
	CTF_PROCESS, CTF_THREAD, CTF_PROCESSOR, CTF_EVENT_ID, CTF_LEVEL, CTF_OPCODE, CTF_KEYWORDS,
	CTF_THREAD_NAME, CTF_ACTIVITY, CTF_RELATED_ACTIVITY, CTF_TRACE_ID, CTF_SPAN_ID, CTF_LABELS,
	CTF_STACK, CTF_TRUNCATED, CTF_MEMBERS,
};

static const struct ctf_member_description {
	const char *name;
	/* i, u, x: integer; b: boolean; s: string; l: labels; a: addresses */
	char kind;
	uint8_t bits;
} descriptions[CTF_MEMBERS] = {
	[CTF_PROCESS] = { "process_id", 'u', 64 },
	[CTF_THREAD] = { "thread_id", 'u', 64 },
	[CTF_PROCESSOR] = { "cpu_id", 'i', 64 },	/* -1: not known */
	[CTF_EVENT_ID] = { "event_id", 'u', 32 },
	[CTF_LEVEL] = { "level", 'u', 32 },
	[CTF_OPCODE] = { "opcode", 'u', 32 },
	[CTF_KEYWORDS] = { "keywords", 'x', 64 },
	[CTF_THREAD_NAME] = { "thread_name", 's', 0 },
	[CTF_ACTIVITY] = { "activity", 's', 0 },
	[CTF_RELATED_ACTIVITY] = { "related_activity", 's', 0 },
	[CTF_TRACE_ID] = { "trace_id", 's', 0 },
	[CTF_SPAN_ID] = { "span_id", 's', 0 },
	[CTF_LABELS] = { "labels", 'l', 0 },
	[CTF_STACK] = { "stack", 'a', 0 },
	[CTF_TRUNCATED] = { "truncated", 'b', 0 },
};

/* A label has a text and a number, of which one is in use. */
static bt_field_class *make_label(bt_trace_class *trace)
{
	bt_field_class *made = bt_field_class_structure_create(trace);

	if (made && rp_ctf_append(made, "key", bt_field_class_string_create(trace)) &&
	    rp_ctf_append(made, "text", bt_field_class_string_create(trace)) &&
	    rp_ctf_append(made, "number", rp_ctf_integer_class(trace, true, 64)))
		return made;
	bt_field_class_put_ref(made);
	return NULL;
}

static bt_field_class *make_member(bt_trace_class *trace,
				   const struct ctf_member_description *description)
{
	switch (description->kind) {
	case 's':
		return bt_field_class_string_create(trace);
	case 'b':
		return bt_field_class_bool_create(trace);
	case 'l':
		return rp_ctf_sequence_class(trace, make_label(trace));
	case 'a':
		return rp_ctf_sequence_class(trace, rp_ctf_hexadecimal_class(trace, 64));
	case 'x':
		return rp_ctf_hexadecimal_class(trace, description->bits);
	default:
		return rp_ctf_integer_class(trace, description->kind == 'i', description->bits);
	}
}

bt_field_class *rp_ctf_context_class(bt_trace_class *trace)
{
	bt_field_class *made = bt_field_class_structure_create(trace);
	bool is_made = made;

	for (size_t i = 0; is_made && i < CTF_MEMBERS; i++)
		is_made = rp_ctf_append(made, descriptions[i].name,
					make_member(trace, &descriptions[i]));
	if (is_made)
		return made;
	bt_field_class_put_ref(made);
	return NULL;
}

static bt_field *member_of(bt_field *context, enum ctf_member member)
{
	return bt_field_structure_borrow_member_field_by_index(context, member);
}

static void set_unsigned(bt_field *context, enum ctf_member member, uint64_t number)
{
	bt_field_integer_unsigned_set_value(member_of(context, member), number);
}

/* Return: 0; -ENOMEM. */
static int set_string(bt_field *field, const char *string, size_t bytes)
{
	bt_field_string_clear(field);
	return bytes && bt_field_string_append_with_length(field, string, bytes) ? -ENOMEM : 0;
}

static int set_guid(bt_field *field, const struct rp_guid *guid)
{
	char text[RP_GUID_TEXT];

	rp_guid_text(guid, text);
	return set_string(field, text, strlen(text));
}

static int set_hex(bt_field *field, const void *bytes, size_t size, struct rp_format_out *text)
{
	text->used = 0;
	rp_out_hex(text, bytes, size);
	return text->error ? text->error : set_string(field, text->buffer, text->used);
}

static int set_ids(bt_field *context, const struct rp_reader_event *event,
		   struct rp_format_out *text)
{
	static const uint8_t none[sizeof(event->trace_id)];
	const bool has_trace = memcmp(event->trace_id, none, sizeof(none)) != 0;
	const uint64_t span_id = htobe64(event->span_id);
	int ret = set_guid(member_of(context, CTF_ACTIVITY), &event->activity);

	if (ret == 0)
		ret = set_guid(member_of(context, CTF_RELATED_ACTIVITY), &event->related_activity);
	if (ret == 0)
		ret = set_hex(member_of(context, CTF_TRACE_ID), event->trace_id,
			      has_trace ? sizeof(none) : 0, text);
	if (ret == 0)
		ret = set_hex(member_of(context, CTF_SPAN_ID), &span_id,
			      has_trace && event->span_id ? sizeof(span_id) : 0, text);
	return ret;
}

static int set_labels(bt_field *labels, const struct rp_reader_event *event,
		      struct rp_format_out *text)
{
	int ret = bt_field_array_dynamic_set_length(labels, event->label_count) ? -ENOMEM : 0;

	for (uint32_t i = 0; ret == 0 && i < event->label_count; i++) {
		const struct rp_reader_label *label = &event->labels[i];
		bt_field *field = bt_field_array_borrow_element_field_by_index(labels, i);
		const char *value = label->text ? label->text : "";

		ret = rp_ctf_text_set(bt_field_structure_borrow_member_field_by_index(field, 0),
				      label->key, strlen(label->key), text);
		if (ret == 0)
			ret = rp_ctf_text_set(
				bt_field_structure_borrow_member_field_by_index(field, 1), value,
				strlen(value), text);
		bt_field_integer_signed_set_value(
			bt_field_structure_borrow_member_field_by_index(field, 2),
			label->text ? 0 : label->number);
	}
	return ret;
}

static int set_stack(bt_field *stack, const struct rp_reader_event *event, uint32_t pointer_bytes)
{
	if (bt_field_array_dynamic_set_length(stack, event->frame_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < event->frame_count; i++)
		bt_field_integer_unsigned_set_value(
			bt_field_array_borrow_element_field_by_index(stack, i),
			rp_stack_frame(event, pointer_bytes, i));
	return 0;
}

int rp_ctf_context_set(bt_field *context, const struct rp_reader_event *event,
		       const struct rp_ctf_about *about, struct rp_format_out *text)
{
	const char *name = event->thread_name;
	int ret;

	set_unsigned(context, CTF_PROCESS, about->process);
	set_unsigned(context, CTF_THREAD, event->thread);
	bt_field_integer_signed_set_value(member_of(context, CTF_PROCESSOR),
					  event->processor == UINT32_MAX ? -1 :
					  (int64_t)event->processor);
	set_unsigned(context, CTF_EVENT_ID, event->type->id);
	set_unsigned(context, CTF_LEVEL, event->level);
	set_unsigned(context, CTF_OPCODE, event->opcode);
	set_unsigned(context, CTF_KEYWORDS, event->keywords);
	bt_field_bool_set_value(member_of(context, CTF_TRUNCATED), about->is_truncated);
	ret = rp_ctf_text_set(member_of(context, CTF_THREAD_NAME), name, strlen(name), text);
	if (ret == 0)
		ret = set_ids(context, event, text);
	if (ret == 0)
		ret = set_labels(member_of(context, CTF_LABELS), event, text);
	if (ret == 0)
		ret = set_stack(member_of(context, CTF_STACK), event, about->pointer_bytes);
	return ret;
}
