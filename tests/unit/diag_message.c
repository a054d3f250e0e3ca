/* SPDX-License-Identifier: MIT */
/* Messages of the diagnostics protocol, without a socket: bytes in, values or an HRESULT out. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/collect_command.h"
#include "ipc/message.h"
#include "diag_request.h"

static void put_provider(struct rp_message_buffer *request, uint64_t keywords, uint32_t level,
			 const char *name, const char *arguments)
{
	rp_message_put_u64(request, keywords);
	rp_message_put_u32(request, level);
	rp_message_put_string(request, name);
	rp_message_put_string(request, arguments);
}

static void put_filter(struct rp_message_buffer *request, uint8_t enable, const uint32_t *ids,
		       uint32_t count)
{
	rp_message_put_u8(request, enable);
	rp_message_put_u32(request, count);
	for (uint32_t i = 0; i < count; i++)
		rp_message_put_u32(request, ids[i]);
}

/* Writes the fields before the providers, in the form of each command. */
static struct rp_message_buffer begin_collect(uint8_t id, uint32_t mb, uint32_t format)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_EVENTPIPE, id);

	if (id >= RP_COLLECT_5)
		rp_message_put_u32(&request, 0);
	rp_message_put_u32(&request, mb);
	rp_message_put_u32(&request, format);
	if (id == RP_COLLECT_2 || id == RP_COLLECT_3)
		rp_message_put_u8(&request, 1);
	if (id >= RP_COLLECT_4)
		rp_message_put_u64(&request, 0x80020139);
	if (id >= RP_COLLECT_3)
		rp_message_put_u8(&request, 1);
	return request;
}

static struct rp_message_buffer good_collect(uint8_t id)
{
	static const uint32_t ids[] = { 1, 7, 70000 };
	struct rp_message_buffer request = begin_collect(id, 256, 1);

	rp_message_put_u32(&request, 2);
	put_provider(&request, 0xf00000000000000fu, 5, "Shop-Orders", "k=v;k2=\xe2\x82\xac");
	if (id >= RP_COLLECT_5)
		put_filter(&request, 1, ids, 3);
	put_provider(&request, 0, 0, "Gr\xc3\xbc\xc3\x9f" "e-\xf0\x9f\x98\x80", "");
	if (id >= RP_COLLECT_5)
		put_filter(&request, 0, NULL, 0);
	if (id == RP_COLLECT_6)
		rp_message_put_u32(&request, 0);
	rp_message_end(&request);
	return request;
}

static void set_size(uint8_t *bytes, size_t size)
{
	bytes[14] = (uint8_t)size;
	bytes[15] = (uint8_t)(size >> 8);
}

static enum rp_hresult parse(const uint8_t *bytes, size_t size, struct rp_collect **ret_collect)
{
	struct rp_message message;

	rp_message_open(bytes, size, &message);
	return rp_collect_parse(message.id, &message.payload, ret_collect);
}

static enum rp_hresult parse_and_free(struct rp_message_buffer *request)
{
	struct rp_collect *collect = NULL;
	enum rp_hresult hr;

	rp_message_end(request);
	hr = parse(request->bytes, request->size, &collect);
	cr_assert_eq(collect != NULL, hr == RP_HRESULT_OK);
	free(collect);
	rp_message_fini(request);
	return hr;
}

Test(diag_message, frame_of_a_good_message_is_known_with_its_header)
{
	struct rp_message_buffer request = good_collect(RP_COLLECT_2);

	for (size_t size = 0; size <= request.size; size++) {
		struct fenced part = fence(request.bytes, size);
		size_t whole = 0;

		cr_assert_eq(rp_message_frame(part.bytes, size, &whole), RP_HRESULT_OK);
		cr_assert_eq(whole, size < RP_MESSAGE_HEADER_BYTES ? RP_MESSAGE_HEADER_BYTES :
								     request.size);
		unfence(&part);
	}
	rp_message_fini(&request);
}

Test(diag_message, wrong_magic_is_reported_at_its_first_wrong_byte)
{
	struct rp_message_buffer request = good_collect(RP_COLLECT_2);

	for (size_t at = 0; at < 14; at++) {
		size_t whole = 0;

		request.bytes[at] ^= 0x20;
		cr_assert_eq(rp_message_frame(request.bytes, at, &whole), RP_HRESULT_OK);
		cr_assert_eq(rp_message_frame(request.bytes, at + 1, &whole),
			     RP_HRESULT_UNKNOWN_MAGIC);
		request.bytes[at] ^= 0x20;
	}
	rp_message_fini(&request);
}

Test(diag_message, size_below_the_header_is_refused)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_PROCESS, 0x00);
	size_t whole = 99;

	for (size_t size = 0; size < RP_MESSAGE_HEADER_BYTES; size++) {
		set_size(request.bytes, size);
		cr_assert_eq(rp_message_frame(request.bytes, request.size, &whole),
			     RP_HRESULT_BAD_ENCODING);
	}
	cr_assert_eq(whole, 99);
	rp_message_fini(&request);
}

Test(diag_message, strings_survive_both_ways)
{
	static const char *const texts[] = {
		"", "a", "Shop-Orders", "\xc3\xa9", "\xe2\x82\xac uro", "\xf0\x9f\x98\x80!",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct rp_message_buffer message = { 0 };
		struct rp_cursor cursor;
		char text[64], *taken;

		rp_message_put_string(&message, texts[i]);
		cursor = (struct rp_cursor){ message.bytes, message.bytes + message.size };
		cr_assert_eq(rp_message_get_string(&cursor, text), (int)strlen(texts[i]) + 1);
		cr_assert_str_eq(text, texts[i]);
		cr_assert_eq(rp_cursor_end(&cursor), 0);
		cursor = rp_cursor_over(message.bytes, message.size);
		taken = rp_message_take_string(&cursor);
		cr_assert_str_eq(taken, texts[i]);
		cr_assert_eq(rp_cursor_end(&cursor), 0);
		free(taken);
		rp_message_fini(&message);
	}
}

Test(diag_message, invalid_utf8_becomes_replacement_characters)
{
	static const struct {
		const char *text;
		uint16_t units[8];
		size_t count;		/* the NUL included */
	} rows[] = {
		{ "a\x80z", { 'a', 0xfffd, 'z' }, 4 },			/* no first byte */
		{ "\xff", { 0xfffd }, 2 },
		{ "\xc3", { 0xfffd }, 2 },				/* truncated */
		{ "\xe2\x82", { 0xfffd }, 2 },
		{ "\xf0\x9f\x98", { 0xfffd }, 2 },
		{ "\xe2\x82z", { 0xfffd, 'z' }, 3 },			/* cut by a letter */
		{ "\xc0\x80", { 0xfffd, 0xfffd }, 3 },		/* an overlong NUL */
		{ "\xe0\x80\xaf", { 0xfffd, 0xfffd, 0xfffd }, 4 },
		{ "\xed\xa0\x80", { 0xfffd, 0xfffd, 0xfffd }, 4 },	/* a surrogate */
		{ "\xf4\x90\x80\x80", { 0xfffd, 0xfffd, 0xfffd, 0xfffd }, 5 },	/* beyond Unicode */
		{ "\xf4\x8f\xbf\xbf", { 0xdbff, 0xdfff }, 3 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rp_message_buffer message = { 0 };

		rp_message_put_string(&message, rows[i].text);
		cr_assert_eq(message.size, 4 + 2 * rows[i].count, "row %zu", i);
		cr_assert_eq(message.bytes[0], rows[i].count, "row %zu", i);
		for (size_t n = 0; n < rows[i].count; n++)
			cr_assert_eq(message.bytes[4 + 2 * n] | message.bytes[5 + 2 * n] << 8,
				     rows[i].units[n], "row %zu unit %zu", i, n);
		rp_message_fini(&message);
	}
}

Test(diag_message, string_is_refused_unless_its_only_nul_ends_it)
{
	static const struct {
		uint8_t bytes[10];
		size_t size;
		int result;
	} rows[] = {
		{ { 0, 0, 0, 0 }, 4, 1 },			/* "" as count 0 */
		{ { 1, 0, 0, 0, 0, 0 }, 6, 1 },			/* "" as count 1 */
		{ { 1, 0, 0, 0, 'a', 0 }, 6, -EBADMSG },	/* no end */
		{ { 2, 0, 0, 0, 'a', 0, 0, 0 }, 8, 2 },
		{ { 2, 0, 0, 0, 0, 0, 0, 0 }, 8, -EBADMSG },	/* an end inside */
		{ { 3, 0, 0, 0, 'a', 0, 0, 0 }, 8, -EBADMSG },	/* longer than the payload */
		{ { 0xff, 0xff, 0xff, 0xff, 'a', 0, 0, 0 }, 8, -EBADMSG },
		{ { 0, 0, 0, 0x80, 0, 0 }, 6, -EBADMSG },	/* twice the count overflows to 0 */
		{ { 2, 0, 0, 0, 0x00, 0xd8, 0, 0 }, 8, 4 },	/* half a surrogate pair */
		{ { 1, 0, 0 }, 3, -EBADMSG },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fenced string = fence(rows[i].bytes, rows[i].size);
		struct rp_cursor cursor = { string.bytes, string.bytes + string.size };
		char text[32] = "untouched", *taken;

		cr_assert_eq(rp_message_get_string(&cursor, text), rows[i].result, "row %zu", i);
		if (rows[i].result < 0) {
			cr_assert_eq(cursor.at, string.bytes, "row %zu", i);
			cr_assert_str_eq(text, "untouched", "row %zu", i);
		}
		cursor = rp_cursor_over(string.bytes, string.size);
		taken = rp_message_take_string(&cursor);
		cr_assert_eq(taken == NULL, rows[i].result < 0, "row %zu", i);
		cr_assert_eq(rp_cursor_failed(&cursor), rows[i].result < 0, "row %zu", i);
		free(taken);
		unfence(&string);
	}
}

Test(diag_message, cursor_that_has_failed_reads_zeros_to_the_end)
{
	static const uint8_t bytes[] = { 7, 0, 0, 0, 9, 1 };
	struct rp_cursor cursor = rp_cursor_over(bytes, sizeof(bytes));

	cr_assert_eq(rp_cursor_get_u32(&cursor), 7);
	cr_assert(!rp_cursor_failed(&cursor));
	cr_assert_eq(rp_cursor_get_u64(&cursor), 0);
	cr_assert(rp_cursor_failed(&cursor));
	/* The two remaining bytes are no longer read. */
	cr_assert_eq(rp_cursor_get_u8(&cursor), 0);
	cr_assert_eq(rp_cursor_left(&cursor), 0);
	cr_assert_null(rp_message_take_string(&cursor));
	cursor = rp_cursor_over(bytes, sizeof(bytes));
	rp_cursor_skip(&cursor, sizeof(bytes));
	cr_assert(!rp_cursor_failed(&cursor));
	rp_cursor_skip(&cursor, 1);
	cr_assert(rp_cursor_failed(&cursor));
}

Test(diag_message, collect_gives_what_the_client_asked_for)
{
	for (uint8_t id = RP_COLLECT_1; id <= RP_COLLECT_6; id++) {
		struct rp_message_buffer request = good_collect(id);
		const struct rp_session_provider *first, *second;
		struct rp_collect *collect;

		cr_assert_eq(parse(request.bytes, request.size, &collect), RP_HRESULT_OK);
		first = &collect->providers[0];
		second = &collect->providers[1];
		cr_assert_eq(collect->buffer_bytes, (size_t)256 << 20);
		cr_assert_eq(collect->rundown_keywords, id == RP_COLLECT_1 ? 0 : 0x80020139);
		cr_assert_eq(collect->session_flags, id >= RP_COLLECT_3 ? RP_SESSION_STACKS : 0);
		cr_assert_eq(collect->provider_count, 2);
		cr_assert_eq(first->size, sizeof(*first));
		cr_assert_str_eq(first->name, "Shop-Orders");
		cr_assert_eq(first->keywords, 0xf00000000000000fu);
		cr_assert_eq(first->level, 5);
		cr_assert_str_eq(first->filter_data, "k=v;k2=\xe2\x82\xac");
		cr_assert_str_eq(second->name, "Gr\xc3\xbc\xc3\x9f" "e-\xf0\x9f\x98\x80");
		cr_assert_null(second->filter_data);
		cr_assert_eq(first->filter != NULL, id >= RP_COLLECT_5);
		if (id >= RP_COLLECT_5) {
			cr_assert_eq(first->filter->enable, 1);
			cr_assert_eq(first->filter->id_count, 3);
			cr_assert_eq(first->filter->ids[2], 70000);
			cr_assert_eq(second->filter->enable, 0);
			cr_assert_eq(second->filter->id_count, 0);
		}
		free(collect);
		rp_message_fini(&request);
	}
}

Test(diag_message, stacks_are_off_when_the_client_says_so)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_EVENTPIPE, RP_COLLECT_3);
	struct rp_collect *collect;

	rp_message_put_u32(&request, 1);
	rp_message_put_u32(&request, 1);
	rp_message_put_u8(&request, 0);
	rp_message_put_u8(&request, 0);
	rp_message_put_u32(&request, 1);
	put_provider(&request, 0, 5, "P", "");
	cr_assert_eq(parse(request.bytes, request.size, &collect), RP_HRESULT_OK);
	cr_assert_eq(collect->session_flags, 0);
	cr_assert_eq(collect->rundown_keywords, 0);
	free(collect);
	rp_message_fini(&request);
}

Test(diag_message, collect_cut_at_any_byte_is_badly_encoded)
{
	for (uint8_t id = RP_COLLECT_1; id <= RP_COLLECT_6; id++) {
		struct rp_message_buffer request = good_collect(id);

		for (size_t size = RP_MESSAGE_HEADER_BYTES; size < request.size; size++) {
			struct fenced part = fence(request.bytes, size);
			struct rp_collect *collect = NULL;

			set_size(part.bytes, size);
			cr_assert_eq(parse(part.bytes, size, &collect), RP_HRESULT_BAD_ENCODING,
				     "command %u cut at %zu", id, size);
			cr_assert_null(collect);
			unfence(&part);
		}
		rp_message_fini(&request);
	}
}

static void check_collect(const struct rp_collect *collect)
{
	cr_assert_geq(collect->buffer_bytes, (size_t)1 << 20);
	cr_assert_leq(collect->buffer_bytes, (size_t)4096 << 20);
	cr_assert_geq(collect->provider_count, 1);
	cr_assert_leq(collect->provider_count, 1000);
	for (size_t i = 0; i < collect->provider_count; i++) {
		const struct rp_session_provider *provider = &collect->providers[i];

		cr_assert_leq(provider->level, 5);
		cr_assert_gt(strlen(provider->name), 0);
		if (provider->filter_data)
			cr_assert_gt(strlen(provider->filter_data), 0);
	}
}

Test(diag_message, collect_with_any_bit_flipped_is_refused_or_still_sane)
{
	size_t refused = 0, accepted = 0;

	for (uint8_t id = RP_COLLECT_1; id <= RP_COLLECT_6; id++) {
		struct rp_message_buffer request = good_collect(id);
		struct fenced whole = fence(request.bytes, request.size);

		for (size_t bit = RP_MESSAGE_HEADER_BYTES * 8; bit < whole.size * 8; bit++) {
			struct rp_collect *collect = NULL;

			whole.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (parse(whole.bytes, whole.size, &collect) == RP_HRESULT_OK) {
				check_collect(collect);
				free(collect);
				accepted++;
			} else {
				cr_assert_null(collect);
				refused++;
			}
			whole.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		unfence(&whole);
		rp_message_fini(&request);
	}
	cr_assert_gt(refused, 100);
	cr_assert_gt(accepted, 100);
}

Test(diag_message, bytes_after_a_payload_are_refused)
{
	for (uint8_t id = RP_COLLECT_1; id <= RP_COLLECT_6; id++) {
		struct rp_message_buffer request = good_collect(id);

		rp_message_put_u8(&request, 0);
		cr_assert_eq(parse_and_free(&request), RP_HRESULT_BAD_ENCODING);
	}
}

Test(diag_message, collect_refuses_values_no_session_can_have)
{
	static const struct {
		uint32_t mb, format, count, level;
		const char *name;
		enum rp_hresult expected;
	} rows[] = {
		{ 1, 1, 1, 5, "P", RP_HRESULT_OK },
		{ 0xffffffff, 1, 1, 0, "P", RP_HRESULT_OK },
		{ 0, 1, 1, 5, "P", RP_HRESULT_INVALID_ARGUMENT },
		{ 1, 0, 1, 5, "P", RP_HRESULT_NOT_SUPPORTED },
		{ 1, 2, 1, 5, "P", RP_HRESULT_INVALID_ARGUMENT },
		{ 1, 1, 0, 5, "P", RP_HRESULT_INVALID_ARGUMENT },
		{ 1, 1, 1001, 5, "P", RP_HRESULT_INVALID_ARGUMENT },
		{ 1, 1, 0xffffffff, 5, "P", RP_HRESULT_INVALID_ARGUMENT },
		{ 1, 1, 2, 5, "P", RP_HRESULT_BAD_ENCODING },
		{ 1, 1, 1000, 5, "P", RP_HRESULT_BAD_ENCODING },
		{ 1, 1, 1, 6, "P", RP_HRESULT_INVALID_ARGUMENT },
		{ 1, 1, 1, 0xffffffff, "P", RP_HRESULT_INVALID_ARGUMENT },
		{ 1, 1, 1, 5, "", RP_HRESULT_INVALID_ARGUMENT },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rp_message_buffer request = begin_collect(RP_COLLECT_2, rows[i].mb,
								 rows[i].format);

		rp_message_put_u32(&request, rows[i].count);
		put_provider(&request, 0, rows[i].level, rows[i].name, "");
		cr_assert_eq(parse_and_free(&request), rows[i].expected, "row %zu", i);
	}
}

Test(diag_message, collect_takes_a_thousand_providers)
{
	struct rp_message_buffer request = begin_collect(RP_COLLECT_2, 1, 1);
	struct rp_collect *collect;
	char name[16];

	rp_message_put_u32(&request, 1000);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "P%d", i);
		put_provider(&request, (uint64_t)i, 4, name, "");
	}
	rp_message_end(&request);
	cr_assert_eq(parse(request.bytes, request.size, &collect), RP_HRESULT_OK);
	cr_assert_eq(collect->provider_count, 1000);
	cr_assert_str_eq(collect->providers[999].name, "P999");
	cr_assert_eq(collect->providers[999].keywords, 999);
	free(collect);
	rp_message_fini(&request);
}

Test(diag_message, session_of_an_unknown_type_is_refused)
{
	struct rp_message_buffer request = good_collect(RP_COLLECT_5);

	request.bytes[RP_MESSAGE_HEADER_BYTES] = 2;
	cr_assert_eq(parse_and_free(&request), RP_HRESULT_INVALID_ARGUMENT);
}

struct tracepoint_set {
	const char *name;
	uint32_t count;		/* of ids, from 1 on */
};

/* Two providers; the sets are the second's. */
static struct rp_message_buffer user_events_collect(const char *name,
						    const struct tracepoint_set *sets,
						    uint32_t count)
{
	static const uint32_t ids[] = { 5 };
	struct rp_message_buffer request = begin(RP_MESSAGE_EVENTPIPE, RP_COLLECT_5);

	rp_message_put_u32(&request, 1);
	rp_message_put_u64(&request, 0);
	rp_message_put_u32(&request, 2);
	put_provider(&request, 3, 4, "First", "k=v");
	put_filter(&request, 1, ids, 1);
	rp_message_put_string(&request, "first_all");
	rp_message_put_u32(&request, 0);
	put_provider(&request, UINT64_MAX, 5, "Second", "");
	put_filter(&request, 0, NULL, 0);
	rp_message_put_string(&request, name);
	rp_message_put_u32(&request, count);
	for (uint32_t i = 0; i < count; i++) {
		rp_message_put_string(&request, sets[i].name);
		rp_message_put_u32(&request, sets[i].count);
		for (uint32_t id = 1; id <= sets[i].count; id++)
			rp_message_put_u32(&request, id);
	}
	rp_message_end(&request);
	return request;
}

Test(diag_message, user_events_session_names_tracepoints)
{
	static const struct tracepoint_set sets[] = { { "two", 2 }, { "three", 3 } };
	struct rp_message_buffer request = user_events_collect("", sets, 2);
	struct rp_collect *collect;

	cr_assert_eq(parse(request.bytes, request.size, &collect), RP_HRESULT_OK);
	cr_assert_eq(collect->provider_count, 2);
	cr_assert_str_eq(collect->providers[0].filter_data, "k=v");
	cr_assert_eq(collect->providers[0].filter->ids[0], 5);
	cr_assert_str_eq(collect->tracepoints[0].name, "first_all");
	cr_assert_eq(collect->tracepoints[0].set_count, 0);
	cr_assert_str_eq(collect->providers[1].name, "Second");
	cr_assert_null(collect->tracepoints[1].name);
	cr_assert_eq(collect->tracepoints[1].set_count, 2);
	cr_assert_str_eq(collect->tracepoints[1].sets[0].name, "two");
	cr_assert_eq(collect->tracepoints[1].sets[0].id_count, 2);
	cr_assert_str_eq(collect->tracepoints[1].sets[1].name, "three");
	cr_assert_eq(collect->tracepoints[1].sets[1].id_count, 3);
	cr_assert_eq(collect->tracepoints[1].sets[1].ids[2], 3);
	free(collect);
	rp_message_fini(&request);
}

Test(diag_message, user_events_session_without_a_tracepoint_is_refused)
{
	static const struct tracepoint_set empty[] = { { "empty", 0 } }, unnamed[] = { { "", 1 } };
	struct rp_message_buffer requests[] = {
		user_events_collect("", NULL, 0),
		user_events_collect("all", empty, 1),
		user_events_collect("all", unnamed, 1),
	};

	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(parse_and_free(&requests[i]), RP_HRESULT_INVALID_ARGUMENT, "%zu", i);
}

Test(diag_message, user_events_session_cut_anywhere_is_refused)
{
	static const struct tracepoint_set sets[] = { { "two", 2 }, { "three", 3 } };
	struct rp_message_buffer whole = user_events_collect("all", sets, 2);

	for (size_t size = RP_MESSAGE_HEADER_BYTES; size < whole.size; size++) {
		struct rp_collect *collect;
		struct fenced fenced = fence(whole.bytes, size);

		set_size(fenced.bytes, size);
		cr_assert_eq(parse(fenced.bytes, size, &collect), RP_HRESULT_BAD_ENCODING, "%zu",
			     size);
		unfence(&fenced);
	}
	rp_message_fini(&whole);
}

Test(diag_message, collect_may_ask_writers_to_wait)
{
	static const struct {
		uint8_t mode;
		enum rp_hresult expected;
	} rows[] = {
		{ 0, RP_HRESULT_OK },
		{ 1, RP_HRESULT_OK },
		{ 2, RP_HRESULT_INVALID_ARGUMENT },
	};

	for (size_t i = 0; i < 3; i++) {
		struct rp_message_buffer request = good_collect(RP_COLLECT_6);

		request.bytes[request.size - 4] = rows[i].mode;
		cr_assert_eq(parse_and_free(&request), rows[i].expected);
	}
}

Test(diag_message, reply_longer_than_its_size_field_says_the_most_it_can)
{
	struct rp_message_buffer reply = { 0 };
	size_t whole = 0;

	rp_message_begin(&reply, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
	for (int i = 0; i < 20000; i++)
		rp_message_put_u64(&reply, 0);
	cr_assert_eq(rp_message_end(&reply), -E2BIG);
	cr_assert_eq(reply.size, 160020);
	cr_assert_eq(rp_message_frame(reply.bytes, reply.size, &whole), RP_HRESULT_OK);
	cr_assert_eq(whole, RP_MESSAGE_BYTES_MAX);
	/* The longest reply that the field can hold, then the next message in the same buffer. */
	rp_message_begin(&reply, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
	while (reply.size < RP_MESSAGE_BYTES_MAX)
		rp_message_put_u8(&reply, 0);
	cr_assert_eq(rp_message_end(&reply), 0);
	cr_assert_eq(rp_message_frame(reply.bytes, reply.size, &whole), RP_HRESULT_OK);
	cr_assert_eq(whole, reply.size);
	rp_message_fini(&reply);
}
