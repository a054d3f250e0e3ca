/* SPDX-License-Identifier: MIT */
#include "base/utf.h"

#include <string.h>

#define REPLACEMENT 0xfffdu

/*
 * Decode one character of UTF-8 that is not ASCII. In an invalid sequence, the longest valid prefix
 * becomes one replacement character (Unicode 15, table 3-8), as in .NET.
 */
static uint32_t decode(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *p = *at;
	uint8_t lead = *p++, low = 0x80, high = 0xbf;
	uint32_t character;
	int more;

	*at = p;
	if (lead >= 0xc2 && lead <= 0xdf) {
		more = 1;
		character = lead & 0x1f;
	} else if (lead >= 0xe0 && lead <= 0xef) {
		more = 2;
		character = lead & 0x0f;
		if (lead == 0xe0)
			low = 0xa0;
		if (lead == 0xed)
			high = 0x9f;
	} else if (lead >= 0xf0 && lead <= 0xf4) {
		more = 3;
		character = lead & 0x07;
		if (lead == 0xf0)
			low = 0x90;
		if (lead == 0xf4)
			high = 0x8f;
	} else {
		return REPLACEMENT;
	}
	while (more--) {
		if (p == end || *p < low || *p > high) {
			*at = p;
			return REPLACEMENT;
		}
		character = character << 6 | (*p++ & 0x3f);
		low = 0x80;
		high = 0xbf;
	}
	*at = p;
	return character;
}

uint32_t rp_utf8_next(const uint8_t **at, const uint8_t *end)
{
	return **at < 0x80 ? *(*at)++ : decode(at, end);
}

bool rp_utf8_is_valid(const void *text, size_t bytes)
{
	const uint8_t *in = text, *end = in + bytes;

	while (in < end) {
		const uint8_t *begin = in;
		uint64_t eight;

		if (end - in >= 8) {
			memcpy(&eight, in, sizeof(eight));
			if (!(eight & 0x8080808080808080ull)) {
				in += 8;
				continue;
			}
		}
		/* The text itself may contain the replacement character. */
		if (rp_utf8_next(&in, end) == REPLACEMENT &&
		    (in - begin != 3 || memcmp(begin, "\xef\xbf\xbd", 3) != 0))
			return false;
	}
	return true;
}

static void put_unit(uint8_t *out, size_t index, uint32_t unit)
{
	out[2 * index] = unit & 0xff;
	out[2 * index + 1] = unit >> 8 & 0xff;
}

/* Convert four ASCII characters to four units. */
static uint64_t widen(uint64_t four)
{
	four = (four | four << 16) & 0x0000ffff0000ffffull;
	return (four | four << 8) & 0x00ff00ff00ff00ffull;
}

size_t rp_utf16_from_utf8(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t max_units)
{
	const uint8_t *end = in + in_bytes;
	size_t units = 0;

	while (in < end && units < max_units) {
		uint64_t eight, low, high;
		uint32_t character;

		/* Eight ASCII characters per iteration, which are the most common text. */
		while (end - in >= 8 && max_units - units >= 8) {
			memcpy(&eight, in, sizeof(eight));
			if (eight & 0x8080808080808080ull)
				break;
			low = widen(eight & UINT32_MAX);
			high = widen(eight >> 32);
			memcpy(out + 2 * units, &low, sizeof(low));
			memcpy(out + 2 * units + 8, &high, sizeof(high));
			in += 8;
			units += 8;
		}
		if (in == end || units == max_units)
			break;
		character = *in < 0x80 ? *in++ : decode(&in, end);
		if (character < 0x10000) {
			put_unit(out, units++, character);
			continue;
		}
		if (max_units - units < 2)
			break;
		character -= 0x10000;
		put_unit(out, units++, 0xd800 | character >> 10);
		put_unit(out, units++, 0xdc00 | (character & 0x3ff));
	}
	return units;
}

size_t rp_utf8_put(uint32_t character, char *out)
{
	if (character < 0x80) {
		out[0] = character;
		return 1;
	}
	if (character < 0x800) {
		out[0] = 0xc0 | character >> 6;
		out[1] = 0x80 | (character & 0x3f);
		return 2;
	}
	if (character < 0x10000) {
		out[0] = 0xe0 | character >> 12;
		out[1] = 0x80 | (character >> 6 & 0x3f);
		out[2] = 0x80 | (character & 0x3f);
		return 3;
	}
	out[0] = 0xf0 | character >> 18;
	out[1] = 0x80 | (character >> 12 & 0x3f);
	out[2] = 0x80 | (character >> 6 & 0x3f);
	out[3] = 0x80 | (character & 0x3f);
	return 4;
}

size_t rp_utf8_repair(const uint8_t *in, size_t bytes, char *out)
{
	const uint8_t *end = in + bytes;
	char *to = out;

	while (in < end) {
		const uint32_t character = rp_utf8_next(&in, end);

		to += rp_utf8_put(character ? character : REPLACEMENT, to);
	}
	return (size_t)(to - out);
}

size_t rp_utf16_step(const uint8_t *in, size_t units)
{
	return units >= 2 && (in[1] & 0xfc) == 0xd8 && (in[3] & 0xfc) == 0xdc ? 2 : 1;
}

/* Convert four units to four ASCII characters. */
static uint32_t narrow(uint64_t four)
{
	four = (four | four >> 8) & 0x0000ffff0000ffffull;
	return (uint32_t)(four | four >> 16);
}

size_t rp_utf8_from_utf16(const uint8_t *in, size_t units, char *out)
{
	size_t bytes = 0;

	for (size_t i = 0; i < units; i++) {
		uint32_t unit, next = 0;

		/* Four ASCII characters per iteration, which are the most common text. */
		while (units - i >= 4) {
			uint64_t four;
			uint32_t ascii;

			memcpy(&four, in + 2 * i, sizeof(four));
			if (four & 0xff80ff80ff80ff80ull)
				break;
			ascii = narrow(four);
			memcpy(out + bytes, &ascii, sizeof(ascii));
			bytes += 4;
			i += 4;
		}
		if (i == units)
			break;
		unit = in[2 * i] | in[2 * i + 1] << 8;
		if (unit >= 0xd800 && unit <= 0xdbff && i + 1 < units)
			next = in[2 * i + 2] | in[2 * i + 3] << 8;
		if (next >= 0xdc00 && next <= 0xdfff) {
			unit = 0x10000 + ((unit - 0xd800) << 10) + (next - 0xdc00);
			i++;
		} else if (unit >= 0xd800 && unit <= 0xdfff) {
			unit = REPLACEMENT;
		}
		bytes += rp_utf8_put(unit, out + bytes);
	}
	return bytes;
}

size_t rp_utf16_count(const uint8_t *in, size_t in_bytes)
{
	const uint8_t *end = in + in_bytes;
	size_t units = 0;

	while (in < end)
		units += (*in < 0x80 ? *in++ : decode(&in, end)) >= 0x10000 ? 2 : 1;
	return units;
}
