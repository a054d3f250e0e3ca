/* SPDX-License-Identifier: MIT */
/*
 * Protocol buffers in memory: messages of fields with numbers, written in order. A message in a
 * message has its length in four bytes, which are filled in when it ends.
 */
#ifndef RP_TOOL_PROTO_OUT_H
#define RP_TOOL_PROTO_OUT_H

#include "tools/formats/format_out.h"

/* `out` has no output, so that all of a message is in its buffer. */
void rp_proto_varint(struct rp_format_out *out, uint32_t field, uint64_t value);
void rp_proto_fixed64(struct rp_format_out *out, uint32_t field, uint64_t value);
void rp_proto_double(struct rp_format_out *out, uint32_t field, double value);

/* Write text as valid UTF-8, from UTF-8 or from little-endian UTF-16. */
void rp_proto_text(struct rp_format_out *out, uint32_t field, const char *text);
void rp_proto_utf8(struct rp_format_out *out, uint32_t field, const uint8_t *text, size_t bytes);
void rp_proto_utf16(struct rp_format_out *out, uint32_t field, const uint8_t *text, size_t units);

/* Begin a message or a text. Return: its place for rp_proto_end(). */
size_t rp_proto_begin(struct rp_format_out *out, uint32_t field);
void rp_proto_end(struct rp_format_out *out, size_t place);

/* Write a number without a field. */
void rp_proto_number(struct rp_format_out *out, uint64_t value);

#endif
