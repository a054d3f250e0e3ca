/* SPDX-License-Identifier: MIT */
/*
 * Listeners whose callbacks write events, start and stop other listeners, and change their filters.
 */
#include "core_support.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>

#include "core/core.h"

RP_PROVIDER(act, "Test-Act");
RP_EVENT(act, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(serial));
RP_EVENT(act, echo, 2, RP_LEVEL_INFORMATIONAL, 1, RP_U64(serial));
RP_PROVIDER(calm, "Test-Calm");
RP_EVENT(calm, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(serial));

TestSuite(core_listening, .timeout = 240);

struct heard {
	struct rp_listener *self, *other;	/* set before the events that need them */
	uint64_t marks, echoes, calm;
	int result;
	bool done;
};

static uint64_t get(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

static void add(uint64_t *number)
{
	__atomic_fetch_add(number, 1, __ATOMIC_RELEASE);
}

static void count(struct heard *heard, const struct rp_listener_event *event)
{
	if (strcmp(event->provider, "Test-Calm") == 0)
		add(&heard->calm);
	else if (strcmp(event->provider, "Test-Act") == 0)
		add(event->id == 1 ? &heard->marks : &heard->echoes);
}

static void hear(const struct rp_listener_event *event, void *data)
{
	count(data, event);
}

static void hear_and_write(const struct rp_listener_event *event, void *data)
{
	count(data, event);
	cr_assert_eq(act_echo(event->id), 0);
}

static void expect_stats(struct rp_listener *listener, uint64_t delivered)
{
	struct rp_session_stats stats = empty_stats();

	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_expect_eq(stats.delivered, delivered, "%lu, not %lu", stats.delivered, delivered);
	cr_expect_eq(stats.lost, 0u);
}

#define MARKS 500u

/* Two listeners: each would get the other's echo and echo it. */
Test(core_listening, what_callbacks_write_is_no_endless_loop)
{
	struct heard one = { .marks = 0 }, two = { .marks = 0 };
	struct rp_listener *first = push_to(hear_and_write, &one, "Test-Act", 0);
	struct rp_listener *second = push_to(hear_and_write, &two, "*", 0);
	struct rp_listener *all = listen_to("Test-Act");
	uint64_t seen[3] = { 0, 0, 0 };
	struct rp_listener_event event;

	for (uint64_t serial = 0; serial < MARKS; serial++)
		cr_assert_eq(act_mark(serial), 0);
	/* Other listeners get what the callbacks wrote. */
	while (seen[1] < MARKS || seen[2] < 2 * MARKS) {
		expect_event(all, &event);
		seen[event.id]++;
	}
	expect_stats(first, MARKS);
	expect_stats(second, MARKS);
	expect_stats(all, 3 * MARKS);
	cr_expect_eq(one.marks, MARKS);
	cr_expect_eq(two.marks, MARKS);
	cr_expect_eq(one.echoes + two.echoes, 0u);
}

Test(core_listening, another_threads_events_are_heard_while_a_callback_writes)
{
	struct heard heard = { .marks = 0 };
	struct rp_listener *listener = push_to(hear_and_write, &heard, "Test-Act", 0);

	for (uint64_t serial = 0; serial < MARKS; serial++) {
		cr_assert_eq(act_mark(serial), 0);
		cr_assert_eq(act_echo(serial), 0);
	}
	expect_stats(listener, 2 * MARKS);
	cr_expect_eq(heard.marks, MARKS);
	cr_expect_eq(heard.echoes, MARKS);
}

/* At the first event, starts a session and a listener, and stops both and another listener. */
static void begin_and_end(const struct rp_listener_event *event, void *data)
{
	struct heard *heard = data;
	struct heard inner = { .calm = 0 };
	struct rp_listener *listener;
	struct rp_session *session;

	count(heard, event);
	if (heard->done)
		return;
	session = stream_to(open("/dev/null", O_WRONLY | O_CLOEXEC), "Test-Calm");
	listener = push_to(hear, &inner, "Test-Calm", 0);
	cr_assert(calm_mark_enabled());
	cr_assert_eq(calm_mark(1), 0);
	cr_assert_eq(rp_listener_stop(heard->other, NULL), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_assert_eq(inner.calm, 0u, "it was written in a callback");
	cr_assert_not(calm_mark_enabled());
	__atomic_store_n(&heard->done, true, __ATOMIC_RELEASE);
}

Test(core_listening, callback_begins_and_ends_sessions_and_listeners)
{
	struct heard heard = { .marks = 0 }, other = { .marks = 0 };
	struct rp_listener *listener;

	heard.other = push_to(hear, &other, "Test-Calm,Test-Act", 0);
	listener = push_to(begin_and_end, &heard, "Test-Act", 0);
	for (uint64_t serial = 0; serial < MARKS; serial++)
		cr_assert_eq(act_mark(serial), 0);
	wait_until(__atomic_load_n(&heard.done, __ATOMIC_ACQUIRE));
	expect_stats(listener, MARKS);
	cr_expect_eq(heard.marks, MARKS);
}

static int set_providers(struct rp_listener *listener, const char *list)
{
	struct rp_session_options options = options_for(list);
	int ret = rp_listener_set_providers(listener, options.providers, options.provider_count);

	free_options(&options);
	return ret;
}

/*
 * Changes from the first provider to the second, and then to none. The last event changes nothing,
 * because the listener may be closed during its callback.
 */
static void change_own(const struct rp_listener_event *event, void *data)
{
	struct heard *heard = data;

	count(heard, event);
	if (heard->marks == 2)
		return;
	if (heard->calm == 0)
		heard->result = set_providers(heard->self, "Test-Calm");
	else
		heard->result = rp_listener_set_providers(heard->self, NULL, 0);
}

Test(core_listening, callback_changes_what_its_own_listener_receives)
{
	struct heard heard = { .result = 1 };
	struct rp_listener *listener = push_to(change_own, &heard, "Test-Act:1", 0);

	heard.self = listener;
	cr_assert_not(calm_mark_enabled());
	cr_assert_eq(act_mark(1), 0);
	wait_until(calm_mark_enabled() && !act_mark_enabled());
	cr_assert_eq(act_mark(2), 0);
	cr_assert_eq(calm_mark(1), 0);
	wait_until(!calm_mark_enabled());
	cr_assert_eq(calm_mark(2), 0);
	cr_assert_eq(set_providers(listener, "Test-Act:1"), 0);
	cr_assert_eq(act_mark(3), 0);
	wait_until(get(&heard.marks) == 2);
	expect_stats(listener, 3);
	cr_expect_eq(heard.result, 0);
	cr_expect_eq(heard.marks, 2u);
	cr_expect_eq(heard.calm, 1u);
}

struct reported {
	char text[256];
};

static void note(struct rp_provider *provider, const struct rp_provider_state *state, void *data)
{
	struct reported *reported = data;
	size_t length = strlen(reported->text);

	(void)provider;
	snprintf(reported->text + length, sizeof(reported->text) - length, "%d%d%lx%s ",
		 state->source_enabled, state->enabled, state->keywords,
		 state->filter_data ? state->filter_data : "-");
}

Test(core_listening, providers_are_reported_of_a_change)
{
	struct reported reported = { .text = "" };
	struct rp_listener *listener = listen_to("Test-Act:1:5:a=1");
	struct rp_session_provider wrong = RP_SESSION_PROVIDER_INIT;

	cr_assert_eq(rp_provider_set_callback(act_provider(), note, &reported), 0);
	cr_assert_eq(set_providers(listener, "Test-Act:3:5:a=2,Test-Calm"), 0);
	cr_assert_eq(rp_listener_set_providers(listener, &wrong, 1), -EINVAL);
	cr_assert_eq(rp_listener_set_providers(listener, NULL, 1), -EINVAL);
	cr_assert_eq(set_providers(listener, "Test-Calm"), 0);
	cr_assert_eq(set_providers(listener, "Test-Act"), 0);
	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(set_providers(listener, "Test-Act"), -EPIPE);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_assert_eq(rp_provider_set_callback(act_provider(), NULL, NULL), 0);
	cr_expect_str_eq(reported.text, "111a=1 013a=1 113a=2 000a=2 11ffffffffffffffff- 000- ");
}

/* Each of the two stops the other when both are in this callback. */
static void end_other(const struct rp_listener_event *event, void *data)
{
	static uint64_t arrived;
	struct heard *heard = data;

	count(heard, event);
	if (get(&heard->marks) != 1 || event->id != 1)
		return;
	add(&arrived);
	wait_until(get(&arrived) == 2);
	__atomic_store_n(&heard->result, rp_listener_stop(heard->other, NULL), __ATOMIC_RELEASE);
}

Test(core_listening, two_that_end_each_other_do_not_wait_for_ever)
{
	struct heard one = { .result = 1 }, two = { .result = 1 };
	struct rp_listener *first = push_to(end_other, &one, "Test-Act:1", 0);
	struct rp_listener *second = push_to(end_other, &two, "Test-Act:1", 0);

	one.other = second;
	two.other = first;
	cr_assert_eq(act_mark(1), 0);
	/* One of the two has ended; the other's call has returned. */
	wait_until(__atomic_load_n(&one.result, __ATOMIC_ACQUIRE) == 0 ||
		   __atomic_load_n(&two.result, __ATOMIC_ACQUIRE) == 0);
	cr_expect_eq(one.result + two.result, -EDEADLK);
	cr_assert_eq(rp_listener_stop(one.result == 0 ? first : second, NULL), 0);
}

static struct rp_event *make_event(struct rp_provider *provider, uint32_t id)
{
	static const struct rp_field field = { "serial", NULL, 0, RP_TYPE_U64, 0, 0, NULL };
	struct rp_event_decl decl = { .size = sizeof(decl), .id = id % 60000, .fields = &field,
				      .field_count = 1, .level = RP_LEVEL_INFORMATIONAL };
	struct rp_event *event;
	char name[32];

	snprintf(name, sizeof(name), "passing%u", id);
	decl.name = name;
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	return event;
}

#define PASSING 20000u
#define AT_ONCE 500u

static void hear_names(const struct rp_listener_event *event, void *data)
{
	struct heard *heard = data;
	char name[32];

	snprintf(name, sizeof(name), "passing%u", (unsigned int)heard->marks);
	heard->result |= strcmp(event->name, name);
	add(&heard->marks);
}

Test(core_listening, events_that_come_and_go_leave_nothing_while_it_listens)
{
	struct heard heard = { .marks = 0 };
	struct rp_provider *provider;
	struct rp_listener *listener;
	uint32_t indexes;

	cr_assert_eq(rp_provider_create("Test-Passing", NULL, NULL, &provider), 0);
	listener = push_to(hear_names, &heard, "Test-Passing", 0);
	indexes = rp_core.next_index;
	for (uint32_t i = 0; i < PASSING; i++) {
		struct rp_event *event = make_event(provider, i);
		uint64_t serial = i;
		struct rp_part part = { &serial, sizeof(serial) };

		cr_assert_eq(rp_event_write(event, &part, 1), 0);
		rp_event_destroy(event);
		if (i % AT_ONCE == 0)
			wait_until(get(&heard.marks) == i + 1);
	}
	expect_stats(listener, PASSING);
	cr_expect_eq(heard.result, 0, "each with its own name");
	cr_expect_lt(rp_core.next_index - indexes, PASSING / 4);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}
