/* SPDX-License-Identifier: MIT */
/* Requests for dumps, and the replies that clients get at the end. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "diag/dump_command.h"
#include "diag_request.h"

static struct rp_message_buffer dump_request(const char *path, uint32_t type, uint32_t flags)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_DUMP, RP_DUMP_3);

	rp_message_put_string(&request, path);
	rp_message_put_u32(&request, type);
	rp_message_put_u32(&request, flags);
	rp_message_end(&request);
	return request;
}

static enum rp_hresult parse(const uint8_t *bytes, size_t size, struct rp_dump_request *ret_request,
			     char refusal[RP_DUMP_TEXT_BYTES])
{
	struct rp_message message;

	refusal[0] = '\0';
	rp_message_open(bytes, size, &message);
	return rp_dump_parse(&message.payload, ret_request, refusal);
}

Test(diag_dump, request_is_read)
{
	struct rp_message_buffer request = dump_request("/tmp/gr\xc3\xbc\xc3\x9f" "e",
							RP_DUMP_HEAP, 3);
	struct rp_dump_request parsed = { 0 };
	char refusal[RP_DUMP_TEXT_BYTES];

	cr_assert_eq(parse(request.bytes, request.size, &parsed, refusal), RP_HRESULT_OK);
	cr_assert_eq(parsed.type, RP_DUMP_HEAP);
	cr_assert_str_eq(parsed.path, "/tmp/gr\xc3\xbc\xc3\x9f" "e");
	free(parsed.path);
	rp_message_fini(&request);
}

Test(diag_dump, values_that_cannot_be_served_are_refused_with_the_reason)
{
	static const struct {
		const char *path;
		uint32_t type, flags;
		enum rp_hresult expected;
	} rows[] = {
		{ "core", 4, 0, RP_HRESULT_INVALID_ARGUMENT },
		{ "", 4, 0, RP_HRESULT_INVALID_ARGUMENT },
		{ "/core", 0, 0, RP_HRESULT_INVALID_ARGUMENT },
		{ "/core", 5, 0, RP_HRESULT_INVALID_ARGUMENT },
		{ "/core", 0xffffffff, 0, RP_HRESULT_INVALID_ARGUMENT },
		{ "/core", 4, 4, RP_HRESULT_NOT_SUPPORTED },
		{ "/core", 4, 0x80000000, RP_HRESULT_NOT_SUPPORTED },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rp_message_buffer request = dump_request(rows[i].path, rows[i].type,
								rows[i].flags);
		struct rp_dump_request parsed = { 0 };
		char refusal[RP_DUMP_TEXT_BYTES];

		cr_assert_eq(parse(request.bytes, request.size, &parsed, refusal),
			     rows[i].expected, "row %zu", i);
		cr_assert_gt(strlen(refusal), 0);
		cr_assert_null(parsed.path);
		rp_message_fini(&request);
	}
}

Test(diag_dump, request_cut_at_any_byte_is_badly_encoded)
{
	struct rp_message_buffer request = dump_request("/tmp/core", RP_DUMP_FULL, 0);

	for (size_t size = RP_MESSAGE_HEADER_BYTES; size <= request.size + 1; size++) {
		struct rp_dump_request parsed = { 0 };
		char refusal[RP_DUMP_TEXT_BYTES];
		struct fenced part;

		if (size == request.size)
			continue;
		rp_message_put_u8(&request, 0);	/* one more, for the last iteration */
		request.size--;
		part = fence(request.bytes, size);
		cr_assert_eq(parse(part.bytes, size, &parsed, refusal), RP_HRESULT_BAD_ENCODING,
			     "cut at %zu", size);
		cr_assert_null(parsed.path);
		unfence(&part);
	}
	rp_message_fini(&request);
}

Test(diag_dump, lying_length_is_badly_encoded)
{
	static const uint32_t lies[] = { 0xffffffff, 0x80000000, 0x7fffffff, 11, 9, 1 };
	struct rp_message_buffer request = dump_request("/tmp/core", RP_DUMP_FULL, 0);

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct fenced lying = fence(request.bytes, request.size);
		struct rp_dump_request parsed = { 0 };
		char refusal[RP_DUMP_TEXT_BYTES];

		for (int n = 0; n < 4; n++)
			lying.bytes[RP_MESSAGE_HEADER_BYTES + n] = (uint8_t)(lies[i] >> 8 * n);
		cr_assert_eq(parse(lying.bytes, lying.size, &parsed, refusal),
			     RP_HRESULT_BAD_ENCODING, "%u", lies[i]);
		unfence(&lying);
	}
	rp_message_fini(&request);
}

Test(diag_dump, second_dump_is_refused_while_one_is_under_way)
{
	struct rp_dump dump = { .id = 7, .fd = -1 };
	char path[] = "/tmp/core", refusal[RP_DUMP_TEXT_BYTES] = "";
	const struct rp_dump_request request = { .type = RP_DUMP_FULL, .path = path };

	cr_assert_eq(rp_dump_open(&dump, &request, -1, refusal), RP_HRESULT_FAIL);
	cr_assert_not_null(strstr(refusal, "another dump"));
	cr_assert_eq(dump.id, 7);
}

Test(diag_dump, helper_that_said_nothing_is_a_failure_in_each_kind_of_reply)
{
	struct rp_dump dump = { .id = 7, .fd = -1, .reply = RP_DUMP_REPLY_HRESULT };
	struct rp_message_buffer reply = { 0 };

	rp_dump_reply(&dump, &reply);
	cr_assert_eq(reply.size, 24);
	cr_assert_eq(reply.bytes[17], 0xff);
	dump.reply = RP_DUMP_REPLY_TEXT;
	rp_dump_reply(&dump, &reply);
	cr_assert_gt(reply.size, 24 + 4 + 2);
	dump.reply = RP_DUMP_REPLY_FRAMES;
	rp_dump_reply(&dump, &reply);
	cr_assert_gt(reply.size, RP_DUMP_FRAME_BYTES + 4 + 2);
	cr_assert_eq(reply.bytes[0], RP_DUMP_FAILED);
	rp_message_fini(&reply);
}
