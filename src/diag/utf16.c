/* SPDX-License-Identifier: MIT */
#include "diag/utf16.h"

#define REPLACEMENT 0xfffdu

static char *put_utf8(char *to, uint32_t character)
{
	if (character < 0x80) {
		*to++ = (char)character;
		return to;
	}
	if (character < 0x800) {
		*to++ = (char)(0xc0 | character >> 6);
	} else {
		if (character < 0x10000) {
			*to++ = (char)(0xe0 | character >> 12);
		} else {
			*to++ = (char)(0xf0 | character >> 18);
			*to++ = (char)(0x80 | (character >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (character >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (character & 0x3f));
	return to;
}

static uint32_t unit_at(const uint8_t *from)
{
	return from[0] | (uint32_t)from[1] << 8;
}

size_t rp_diag_utf8_from_utf16(const uint8_t *from, size_t units, char *to)
{
	char *at = to;

	for (size_t i = 0; i < units; i++) {
		uint32_t unit = unit_at(from + 2 * i), next;

		if (unit >= 0xd800 && unit < 0xdc00 && i + 1 < units) {
			next = unit_at(from + 2 * i + 2);
			if (next >= 0xdc00 && next < 0xe000) {
				unit = 0x10000 + ((unit - 0xd800) << 10) + (next - 0xdc00);
				i++;
			}
		}
		if (unit >= 0xd800 && unit < 0xe000)
			unit = REPLACEMENT;
		at = put_utf8(at, unit);
	}
	return (size_t)(at - to);
}

/* How many bytes follow a first byte, and the bits it carries itself. -1: not a first byte. */
static int lead(uint8_t byte, uint32_t *ret_bits)
{
	static const struct { uint8_t mask, value; } leads[] = {
		{ 0x80, 0x00 }, { 0xe0, 0xc0 }, { 0xf0, 0xe0 }, { 0xf8, 0xf0 },
	};

	for (int i = 0; i < 4; i++) {
		if ((byte & leads[i].mask) == leads[i].value) {
			*ret_bits = byte & (uint8_t)~leads[i].mask;
			return i;
		}
	}
	return -1;
}

/* Takes one character, which is not the NUL, off the text. */
static uint32_t take(const uint8_t **at)
{
	static const uint32_t smallest[] = { 0, 0x80, 0x800, 0x10000 };
	uint32_t character;
	int following = lead(*(*at)++, &character);

	if (following < 0)
		return REPLACEMENT;
	for (int i = 0; i < following; i++) {
		if ((**at & 0xc0) != 0x80)
			return REPLACEMENT;	/* the NUL ends here, too */
		character = character << 6 | (*(*at)++ & 0x3f);
	}
	if (character < smallest[following] || character > 0x10ffff ||
	    (character >= 0xd800 && character < 0xe000))
		return REPLACEMENT;
	return character;
}

static uint8_t *put_unit(uint8_t *to, uint32_t unit)
{
	to[0] = (uint8_t)unit;
	to[1] = (uint8_t)(unit >> 8);
	return to + 2;
}

size_t rp_diag_utf16_from_utf8(const char *from, uint8_t *to)
{
	const uint8_t *at = (const uint8_t *)from;
	uint8_t *out = to;

	while (*at) {
		uint32_t character = take(&at);

		if (character >= 0x10000) {
			out = put_unit(out, 0xd800 + ((character - 0x10000) >> 10));
			character = 0xdc00 + (character & 0x3ff);
		}
		out = put_unit(out, character);
	}
	return (size_t)(out - to) / 2;
}
