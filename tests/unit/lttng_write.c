/* SPDX-License-Identifier: MIT */
/*
 * The bytes of an event that LTTng gets, and the events that are refused. LTTng is not loaded: the
 * test provides its buffers. Another thread's actions at the worst moment are simulated where the
 * write path calls out: when it asks for the activity, and when it hands the event over.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <uchar.h>

#include <lttng/ust-ringbuffer-context.h>
#include <lttng/urcu/urcu-ust.h>

#include "modules/lttng/record.h"

#define SPACE 1024u
#define BOTH "-\0-"	/* no activity, with its NULs */

static uint8_t given[SPACE];
static size_t given_bytes, reserved_bytes;
static struct rp_part pieces[8];	/* where LTTng was to read the first of them */
static unsigned int piece_count;
static unsigned int events, locks;
static char *asked_text, *handed_text;	/* changed at those moments */
static char changed;
static struct rp_activity activity;

void lttng_ust_urcu_read_lock(void)
{
	locks++;
}

void lttng_ust_urcu_read_unlock(void)
{
	locks--;
}

static int reserve(struct lttng_ust_ring_buffer_ctx *context)
{
	reserved_bytes += context->data_size;
	return 0;
}

static void give(struct lttng_ust_ring_buffer_ctx *context, const void *from, size_t bytes,
		 size_t alignment)
{
	(void)context, (void)alignment;
	cr_assert_leq(given_bytes + bytes, SPACE);
	if (piece_count < sizeof(pieces) / sizeof(pieces[0]))
		pieces[piece_count] = (struct rp_part){ from, bytes };
	piece_count++;
	memcpy(given + given_bytes, from, bytes);
	given_bytes += bytes;
}

static void commit(struct lttng_ust_ring_buffer_ctx *context)
{
	(void)context;
	cr_assert_eq(given_bytes, reserved_bytes);
	events++;
}

static struct lttng_ust_channel_buffer_ops operations = {
	.event_reserve = reserve, .event_write = give, .event_commit = commit,
};
static struct lttng_ust_session session = { .active = 1 };
static struct lttng_ust_channel_common channel = { .enabled = 1, .session = &session };
static struct lttng_ust_channel_buffer buffer = { .parent = &channel, .ops = &operations };
static struct lttng_ust_event_recorder recorder = { .chan = &buffer };
static struct lttng_ust_event_common recording = {
	.type = LTTNG_UST_EVENT_TYPE_RECORDER, .child = &recorder, .enabled = 1,
};

static bool ask_activity(struct rp_activity *ret_activity)
{
	static const struct rp_activity none;

	if (asked_text)
		*asked_text = changed;
	*ret_activity = activity;
	return memcmp(&activity, &none, sizeof(none)) != 0;
}

static void hand_over(void *data, const void *record)
{
	cr_assert_eq(locks, 1);
	if (handed_text)
		*handed_text = changed;
	rp_lttng_probe(data, record);
}

static struct lttng_ust_tracepoint_probe probes[] = {
	{ .func = (void (*)(void))hand_over, .data = &recording },
	{ .func = NULL }, { .func = NULL },
};

static bool is_taken(const char *provider, const char *event)
{
	(void)provider, (void)event;
	return false;
}

static struct rp_event_def def = {
	.provider = "Shop", .name = "placed", .id = 1, .level = RP_LEVEL_INFORMATIONAL,
};
static struct rp_export export;

static void begin(const struct rp_field *fields, uint16_t count)
{
	struct rp_lttng_event *event;

	def.fields = fields;
	def.field_count = count;
	event = rp_lttng_event_create(&def, is_taken);
	cr_assert_not_null(event);
	event->tracepoint.probes = probes;
	export.data = event;
	rp_lttng_activity_get = ask_activity;
}

static void end(void)
{
	cr_assert_eq(locks, 0);
	asked_text = handed_text = NULL;
	activity = (struct rp_activity){ { { 0 } }, { { 0 } } };
	rp_lttng_event_destroy(export.data);
}

/*
 * Return: whether LTTng got the event; otherwise it is counted as lost and nothing was passed on.
 */
static bool write_parts(const struct rp_part *parts, unsigned int count)
{
	uint64_t lost = export.lost, bytes = 0;
	unsigned int before = events;

	given_bytes = reserved_bytes = 0;
	piece_count = 0;
	for (unsigned int i = 0; i < count; i++)
		bytes += parts[i].size_bytes;
	rp_lttng_write(&export, parts, count, bytes);
	if (events != before) {
		cr_assert_eq(export.lost, lost);
		return true;
	}
	cr_assert_eq(export.lost, lost + 1);
	cr_assert_eq(given_bytes, 0);
	return false;
}

/* A separate allocation, so that a sanitizer reports a read beyond it. */
static struct rp_part part_of(const void *bytes, size_t size)
{
	void *own = malloc(size ? size : 1);

	cr_assert_not_null(own);
	memcpy(own, bytes, size);
	return (struct rp_part){ own, size };
}

static bool write_bytes(const void *bytes, size_t size)
{
	struct rp_part part = part_of(bytes, size);
	bool written = write_parts(&part, 1);

	free((void *)(uintptr_t)part.base);
	return written;
}

static void assert_given(const void *bytes, size_t size)
{
	cr_assert_eq(given_bytes, size, "%zu bytes, not %zu", given_bytes, size);
	cr_assert_arr_eq(given, bytes, size);
}

static const struct rp_field text_field[] = { { .name = "text", .type = RP_TYPE_STRING } };
static const struct rp_field order_fields[] = {
	{ .name = "id", .type = RP_TYPE_U64 },
	{ .name = "text", .type = RP_TYPE_STRING },
	{ .name = "price", .type = RP_TYPE_F64 },
};
static const struct rp_field wide_field[] = { { .name = "wide", .type = RP_TYPE_STRING16 } };
static const struct rp_field list_fields[] = {
	{ .name = "list", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U16 },
	{ .name = "last", .type = RP_TYPE_U8 },
};

/* An order with this text, in three parts; `text` is the middle one. */
static bool write_order(const char *text, size_t text_bytes)
{
	static const uint64_t id = 0x1122334455667788, price = 0x99aabbccddeeff00;
	struct rp_part parts[] = { { &id, 8 }, { text, text_bytes }, { &price, 8 } };

	return write_parts(parts, 3);
}

static void assert_order(const char *text, size_t text_bytes)
{
	static const uint64_t id = 0x1122334455667788, price = 0x99aabbccddeeff00;
	uint8_t expected[SPACE];

	memcpy(expected, &id, 8);
	memcpy(expected + 8, text, text_bytes);
	memcpy(expected + 8 + text_bytes, &price, 8);
	memcpy(expected + 16 + text_bytes, BOTH, 4);
	assert_given(expected, 20 + text_bytes);
}

Test(lttng_write, text_of_any_length_goes_out_as_it_is_in_one_part_and_in_three)
{
	char text[SPACE];

	for (size_t length = 0; length < 320; length++) {
		struct rp_part part;

		memset(text, 'x', length);
		text[length] = '\0';
		begin(order_fields, 3);
		part = part_of(text, length + 1);
		cr_assert(write_order(part.base, length + 1), "of %zu bytes", length);
		free((void *)(uintptr_t)part.base);
		assert_order(text, length + 1);
		end();
		begin(text_field, 1);
		cr_assert(write_bytes(text, length + 1), "of %zu bytes", length);
		memcpy(text + length + 1, BOTH, 4);
		assert_given(text, length + 5);
		end();
	}
}

Test(lttng_write, text_without_an_end_is_lost_at_any_length)
{
	static const struct rp_field two_fields[] = {
		{ .name = "first", .type = RP_TYPE_STRING },
		{ .name = "second", .type = RP_TYPE_STRING },
	};
	char text[320];

	memset(text, 'x', sizeof(text));
	for (size_t length = 0; length < sizeof(text); length++) {
		begin(text_field, 1);
		cr_assert_not(write_bytes(text, length), "of %zu bytes", length);
		end();
		begin(order_fields, 3);
		cr_assert_not(write_order(text, length), "of %zu bytes", length);
		end();
		if (length == 0)
			continue;
		/* Two texts with only one NUL. */
		text[length - 1] = '\0';
		begin(two_fields, 2);
		cr_assert_not(write_bytes(text, length), "of %zu bytes", length);
		end();
		text[length - 1] = '\xc3';	/* and an incomplete character */
		begin(text_field, 1);
		cr_assert_not(write_bytes(text, length), "of %zu bytes", length);
		end();
		text[length - 1] = 'x';
	}
}

Test(lttng_write, bytes_after_the_last_field_are_refused)
{
	begin(text_field, 1);
	cr_assert_not(write_bytes("text\0more", 10));
	cr_assert_not(write_bytes("text\0", 6));
	end();
	begin(order_fields, 3);
	cr_assert_not(write_bytes("12345678text\0" "1234567", 20));
	cr_assert(write_bytes("12345678text\0" "12345678", 21));
	cr_assert_not(write_bytes("12345678text\0" "123456789", 22));
	cr_assert_not(write_bytes("1234567", 7));
	end();
}

Test(lttng_write, what_is_no_utf_8_is_converted_wherever_it_stands)
{
	char text[300], expected[SPACE];

	begin(text_field, 1);
	for (size_t length = 1; length < sizeof(text) - 1; length += length < 20 ? 1 : 13) {
		for (size_t at = 0; at < length; at += length < 20 ? 1 : 7) {
			memset(text, 'x', length);
			text[length] = '\0';
			text[at] = '\xff';
			memset(expected, 'x', length + 2);
			memcpy(expected + at, "\xef\xbf\xbd", 3);
			memcpy(expected + length + 2, "\0" BOTH, 5);
			cr_assert(write_bytes(text, length + 1));
			assert_given(expected, length + 7);
			/* A valid multi-byte character at this position is not changed. */
			if (at + 1 == length)
				continue;
			memcpy(text + at, "\xc3\xa9", 2);
			memcpy(expected, text, length + 1);
			memcpy(expected + length + 1, BOTH, 4);
			cr_assert(write_bytes(text, length + 1));
			assert_given(expected, length + 5);
		}
	}
	end();
}

Test(lttng_write, wide_text_is_utf_8_and_refused_without_its_end)
{
	static const char16_t wide[] = u"\u00f6d\U0001f600";
	uint8_t many[400];

	begin(wide_field, 1);
	cr_assert(write_bytes(wide, sizeof(wide)));
	assert_given("\xc3\xb6" "d\xf0\x9f\x98\x80\0" BOTH, 12);
	cr_assert_not(write_bytes(wide, sizeof(wide) - 1));
	cr_assert_not(write_bytes(wide, sizeof(wide) - 2));
	for (size_t bytes = 0; bytes < sizeof(many); bytes++) {
		memset(many, 0, sizeof(many));
		for (size_t i = 0; i + 2 < bytes; i += 2)
			many[i] = 'w';
		cr_assert_eq(write_bytes(many, bytes), bytes && bytes % 2 == 0, "%zu bytes", bytes);
		cr_assert(bytes == 0 || bytes % 2 || given_bytes == bytes / 2 + 4);
	}
	end();
}

Test(lttng_write, array_is_refused_where_its_count_says_more_or_less)
{
	uint8_t list[400] = { 0 };

	begin(list_fields, 2);
	for (uint16_t count = 0; 2 * count + 3u < sizeof(list); count++) {
		size_t bytes = 2 * count + 3u;

		memcpy(list, &count, sizeof(count));
		cr_assert(write_bytes(list, bytes), "%u elements", count);
		cr_assert_eq(given_bytes, bytes + 4);
		cr_assert_not(write_bytes(list, bytes - 1), "%u elements", count);
		cr_assert_not(write_bytes(list, bytes + 1), "%u elements", count);
	}
	memset(list, 0xff, sizeof(list));
	for (size_t bytes = 0; bytes < sizeof(list); bytes++)
		cr_assert_not(write_bytes(list, bytes), "%zu bytes", bytes);
	end();
}

Test(lttng_write, ids_of_the_activity_follow_a_payload_of_any_size)
{
	static const char id[] = "10111213-1415-1617-1819-1a1b1c1d1e1f";
	static const char related[] = "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff";
	char text[320], expected[SPACE];

	for (int i = 0; i < 16; i++) {
		activity.id.bytes[i] = (uint8_t)(0x10 + i);
		activity.related.bytes[i] = (uint8_t)(0xf0 + i);
	}
	begin(text_field, 1);
	for (size_t bytes = 1; bytes <= sizeof(text); bytes++) {
		memset(text, 'x', bytes);
		text[bytes - 1] = '\0';
		cr_assert(write_bytes(text, bytes));
		memcpy(expected, text, bytes);
		memcpy(expected + bytes, id, sizeof(id));
		memcpy(expected + bytes + sizeof(id), related, sizeof(related));
		assert_given(expected, bytes + sizeof(id) + sizeof(related));
	}
	end();
}

static bool lies_in(const struct rp_part *piece, const struct rp_part *part)
{
	uintptr_t offset = (uintptr_t)piece->base - (uintptr_t)part->base;

	return offset < part->size_bytes;
}

Test(lttng_write, up_to_256_bytes_are_copied_once_before_and_more_go_out_from_where_they_lie)
{
	char text[320];
	struct rp_part parts[3] = { { "12345678", 8 }, { text, 0 }, { "87654321", 8 } };

	begin(order_fields, 3);
	probes[1] = probes[0];	/* two sessions */
	memset(text, 'x', sizeof(text));
	for (size_t bytes = 1; bytes <= sizeof(text); bytes++) {
		bool is_small = 8 + bytes + 8 <= RP_COPIED_MAX;
		unsigned int each = is_small ? 1 : 4;

		text[bytes - 1] = '\0';
		parts[1].size_bytes = bytes;
		given_bytes = reserved_bytes = piece_count = 0;
		rp_lttng_write(&export, parts, 3, 8 + bytes + 8);
		cr_assert_eq(piece_count, 2 * each, "%u pieces", piece_count);
		for (unsigned int i = 0; i < piece_count; i++) {
			/*
			 * Both sessions get the same copy, never the program's memory; or no other
			 * output.
			 */
			cr_assert_eq(pieces[i].base, pieces[i % each].base);
			for (int part = 0; part < 3; part++)
				cr_assert_eq(lies_in(&pieces[i], &parts[part]),
					     !is_small && (int)(i % each) == part);
		}
		cr_assert_eq(pieces[0].size_bytes, is_small ? 8 + bytes + 8 + 4 : 8);
		cr_assert(is_small || pieces[1].size_bytes == bytes);
		text[bytes - 1] = 'x';
	}
	probes[1] = (struct lttng_ust_tracepoint_probe){ .func = NULL };
	end();
}

/*
 * Up to the maximum size of a copy: a NUL that disappears, or appears too early, would corrupt the
 * trace.
 */
static void write_while_it_changes(char **when)
{
	char text[256 - 16], before[sizeof(text)];
	static const char ends[] = { 'y', '\0', '\xff' };

	begin(order_fields, 3);
	for (size_t bytes = 2; bytes <= sizeof(text); bytes += 7) {
		for (size_t at = 0; at < bytes; at++) {
			changed = ends[at % 3];
			memset(text, 'x', bytes);
			text[bytes - 1] = '\0';
			memcpy(before, text, bytes);
			*when = &text[at];
			cr_assert(write_order(text, bytes));
			assert_order(before, bytes);
			/* A text that needs conversion, which is counted first. */
			memset(text, 'x', bytes);
			text[0] = '\xff';
			text[bytes - 1] = '\0';
			memcpy(before, "\xef\xbf\xbd", 3);
			memset(before + 3, 'x', sizeof(before) - 3);
			if (bytes + 2 > sizeof(before))
				continue;
			before[bytes + 1] = '\0';
			cr_assert(write_order(text, bytes));
			assert_order(before, bytes + 2);
		}
	}
	end();
}

Test(lttng_write, text_changed_after_it_was_checked_goes_out_as_it_was)
{
	write_while_it_changes(&asked_text);
}

Test(lttng_write, text_changed_on_its_way_to_a_session_goes_out_as_it_was)
{
	write_while_it_changes(&handed_text);
}
