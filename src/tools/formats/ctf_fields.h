/* SPDX-License-Identifier: MIT */
/*
 * The fields of events as fields of the Common Trace Format (CTF), which libbabeltrace2 writes.
 *
 *  - Integers, pointers, booleans and floating-point numbers keep their type and size.
 *  - Texts, characters, GUIDs and times are strings, with the text that `report` prints.
 *  - Blobs and opaque bytes are sequences of bytes.
 *  - Arrays are sequences, and structs are structures. sink.ctf.fs cannot write a sequence in a
 *    sequence, so an array in an array is a structure with the member `elements`.
 *  - The raw events of a component have a further member, `fields`: the JSON text of a payload that
 *    describes itself, or an empty text.
 *  - An event of which the trace describes no field has the field `payload`, a sequence of bytes.
 *
 * The name of a field has only letters, digits and underscores; other characters become
 * underscores. If it does not begin with a letter, the letter x precedes it. A name that its
 * structure already has gets a number.
 */
#ifndef RP_TOOL_CTF_FIELDS_H
#define RP_TOOL_CTF_FIELDS_H

#include <stdbool.h>

#include <babeltrace2/babeltrace.h>

#include <ringpipe/reader.h>

#include "tools/formats/format_out.h"

/* Each of these functions returns a class, which the caller puts, or NULL without memory. */
bt_field_class *rp_ctf_integer_class(bt_trace_class *trace, bool is_signed, unsigned int bits);
bt_field_class *rp_ctf_hexadecimal_class(bt_trace_class *trace, unsigned int bits);
/* The function puts `element`, which may be NULL. */
bt_field_class *rp_ctf_sequence_class(bt_trace_class *trace, bt_field_class *element);

/* Append a member and put its class, which may be NULL. Return: false: no memory. */
bool rp_ctf_append(bt_field_class *structure, const char *name, bt_field_class *member);

/*
 * Return: the class of a structure with the fields of the type's events, which the caller puts;
 * NULL: no memory.
 */
bt_field_class *rp_ctf_event_class(bt_trace_class *trace, const struct rp_reader_type *type);

/*
 * Set the fields of a structure of rp_ctf_event_class(). Fields after the end of a payload that is
 * too short are 0 or empty.
 * @text: space for texts, which the call overwrites.
 * @ret_truncated: whether the payload is too short.
 *
 * Return: 0; -ENOMEM.
 */
int rp_ctf_fields_set(bt_field *structure, const struct rp_reader_event *event,
		      struct rp_format_out *text, bool *ret_truncated);

/* Set a string from UTF-8. Invalid sequences and NULs become U+FFFD. Return: 0; -ENOMEM. */
int rp_ctf_text_set(bt_field *field, const void *utf8, size_t bytes, struct rp_format_out *text);

#endif
