/* SPDX-License-Identifier: MIT */
/* JSON texts as events. */
#include "core_support.h"

#include <errno.h>
#include <stdlib.h>

RP_PROVIDER(json, "Test-Json");
RP_JSON_EVENTS(json);
RP_EVENT(json, order, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(order));

static unsigned int evaluated;

static const char *evaluate(void)
{
	evaluated++;
	return "{}";
}

static void expect(struct rp_listener *listener, const char *name, const void *payload,
		   size_t bytes)
{
	struct rp_listener_event event;

	expect_event(listener, &event);
	cr_assert_str_eq(event.name, name);
	cr_assert_eq(event.payload_bytes, bytes);
	cr_assert_arr_eq(event.payload, payload, bytes);
}

Test(core_json, each_level_has_an_event_with_the_source_and_the_text)
{
	struct rp_listener *listener = listen_to("Test-Json");

	errno = ENOENT;
	RP_JSON(json, RP_LEVEL_CRITICAL, "a", "{\"n\":1}");
	expect(listener, "json_critical", "a\0{\"n\":1}", 10);
	RP_JSON(json, RP_LEVEL_ERROR, "b", "[]");
	expect(listener, "json_error", "b\0[]", 5);
	RP_JSON(json, RP_LEVEL_WARNING, "", "");
	expect(listener, "json_warning", "\0", 2);
	RP_JSON(json, RP_LEVEL_INFORMATIONAL, NULL, NULL);
	expect(listener, "json_informational", "\0", 2);
	RP_JSON_N(json, RP_LEVEL_VERBOSE, "c", "123456", 3);
	expect(listener, "json_verbose", "c\0" "123", 6);
	cr_assert_eq(errno, ENOENT);
	expect_end(listener);
}

Test(core_json, a_text_that_is_not_json_is_written_unchanged_up_to_a_nul)
{
	struct rp_listener *listener = listen_to("Test-Json");

	RP_JSON(json, RP_LEVEL_ERROR, "\xff", "{\xc3(");
	expect(listener, "json_error", "\xff\0{\xc3(", 6);
	RP_JSON_N(json, RP_LEVEL_ERROR, "a", "1\0" "2", 3);
	expect(listener, "json_error", "a\0001", 4);
	expect_end(listener);
}

Test(core_json, arguments_are_evaluated_only_while_a_session_wants_the_level)
{
	struct rp_listener *listener;

	RP_JSON(json, RP_LEVEL_ERROR, "a", evaluate());
	listener = listen_to("Test-Json::Error");
	RP_JSON(json, RP_LEVEL_WARNING, "a", evaluate());
	RP_JSON_N(json, RP_LEVEL_VERBOSE, "a", evaluate(), 2);
	cr_assert_eq(evaluated, 0);
	RP_JSON(json, RP_LEVEL_ERROR, "a", evaluate());
	cr_assert_eq(evaluated, 1);
	expect(listener, "json_error", "a\0{}", 5);
	expect_end(listener);
}

Test(core_json, the_typed_event_and_the_text_are_in_one_session)
{
	static const uint64_t order = 5;
	struct rp_listener *listener = listen_to("Test-Json");

	RP_JSON(json, RP_LEVEL_INFORMATIONAL, "checkout", "5");
	json_order(order);
	RP_JSON(json, RP_LEVEL_INFORMATIONAL, "checkout", "5");
	expect(listener, "json_informational", "checkout\0" "5", 11);
	expect(listener, "order", &order, sizeof(order));
	expect(listener, "json_informational", "checkout\0" "5", 11);
	expect_end(listener);
}
