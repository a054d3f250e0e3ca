/* SPDX-License-Identifier: MIT */
#include "tools/formats/proto_out.h"

#include "base/utf.h"

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

#define NUMBER_BYTES 10u	/* of the longest varint */
#define LENGTH_BYTES 4u		/* of a message: 2^28 - 1 bytes at most */

void rp_proto_number(struct rp_format_out *out, uint64_t value)
{
	char *to = rp_out_reserve(out, NUMBER_BYTES);
	size_t bytes = 0;

	if (!to)
		return;
	for (; value >= 0x80; value >>= 7)
		to[bytes++] = (char)(value | 0x80);
	to[bytes++] = (char)value;
	out->used += bytes;
}

static void put_tag(struct rp_format_out *out, uint32_t field, enum wire wire)
{
	rp_proto_number(out, (uint64_t)field << 3 | wire);
}

void rp_proto_varint(struct rp_format_out *out, uint32_t field, uint64_t value)
{
	put_tag(out, field, WIRE_VARINT);
	rp_proto_number(out, value);
}

void rp_proto_fixed64(struct rp_format_out *out, uint32_t field, uint64_t value)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	put_tag(out, field, WIRE_FIXED64);
	rp_out_bytes(out, bytes, sizeof(bytes));
}

void rp_proto_double(struct rp_format_out *out, uint32_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	rp_proto_fixed64(out, field, bits);
}

size_t rp_proto_begin(struct rp_format_out *out, uint32_t field)
{
	put_tag(out, field, WIRE_BYTES);
	rp_out_bytes(out, "\0\0\0\0", LENGTH_BYTES);
	return out->used;
}

void rp_proto_end(struct rp_format_out *out, size_t place)
{
	size_t length;

	if (out->error)
		return;
	length = out->used - place;
	/* A payload of nettrace is far smaller, so this is an event that no reader accepts. */
	if (length >> 7 * LENGTH_BYTES) {
		out->used = place;
		length = 0;
	}
	for (size_t i = 0; i < LENGTH_BYTES; i++)
		out->buffer[place - LENGTH_BYTES + i] =
			(char)((length >> 7 * i & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
}

void rp_proto_utf8(struct rp_format_out *out, uint32_t field, const uint8_t *text, size_t bytes)
{
	const uint8_t *end = text + bytes;
	size_t place;

	if (rp_utf8_is_valid(text, bytes)) {
		put_tag(out, field, WIRE_BYTES);
		rp_proto_number(out, bytes);
		rp_out_bytes(out, text, bytes);
		return;
	}
	place = rp_proto_begin(out, field);
	while (text < end) {
		char utf8[4];

		rp_out_bytes(out, utf8, rp_utf8_put(rp_utf8_next(&text, end), utf8));
	}
	rp_proto_end(out, place);
}

void rp_proto_text(struct rp_format_out *out, uint32_t field, const char *text)
{
	rp_proto_utf8(out, field, (const uint8_t *)text, strlen(text));
}

void rp_proto_utf16(struct rp_format_out *out, uint32_t field, const uint8_t *text, size_t units)
{
	const size_t place = rp_proto_begin(out, field);

	while (units) {
		const size_t step = rp_utf16_step(text, units);
		char utf8[6];

		rp_out_bytes(out, utf8, rp_utf8_from_utf16(text, step, utf8));
		text += 2 * step;
		units -= step;
	}
	rp_proto_end(out, place);
}
