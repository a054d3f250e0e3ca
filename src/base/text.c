/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/types.h>

/* Length of the well-formed sequence at `at`, or 0. RFC 3629, table in section 4. */
static size_t sequence_length(const uint8_t *at, const uint8_t *end)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t length;

	if (*at < 0x80)
		return 1;
	if (*at >= 0xc2 && *at <= 0xdf)
		length = 2;
	else if (*at >= 0xe0 && *at <= 0xef)
		length = 3;
	else if (*at >= 0xf0 && *at <= 0xf4)
		length = 4;
	else
		return 0;
	if ((size_t)(end - at) < length)
		return 0;
	if (*at == 0xe0)
		low = 0xa0;
	else if (*at == 0xed)
		high = 0x9f;
	else if (*at == 0xf0)
		low = 0x90;
	else if (*at == 0xf4)
		high = 0x8f;
	if (at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

bool rp_text_is_utf8(const char *text, size_t length)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + length;

	while (at < end) {
		size_t step = sequence_length(at, end);

		if (step == 0)
			return false;
		at += step;
	}
	return true;
}

bool rp_text_is_name(const char *name)
{
	size_t length = name ? strnlen(name, RP_NAME_MAX + 1) : 0;

	return length > 0 && length <= RP_NAME_MAX && rp_text_is_utf8(name, length);
}

char *rp_text_copy(const char *text)
{
	return text ? strdup(text) : NULL;
}
