/* SPDX-License-Identifier: MIT */
/* Spans: two events and the activity between them; and lines of text. */
#include "core_support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

RP_PROVIDER(spans, "Test-Spans");
RP_SPAN(spans, outer, RP_U64(serial), RP_STRING(name));
RP_SPAN(spans, bare);
RP_SPAN_EX(spans, keyed, (RP_ID(7), RP_KEYWORDS(2), RP_LEVEL(RP_LEVEL_WARNING)), RP_U8(mark));
RP_EVENT(spans, within, 1, RP_LEVEL_INFORMATIONAL, 0);

static const struct rp_guid none;

static void expect(struct rp_listener *listener, const char *name,
		   struct rp_listener_event *ret_event)
{
	expect_event(listener, ret_event);
	cr_assert_str_eq(ret_event->name, name);
}

#define expect_same(a, b) cr_assert_arr_eq(&(a), &(b), sizeof(struct rp_guid))
#define expect_other(a, b) cr_assert_arr_neq(&(a), &(b), sizeof(struct rp_guid))

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int work_in_scope(bool early)
{
	RP_SPAN_SCOPE(spans, outer, 5, "five");
	if (early)
		return 1;
	{
		RP_SPAN_SCOPE(spans, bare);
		spans_within();
	}
	return 0;
}

Test(core_span, a_scope_writes_both_ends_and_gives_its_activity_to_what_is_between)
{
	static const uint8_t fields[] = { 5, 0, 0, 0, 0, 0, 0, 0, 'f', 'i', 'v', 'e', 0 };
	struct rp_listener *listener = listen_to("Test-Spans");
	struct rp_listener_event start, inner, within, stop;
	struct rp_activity after;
	uint64_t duration, around = clock_ns();

	cr_assert_eq(work_in_scope(false), 0);
	around = clock_ns() - around;
	expect(listener, "outer_start", &start);
	cr_assert_eq(start.payload_bytes, sizeof(fields));
	cr_assert_arr_eq(start.payload, fields, sizeof(fields));
	cr_assert_eq(start.opcode, RP_OPCODE_START);
	expect_other(start.activity, none);
	expect_same(start.related_activity, none);
	expect(listener, "bare_start", &inner);
	expect_same(inner.related_activity, start.activity);
	expect_other(inner.activity, start.activity);
	expect(listener, "within", &within);
	expect_same(within.activity, inner.activity);
	expect(listener, "bare_stop", &stop);
	expect_same(stop.activity, inner.activity);
	expect(listener, "outer_stop", &stop);
	expect_same(stop.activity, start.activity);
	cr_assert_eq(stop.opcode, RP_OPCODE_STOP);
	cr_assert_eq(stop.payload_bytes, sizeof(duration));
	memcpy(&duration, stop.payload, sizeof(duration));
	cr_assert_leq(duration, around);
	cr_assert_gt(duration, 0);
	rp_activity_get(&after);
	expect_same(after.id, none);
	expect_end(listener);
}

Test(core_span, a_scope_ends_however_the_block_is_left)
{
	struct rp_listener *listener = listen_to("Test-Spans");
	struct rp_listener_event event;

	cr_assert_eq(work_in_scope(true), 1);
	expect(listener, "outer_start", &event);
	expect(listener, "outer_stop", &event);
	expect_end(listener);
}

static void *end_span(void *data)
{
	struct rp_activity before, after;

	rp_activity_begin(&before);
	rp_activity_get(&before);
	spans_bare_end(data);
	rp_activity_get(&after);
	expect_same(after.id, before.id);
	return NULL;
}

Test(core_span, a_pair_leaves_the_threads_ids_alone_and_may_end_elsewhere)
{
	struct rp_listener *listener = listen_to("Test-Spans");
	struct rp_listener_event start, event;
	struct rp_activity outer, now;
	struct rp_span span;
	pthread_t thread;

	rp_activity_begin(&outer);
	rp_activity_get(&outer);
	spans_bare_begin(&span);
	rp_activity_get(&now);
	expect_same(now.id, outer.id);
	cr_assert_eq(pthread_create(&thread, NULL, end_span, &span), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	spans_bare_end(&span);
	expect(listener, "bare_start", &start);
	expect_same(start.related_activity, outer.id);
	expect_same(start.activity, span.activity.id);
	expect(listener, "bare_stop", &event);
	expect_same(event.activity, start.activity);
	cr_assert_neq(event.thread, start.thread);
	expect_end(listener);
}

Test(core_span, no_stop_event_without_a_start_event)
{
	struct rp_listener *listener;
	struct rp_span span;

	spans_bare_begin(&span);
	cr_assert_eq(span.begun_ns, 0);
	listener = listen_to("Test-Spans");
	spans_bare_end(&span);
	expect_end(listener);
}

Test(core_span, a_session_of_stop_events_alone_has_the_durations)
{
	const struct rp_event_filter filter = {
		.size = sizeof(filter), .ids = (const uint32_t[]){ 8 }, .id_count = 1, .enable = 1,
	};
	struct rp_session_options options = options_for("Test-Spans");
	struct rp_listener_event event;
	struct rp_listener *listener;

	((struct rp_session_provider *)(uintptr_t)options.providers)->filter = &filter;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), 0);
	free_options(&options);
	{
		RP_SPAN_SCOPE(spans, keyed, 3);
	}
	expect(listener, "keyed_stop", &event);
	cr_assert_eq(event.id, 8);
	cr_assert_eq(event.level, RP_LEVEL_WARNING);
	cr_assert_eq(event.keywords, 2);
	expect_end(listener);
}

RP_LOG_EVENTS(spans);

static unsigned int evaluated;

static unsigned int evaluate(void)
{
	return ++evaluated;
}

Test(core_log, a_line_is_its_text_its_file_and_its_line)
{
	static const char text[] = "disk sda is 97% full: No such file or directory";
	struct rp_listener *listener = listen_to("Test-Spans");
	struct rp_listener_event event;
	const char *file;
	uint32_t line;

	errno = ENOENT;
	RP_LOG(spans, RP_LEVEL_WARNING, "disk %s is %u%% full: %m", "sda", 97);
	cr_assert_eq(errno, ENOENT);
	expect(listener, "log_warning", &event);
	cr_assert_eq(event.level, RP_LEVEL_WARNING);
	cr_assert_str_eq(event.payload, text);
	file = (const char *)event.payload + sizeof(text);
	cr_assert(strstr(file, "core_span.c"));
	memcpy(&line, file + strlen(file) + 1, sizeof(line));
	cr_assert_eq(line, __LINE__ - 8);
	RP_LOG(spans, RP_LEVEL_CRITICAL, "plain");
	expect(listener, "log_critical", &event);
	cr_assert_str_eq(event.payload, "plain");
	expect_end(listener);
}

Test(core_log, arguments_are_evaluated_only_while_a_session_wants_the_level)
{
	struct rp_listener *listener;
	struct rp_listener_event event;

	RP_LOG(spans, RP_LEVEL_ERROR, "%u", evaluate());
	listener = listen_to("Test-Spans::Error");
	RP_LOG(spans, RP_LEVEL_WARNING, "%u", evaluate());
	RP_LOG(spans, RP_LEVEL_INFORMATIONAL, "%u", evaluate());
	RP_LOG(spans, RP_LEVEL_VERBOSE, "%u", evaluate());
	cr_assert_eq(evaluated, 0);
	RP_LOG(spans, RP_LEVEL_ERROR, "%u", evaluate());
	expect(listener, "log_error", &event);
	cr_assert_str_eq(event.payload, "1");
	expect_end(listener);
}

Test(core_log, a_text_that_is_too_long_ends_with_an_ellipsis_after_a_whole_character)
{
	struct rp_listener *listener = listen_to("Test-Spans");
	char given[RP_LOG_TEXT_MAX + 3] = "", expected[RP_LOG_TEXT_MAX + 1];
	struct rp_listener_event event;

	memset(given, 'x', RP_LOG_TEXT_MAX);
	RP_LOG(spans, RP_LEVEL_ERROR, "%s", given);
	expect(listener, "log_error", &event);
	cr_assert_str_eq(event.payload, given, "as long as it may be");
	/*
	 * One byte too many: the ellipsis needs three bytes, of which one would split the umlaut.
	 */
	memset(given, 'x', RP_LOG_TEXT_MAX + 1);
	memcpy(given + RP_LOG_TEXT_MAX - 4, "\u00e4", 2);
	snprintf(expected, sizeof(expected), "%.*s\u2026", (int)RP_LOG_TEXT_MAX - 4, given);
	RP_LOG(spans, RP_LEVEL_ERROR, "%s", given);
	expect(listener, "log_error", &event);
	cr_assert_str_eq(event.payload, expected);
	expect_end(listener);
}
