/* SPDX-License-Identifier: MIT */
/* The environment, read and changed by clients. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/host.h>

#include "diag/environment.h"
#include "diag_request.h"

static struct rp_message_buffer set_request(const char *name, const char *value)
{
	struct rp_message_buffer request = begin(RP_MESSAGE_PROCESS, 0x03);

	rp_message_put_string(&request, name);
	if (value)
		rp_message_put_string(&request, value);
	else
		rp_message_put_u32(&request, 0);
	rp_message_end(&request);
	return request;
}

static enum rp_hresult change_bytes(const uint8_t *bytes, size_t size, bool suspended)
{
	struct rp_message message;

	rp_message_open(bytes, size, &message);
	return rp_environment_change(&message.payload, suspended);
}

static enum rp_hresult change(const char *name, const char *value, bool suspended)
{
	struct rp_message_buffer request = set_request(name, value);
	enum rp_hresult hr = change_bytes(request.bytes, request.size, suspended);

	rp_message_fini(&request);
	return hr;
}

/* Return: the value that a client reads, for free(), or NULL. Checks the form of the reply. */
static char *reported(const char *name)
{
	struct rp_message_buffer reply = { 0 };
	struct rp_cursor cursor;
	const uint8_t *reserved;
	uint32_t bytes, count;
	char *text, *found = NULL;

	rp_message_begin(&reply, RP_MESSAGE_SERVER, RP_MESSAGE_OK);
	cr_assert_eq(rp_environment_reply(&reply), RP_HRESULT_OK);
	rp_message_end(&reply);
	cr_assert_eq(reply.error, 0);
	cr_assert_eq(reply.bytes[14] | reply.bytes[15] << 8, RP_MESSAGE_HEADER_BYTES + 6);
	cursor = (struct rp_cursor){ reply.bytes + RP_MESSAGE_HEADER_BYTES,
				     reply.bytes + reply.size };
	cr_assert_eq(rp_cursor_u32(&cursor, &bytes), 0);
	cr_assert_eq(rp_cursor_take(&cursor, 2, &reserved), 0);
	cr_assert_eq(bytes, (size_t)(cursor.end - cursor.at));
	cr_assert_eq(rp_cursor_u32(&cursor, &count), 0);
	text = malloc(2 * bytes);
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_gt(rp_message_get_string(&cursor, text), 1);
		if (strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '=') {
			cr_assert_null(found, "%s is told twice", name);
			found = strdup(text + strlen(name) + 1);
		}
	}
	cr_assert_eq(rp_cursor_end(&cursor), 0);
	free(text);
	rp_message_fini(&reply);
	return found;
}

static void assert_reported(const char *name, const char *value)
{
	char *found = reported(name);

	if (value)
		cr_assert_str_eq(found ? found : "(not told)", value);
	else
		cr_assert_null(found);
	free(found);
}

Test(diag_environment, client_reads_what_the_process_was_started_with)
{
	cr_assert_not_null(getenv("PATH"));
	assert_reported("PATH", getenv("PATH"));
}

Test(diag_environment, change_is_refused_without_callback_unless_suspended)
{
	cr_assert_eq(change("RP_TEST_A", "1", false), RP_HRESULT_INVALID_OPERATION);
	cr_assert_null(getenv("RP_TEST_A"));
	assert_reported("RP_TEST_A", NULL);
	cr_assert_eq(change("RP_TEST_A", "1", true), RP_HRESULT_OK);
	cr_assert_str_eq(getenv("RP_TEST_A"), "1");
	assert_reported("RP_TEST_A", "1");
}

Test(diag_environment, later_change_of_a_name_counts)
{
	cr_assert_eq(change("RP_TEST_A", "1", true), RP_HRESULT_OK);
	cr_assert_eq(change("RP_TEST_AB", "other", true), RP_HRESULT_OK);
	cr_assert_eq(change("RP_TEST_A", "", true), RP_HRESULT_OK);
	cr_assert_str_eq(getenv("RP_TEST_A"), "");
	assert_reported("RP_TEST_A", "");
	assert_reported("RP_TEST_AB", "other");
	cr_assert_eq(change("RP_TEST_A", NULL, true), RP_HRESULT_OK);
	cr_assert_null(getenv("RP_TEST_A"));
	assert_reported("RP_TEST_A", NULL);
	cr_assert_eq(change("PATH", NULL, true), RP_HRESULT_OK);
	assert_reported("PATH", NULL);
}

struct asked {
	char name[32];
	char value[32];
	int calls;
	int answer;
};

static int on_set(const char *name, const char *value, void *data)
{
	struct asked *asked = data;

	asked->calls++;
	strncpy(asked->name, name, sizeof(asked->name) - 1);
	strncpy(asked->value, value ? value : "(none)", sizeof(asked->value) - 1);
	return asked->answer;
}

Test(diag_environment, callback_of_the_host_makes_the_change_and_may_refuse_it)
{
	struct asked asked = { .answer = -EPERM };

	rp_host_set_environment_callback(on_set, &asked);
	cr_assert_eq(change("RP_TEST_A", "1", false), RP_HRESULT_FAIL);
	cr_assert_eq(asked.calls, 1);
	assert_reported("RP_TEST_A", NULL);
	asked.answer = 0;
	cr_assert_eq(change("RP_TEST_A", "gr\xc3\xbc\xc3\x9f", false), RP_HRESULT_OK);
	cr_assert_str_eq(asked.name, "RP_TEST_A");
	cr_assert_str_eq(asked.value, "gr\xc3\xbc\xc3\x9f");
	assert_reported("RP_TEST_A", "gr\xc3\xbc\xc3\x9f");
	cr_assert_eq(change("RP_TEST_A", NULL, false), RP_HRESULT_OK);
	cr_assert_str_eq(asked.value, "(none)");
	rp_host_set_environment_callback(NULL, NULL);
	cr_assert_eq(change("RP_TEST_A", "2", false), RP_HRESULT_INVALID_OPERATION);
	cr_assert_eq(asked.calls, 3);
}

Test(diag_environment, name_must_be_one_that_can_be_set)
{
	cr_assert_eq(change("", "1", true), RP_HRESULT_INVALID_ARGUMENT);
	cr_assert_eq(change("A=B", "1", true), RP_HRESULT_INVALID_ARGUMENT);
}

Test(diag_environment, change_cut_at_any_byte_is_badly_encoded)
{
	struct rp_message_buffer request = set_request("RP_TEST_CUT", "value");

	for (size_t size = RP_MESSAGE_HEADER_BYTES; size < request.size; size++) {
		struct fenced part = fence(request.bytes, size);

		cr_assert_eq(change_bytes(part.bytes, size, true), RP_HRESULT_BAD_ENCODING,
			     "cut at %zu", size);
		unfence(&part);
	}
	cr_assert_null(getenv("RP_TEST_CUT"));
	rp_message_put_u8(&request, 0);
	cr_assert_eq(change_bytes(request.bytes, request.size, true), RP_HRESULT_BAD_ENCODING);
	rp_message_fini(&request);
}

Test(diag_environment, lying_lengths_are_badly_encoded)
{
	static const uint32_t lies[] = { 0xffffffff, 0x80000000, 0x7fffffff, 7, 1 };
	struct rp_message_buffer request = set_request("abcde", "value");

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct fenced lying = fence(request.bytes, request.size);

		for (int n = 0; n < 4; n++)
			lying.bytes[RP_MESSAGE_HEADER_BYTES + n] = (uint8_t)(lies[i] >> 8 * n);
		cr_assert_eq(change_bytes(lying.bytes, lying.size, true), RP_HRESULT_BAD_ENCODING);
		unfence(&lying);
	}
	rp_message_fini(&request);
}
