/* SPDX-License-Identifier: MIT */
/*
 * The header traceparent of the W3C recommendation Trace Context (section 3.2, with the flags of
 * level 2):
 *
 *	0	2	version, in lower-case hex digits like the other numbers
 *	3	32	trace id
 *	36	16	the caller's span
 *	53	2	flags
 *	55		the end, or in a later version '-' and its further members
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "core/activity_slots.h"

#define LENGTH (RP_TRACEPARENT_SIZE - 1)
#define KNOWN_FLAGS (RP_TRACE_SAMPLED | RP_TRACE_RANDOM_ID)

static int lower_digit(char c)
{
	return c >= 'A' && c <= 'F' ? -1 : rp_text_hex_digit(c);
}

static bool parse_hex(const char *text, uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		int high = lower_digit(text[2 * i]), low = lower_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static char *print_hex(char *to, const uint8_t *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		*to++ = digits[bytes[i] >> 4];
		*to++ = digits[bytes[i] & 0xf];
	}
	return to;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	uint8_t any = 0;

	for (size_t i = 0; i < size; i++)
		any |= bytes[i];
	return !any;
}

static void make_span(uint8_t span[8])
{
	do {
		uint64_t number = rp_activity_number();

		memcpy(span, &number, sizeof(number));
	} while (is_zero(span, 8));
}

RP_PUBLIC int rp_traceparent_parse(const char *text, size_t size,
				   struct rp_activity *ret_activity, uint8_t *ret_flags)
{
	struct rp_activity activity;
	uint8_t version, flags;

	if (size < LENGTH || text[2] != '-' || text[35] != '-' || text[52] != '-' ||
	    !parse_hex(text, &version, 1) || !parse_hex(text + 3, activity.id.bytes, 16) ||
	    !parse_hex(text + 36, activity.related.bytes, 8) || !parse_hex(text + 53, &flags, 1))
		return -EINVAL;
	if (version == 0xff || (size > LENGTH && (version == 0 || text[LENGTH] != '-')) ||
	    is_zero(activity.id.bytes, 16) || is_zero(activity.related.bytes, 8))
		return -EINVAL;
	make_span(activity.related.bytes + 8);
	*ret_activity = activity;
	*ret_flags = flags & KNOWN_FLAGS;
	return 0;
}

RP_PUBLIC void rp_traceparent_generate(struct rp_activity *ret_activity, uint8_t *ret_flags)
{
	memset(ret_activity, 0, sizeof(*ret_activity));
	make_span(ret_activity->id.bytes);
	make_span(ret_activity->id.bytes + 8);
	make_span(ret_activity->related.bytes + 8);
	*ret_flags = 0;
}

RP_PUBLIC void rp_traceparent_print(const struct rp_activity *activity, uint8_t flags,
				    char text[RP_TRACEPARENT_SIZE])
{
	static const uint8_t version;

	flags &= KNOWN_FLAGS;
	text = print_hex(text, &version, 1);
	*text++ = '-';
	text = print_hex(text, activity->id.bytes, 16);
	*text++ = '-';
	text = print_hex(text, activity->related.bytes + 8, 8);
	*text++ = '-';
	text = print_hex(text, &flags, 1);
	*text = '\0';
}
