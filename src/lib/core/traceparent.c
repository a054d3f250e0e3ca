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
#include <endian.h>
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

/*
 * Print 4 bytes as 8 digits. Each half of a byte first becomes a byte of its own, high half first,
 * and all of them become digits simultaneously.
 */
static void print_hex4(char *to, const uint8_t *bytes)
{
	const uint64_t ones = UINT64_MAX / 0xff;
	uint32_t loaded;
	uint64_t halves;

	memcpy(&loaded, bytes, sizeof(loaded));
	halves = le32toh(loaded);
	halves = (halves | halves << 16) & 0x0000ffff0000ffff;
	halves = (halves | halves << 8) & 0x00ff00ff00ff00ff;
	halves = (halves >> 4 | halves << 8) & 0x0f * ones;
	/* The bytes of the letters are 10 or more. */
	halves += '0' * ones + ((halves + 6 * ones) >> 4 & ones) * ('a' - '9' - 1);
	halves = htole64(halves);
	memcpy(to, &halves, sizeof(halves));
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
	uint64_t number;

	do {
		number = rp_activity_number();
	} while (number == 0);
	memcpy(span, &number, sizeof(number));
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
	text[0] = text[1] = '0';
	text[2] = text[35] = text[52] = '-';
	for (int i = 0; i < 16; i += 4)
		print_hex4(text + 3 + 2 * i, activity->id.bytes + i);
	for (int i = 0; i < 8; i += 4)
		print_hex4(text + 36 + 2 * i, activity->related.bytes + 8 + i);
	text[53] = '0';
	text[54] = (char)('0' + (flags & KNOWN_FLAGS));
	text[LENGTH] = '\0';
}
