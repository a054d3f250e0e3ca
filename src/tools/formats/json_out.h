/* SPDX-License-Identifier: MIT */
/*
 * JSON values in a buffered output. Text becomes valid UTF-8: an invalid sequence becomes U+FFFD.
 * Control characters are escaped, and so is "<", because pages include such files in scripts.
 */
#ifndef RP_TOOL_JSON_OUT_H
#define RP_TOOL_JSON_OUT_H

#include <ringpipe/reader.h>

#include "tools/formats/format_out.h"

/* Write a string with its quotes. */
void rp_json_out_text(struct rp_format_out *out, const char *text);
void rp_json_out_utf8(struct rp_format_out *out, const uint8_t *text, size_t bytes);

/* Write a number, or a string if a double, as JavaScript has it, cannot hold the number. */
void rp_json_out_u64(struct rp_format_out *out, uint64_t number);
void rp_json_out_i64(struct rp_format_out *out, int64_t number);

/* Write the shortest number that gives `value` again; null for NaN and infinities. */
void rp_json_out_double(struct rp_format_out *out, double value, bool is_single);

void rp_json_out_guid(struct rp_format_out *out, const struct rp_guid *guid);

/*
 * Write a member of an object, unless the GUID is zero. @key: with the comma before it and the
 * colon after it.
 */
void rp_json_out_guid_member(struct rp_format_out *out, const char *key,
			     const struct rp_guid *guid);

/*
 * Write the members trace_id and span_id, each after another member and unless it is zero, in the
 * hexadecimal digits of the header `traceparent`. @trace_id: 16 bytes.
 */
void rp_json_out_trace_ids(struct rp_format_out *out, const uint8_t *trace_id, uint64_t span_id);

/*
 * Write the fields of an event as an object, as rp_reader_print_json() does, except that numbers
 * which a double cannot hold are strings.
 */
void rp_json_out_fields(struct rp_format_out *out, const struct rp_reader_event *event);

/* Write the fields of an event with the same bytes as rp_reader_print_json(). */
void rp_json_out_exact(struct rp_format_out *out, const struct rp_reader_event *event);

/* The same for one value. */
void rp_json_out_exact_value(struct rp_format_out *out, const struct rp_value *value);

/* Write a value as rp_json_out_fields() does. It moves the walk of the value's inner values. */
void rp_json_out_value(struct rp_format_out *out, struct rp_value *value);

/*
 * reader.h describes an array in an array as a struct whose one member has no name.
 * Return: whether the value is such a struct, with the inner array in `ret_member`.
 */
bool rp_json_inner_array(const struct rp_value *value, struct rp_value *ret_member);

#endif
