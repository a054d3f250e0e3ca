/* SPDX-License-Identifier: MIT */
/* Conversations with a DiagnosticServer that has no session, without a socket. */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "diag/commands.h"
#include "ipc/message.h"
#include "diag/process.h"
#include "host/identity.h"
#include "diag_request.h"

static const uint8_t cookie[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

/* Passes a whole message to a server without any session. */
static enum rp_command_outcome run(const uint8_t *bytes, size_t size,
				   struct rp_message_buffer *reply)
{
	static struct rp_trace_table traces;
	static struct rp_sending sendings[RP_SENDINGS_MAX] = {
		{ .taken = true }, { .taken = true }, { .taken = true }, { .taken = true },
	};
	/* A dump in progress, so that no request starts one. */
	static struct rp_dump dump = { .id = 1, .fd = -1 };
	struct rp_command command = {
		.traces = &traces, .sendings = sendings, .dump = &dump, .cookie = cookie,
		.fd = -1, .passed_fd = -1, .reply = reply,
	};

	rp_trace_table_init(&traces);
	rp_command_run(&command, bytes, size);
	return command.outcome;
}

/* The reply to the request, which the caller frees. */
static struct rp_message_buffer answer(const uint8_t *bytes, size_t size)
{
	struct rp_message_buffer reply = { 0 };
	size_t whole = 0;
	enum rp_hresult hr = rp_message_frame(bytes, size, &whole);

	if (hr != RP_HRESULT_OK)
		rp_message_refuse(&reply, hr);
	else if (whole == size)
		run(bytes, size, &reply);
	return reply;
}

static uint32_t u32_at(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/*
 * Return: a reply's HRESULT. Checks that the reply is a whole message of the server, without a
 * stream.
 */
static enum rp_hresult hresult_of(const struct rp_message_buffer *reply)
{
	size_t whole = 0;

	cr_assert_eq(reply->error, 0);
	cr_assert_geq(reply->size, RP_MESSAGE_HEADER_BYTES);
	cr_assert_eq(rp_message_frame(reply->bytes, reply->size, &whole), RP_HRESULT_OK);
	cr_assert_eq(whole, reply->message_bytes ? reply->message_bytes : reply->size);
	cr_assert_eq(reply->bytes[16], RP_MESSAGE_SERVER);
	if (reply->bytes[17] == 0x00)
		return RP_HRESULT_OK;
	cr_assert_eq(reply->bytes[17], 0xff);
	cr_assert_geq(reply->size, 24);
	return u32_at(reply->bytes + 20);
}

static enum rp_hresult ask(struct rp_message_buffer *request)
{
	struct rp_message_buffer reply;
	enum rp_hresult hr;

	rp_message_end(request);
	reply = answer(request->bytes, request->size);
	hr = hresult_of(&reply);
	rp_message_fini(&reply);
	rp_message_fini(request);
	return hr;
}

/* One row per command: the reply of a server without sessions. */
static const struct {
	uint8_t set, id;
	uint8_t payload_bytes;
	enum rp_hresult expected;
} conversations[] = {
	{ 0x02, 0x01, 8, RP_HRESULT_OK },		/* StopTracing of an ended session */
	{ 0x02, 0x01, 7, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x01, 9, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x02, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x03, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x04, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x05, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x06, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x07, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x02, 0x08, 0, RP_HRESULT_UNKNOWN_COMMAND },
	{ 0x02, 0x00, 0, RP_HRESULT_UNKNOWN_COMMAND },
	{ 0x04, 0x00, 0, RP_HRESULT_OK },
	{ 0x04, 0x00, 1, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x01, 0, RP_HRESULT_OK },
	{ 0x04, 0x01, 1, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x02, 0, RP_HRESULT_OK },
	{ 0x04, 0x02, 1, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x03, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x03, 8, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x05, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x05, 3, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x05, 5, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x05, 4, RP_HRESULT_INVALID_ARGUMENT },
	{ 0x04, 0x06, 0, RP_HRESULT_OK },
	{ 0x04, 0x06, 1, RP_HRESULT_BAD_ENCODING },
	{ 0x04, 0x07, 0, RP_HRESULT_NOT_SUPPORTED },
	{ 0x04, 0x04, 0, RP_HRESULT_OK },
	{ 0x04, 0x08, 0, RP_HRESULT_OK },
	{ 0x04, 0xff, 0, RP_HRESULT_UNKNOWN_COMMAND },
	{ 0x01, 0x00, 0, RP_HRESULT_UNKNOWN_COMMAND },
	{ 0x01, 0x01, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x01, 0x02, 11, RP_HRESULT_BAD_ENCODING },
	{ 0x01, 0x03, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x01, 0x04, 0, RP_HRESULT_UNKNOWN_COMMAND },
	{ 0x52, 0x04, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x03, 0x01, 0, RP_HRESULT_NOT_SUPPORTED },
	{ 0x52, 0x00, 1, RP_HRESULT_BAD_ENCODING },
	{ 0x52, 0x01, 8, RP_HRESULT_INVALID_ARGUMENT },	/* no such session */
	{ 0x52, 0x01, 4, RP_HRESULT_BAD_ENCODING },
	{ 0x52, 0x02, 0, RP_HRESULT_UNKNOWN_COMMAND },
	{ 0x52, 0x06, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x52, 0x06, 4, RP_HRESULT_INVALID_ARGUMENT },	/* more than 2 */
	{ 0x52, 0x07, 0, RP_HRESULT_INVALID_OPERATION },	/* no recorder */
	{ 0x52, 0x07, 1, RP_HRESULT_BAD_ENCODING },
	{ 0x52, 0x08, 0, RP_HRESULT_BAD_ENCODING },
	{ 0x52, 0x08, 8, RP_HRESULT_FAIL },		/* the maximum number is in progress */
	{ 0x52, 0x08, 9, RP_HRESULT_BAD_ENCODING },
	{ 0x52, 0x0b, 7, RP_HRESULT_BAD_ENCODING },
	{ 0x52, 0x0b, 8, RP_HRESULT_INVALID_ARGUMENT },	/* coarse, more than 1 */
	{ 0x00, 0x00, 0, RP_HRESULT_UNKNOWN_COMMAND },
	{ 0xff, 0x00, 0, RP_HRESULT_UNKNOWN_COMMAND },
};

Test(diag_commands, every_command_gets_its_answer)
{
	for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++) {
		struct rp_message_buffer request = begin(conversations[i].set, conversations[i].id);

		for (int n = 0; n < conversations[i].payload_bytes; n++)
			rp_message_put_u8(&request, 0x11);
		cr_assert_eq(ask(&request), conversations[i].expected, "set %02x id %02x",
			     conversations[i].set, conversations[i].id);
	}
}

Test(diag_commands, any_flip_in_any_request_gets_one_whole_answer)
{
	for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++) {
		struct rp_message_buffer request = begin(conversations[i].set, conversations[i].id);

		for (int n = 0; n < conversations[i].payload_bytes; n++)
			rp_message_put_u8(&request, 0x11);
		rp_message_end(&request);
		for (size_t bit = 0; bit < request.size * 8; bit++) {
			struct fenced flipped = fence(request.bytes, request.size);
			struct rp_message_buffer reply;

			flipped.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			reply = answer(flipped.bytes, flipped.size);
			/* Without a reply only if the header now has another size. */
			if (reply.size)
				hresult_of(&reply);
			else
				cr_assert(bit / 8 == 14 || bit / 8 == 15);
			if (bit / 8 < 14)
				cr_assert_eq(hresult_of(&reply), RP_HRESULT_UNKNOWN_MAGIC);
			rp_message_fini(&reply);
			unfence(&flipped);
		}
		rp_message_fini(&request);
	}
}

Test(diag_commands, reserved_bytes_of_the_header_are_not_looked_at)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_PROCESS, 0x01);

	request.bytes[18] = request.bytes[19] = 0xaa;
	cr_assert_eq(ask(&request), RP_HRESULT_OK);
}

/* Until the reply is sent, the program must not start. */
Test(diag_commands, start_goes_on_when_the_reply_is_sent_and_only_for_a_right_request)
{
	struct rp_message_buffer right = begin(RP_MESSAGE_PROCESS, 0x01);
	struct rp_message_buffer wrong = begin(RP_MESSAGE_PROCESS, 0x01), reply = { 0 };

	rp_message_end(&right);
	cr_assert_eq(run(right.bytes, right.size, &reply), RP_COMMAND_RESUME);
	cr_assert_eq(hresult_of(&reply), RP_HRESULT_OK);
	rp_message_put_u8(&wrong, 0);
	rp_message_end(&wrong);
	cr_assert_eq(run(wrong.bytes, wrong.size, &reply), RP_COMMAND_REPLY);
	rp_message_fini(&reply);
	rp_message_fini(&right);
	rp_message_fini(&wrong);
}

Test(diag_commands, stop_tracing_answers_with_the_id_it_was_given)
{
	static const uint8_t id[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
	struct rp_message_buffer request = begin(RP_MESSAGE_EVENTPIPE, 0x01), reply;

	rp_message_put_bytes(&request, id, 8);
	rp_message_end(&request);
	reply = answer(request.bytes, request.size);
	cr_assert_eq(hresult_of(&reply), RP_HRESULT_OK);
	cr_assert_eq(reply.size, 28);
	cr_assert_arr_eq(reply.bytes + 20, id, 8);
	rp_message_fini(&reply);
	rp_message_fini(&request);
}

/* Reads the fields that all versions share, and moves the cursor past them. */
static void check_process_info(struct rp_cursor *payload)
{
	const uint8_t *bytes;
	uint64_t pid;
	char text[4 * RP_PROCESS_COMMAND_LINE_BYTES];

	cr_assert_eq(rp_cursor_u64(payload, &pid), 0);
	cr_assert_eq(pid, (uint64_t)getpid());
	cr_assert_eq(rp_cursor_take(payload, 16, &bytes), 0);
	cr_assert_arr_eq(bytes, cookie, 16);
	cr_assert_gt(rp_message_get_string(payload, text), 1);
	cr_assert_not_null(strstr(text, program_invocation_short_name));
	cr_assert_gt(rp_message_get_string(payload, text), 1);
	cr_assert_str_eq(text, "Linux");
	cr_assert_gt(rp_message_get_string(payload, text), 1);
#ifdef __x86_64__
	cr_assert_str_eq(text, "x64");
#endif
}

static void check_runtime(struct rp_cursor *payload)
{
	char text[1024], path[4096] = "";

	cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
	cr_assert_gt(rp_message_get_string(payload, text), 1);
	cr_assert_str_eq(text, strrchr(path, '/') + 1);
	cr_assert_gt(rp_message_get_string(payload, text), 1);
	cr_assert_eq(strncmp(text, "10.0.0+", 7), 0);
}

Test(diag_commands, process_info_identifies_the_process_in_each_version)
{
	static const uint8_t ids[] = { 0x00, 0x04, 0x08 };

	for (size_t i = 0; i < 3; i++) {
		struct rp_message_buffer request = begin(RP_MESSAGE_PROCESS, ids[i]), reply;
		struct rp_message message;
		uint32_t version = 0, copies = 0;
		char text[64];

		rp_message_end(&request);
		reply = answer(request.bytes, request.size);
		cr_assert_eq(hresult_of(&reply), RP_HRESULT_OK);
		rp_message_open(reply.bytes, reply.size, &message);
		if (ids[i] == 0x08) {
			cr_assert_eq(rp_cursor_u32(&message.payload, &version), 0);
			cr_assert_eq(version, 1);
		}
		check_process_info(&message.payload);
		if (ids[i] != 0x00)
			check_runtime(&message.payload);
		if (ids[i] == 0x08) {
			cr_assert_gt(rp_message_get_string(&message.payload, text), 1);
			cr_assert_eq(strncmp(text, "linux-", 6), 0);
			cr_assert_eq(rp_cursor_u32(&message.payload, &copies), 0);
			cr_assert_eq(copies, 1);
		}
		cr_assert_eq(rp_cursor_end(&message.payload), 0);
		rp_message_fini(&reply);
		rp_message_fini(&request);
	}
}

Test(diag_commands, session_of_the_kernels_waits_for_its_file)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_EVENTPIPE, RP_COLLECT_5), reply = { 0 };

	rp_message_put_u32(&request, 1);
	rp_message_put_u64(&request, 0);
	rp_message_put_u32(&request, 1);
	rp_message_put_u64(&request, UINT64_MAX);
	rp_message_put_u32(&request, 5);
	rp_message_put_string(&request, "Shop");
	rp_message_put_string(&request, "");
	rp_message_put_u8(&request, 0);
	rp_message_put_u32(&request, 0);
	rp_message_put_string(&request, "shop_events");
	rp_message_put_u32(&request, 0);
	rp_message_end(&request);
	cr_assert_eq(run(request.bytes, request.size, &reply), RP_COMMAND_PASS);
	rp_message_fini(&request);
	rp_message_fini(&reply);
}
