/* SPDX-License-Identifier: MIT */
/* Dynamic providers, and the states that their callbacks receive. */
#include "core_support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* The calls that a callback received, oldest first. */
struct calls {
	struct rp_provider_state states[32];
	char filters[32][64];
	unsigned int count;
};

static void record(struct rp_provider *provider, const struct rp_provider_state *state, void *data)
{
	struct calls *calls = data;

	cr_assert_not_null(provider);
	cr_assert_eq(state->size, sizeof(*state));
	cr_assert_lt(calls->count, 32u);
	calls->states[calls->count] = *state;
	strcpy(calls->filters[calls->count], state->filter_data ? state->filter_data : "(none)");
	calls->count++;
}

static struct rp_provider *make(const char *name, rp_provider_callback callback, void *data)
{
	struct rp_provider *provider = NULL;

	cr_assert_eq(rp_provider_create(name, callback, data, &provider), 0);
	return provider;
}

static void expect_call(const struct calls *calls, unsigned int index, bool enabled,
			uint64_t keywords, uint8_t level, bool source_enabled)
{
	const struct rp_provider_state *state = &calls->states[index];

	cr_assert_lt(index, calls->count, "no call %u", index);
	cr_assert_eq(state->enabled, enabled, "call %u", index);
	cr_assert_eq(state->keywords, keywords, "call %u: keywords %lx", index, state->keywords);
	cr_assert_eq(state->level, level, "call %u: level %u", index, state->level);
	cr_assert_eq(state->source_enabled, source_enabled, "call %u", index);
}

Test(core_provider, wrong_names_are_refused)
{
	struct rp_provider *provider = NULL;
	char longest[RP_NAME_MAX + 2];

	memset(longest, 'n', sizeof(longest));
	longest[RP_NAME_MAX + 1] = '\0';
	cr_assert_eq(rp_provider_create(NULL, NULL, NULL, &provider), -EINVAL);
	cr_assert_eq(rp_provider_create("", NULL, NULL, &provider), -EINVAL);
	cr_assert_eq(rp_provider_create("\x80", NULL, NULL, &provider), -EINVAL);
	cr_assert_eq(rp_provider_create(longest, NULL, NULL, &provider), -EINVAL);
	cr_assert_null(provider, "the result was touched");
	longest[RP_NAME_MAX] = '\0';
	cr_assert_eq(rp_provider_create(longest, NULL, NULL, &provider), 0);
	cr_assert_str_eq(rp_provider_name(provider), longest);
	cr_assert_neq(rp_provider_name(provider), longest, "the name was not copied");
	cr_assert_eq(rp_provider_destroy(provider), 0);
	cr_assert_eq(rp_provider_destroy(NULL), 0);
}

Test(core_provider, callback_is_reported_the_aggregate_of_all_sessions)
{
	struct calls calls = { .count = 0 };
	struct rp_provider *provider = make("Test-Aggregate", record, &calls);
	struct rp_listener *first, *second;

	first = listen_to("Test-Aggregate:1:3");
	expect_call(&calls, 0, true, 1, 3, true);
	second = listen_to("Test-Aggregate:6:2:k=v;k2=v2");
	expect_call(&calls, 1, true, 7, 3, true);
	cr_assert_str_eq(calls.filters[0], "(none)");
	cr_assert_str_eq(calls.filters[1], "k=v;k2=v2");
	/* One session ends: the provider stays enabled, as the other session requires. */
	cr_assert_eq(rp_listener_stop(first, NULL), 0);
	expect_call(&calls, 2, true, 6, 2, false);
	cr_assert_eq(rp_listener_stop(second, NULL), 0);
	expect_call(&calls, 3, false, 0, 0, false);
	cr_assert_eq(calls.count, 4u);
	/* Each session has its own source id, the same at its start and end. */
	cr_assert_eq(memcmp(&calls.states[0].source, &calls.states[2].source, 16), 0);
	cr_assert_eq(memcmp(&calls.states[1].source, &calls.states[3].source, 16), 0);
	cr_assert_neq(memcmp(&calls.states[0].source, &calls.states[1].source, 16), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_provider, level_zero_counts_as_all_levels)
{
	struct calls calls = { .count = 0 };
	struct rp_provider *provider = make("Test-Aggregate", record, &calls);
	struct rp_listener *first = listen_to("Test-Aggregate:1:3");
	struct rp_listener *second = listen_to("Test-Aggregate:1:0");

	expect_call(&calls, 1, true, 1, 5, true);
	cr_assert_eq(rp_listener_stop(second, NULL), 0);
	cr_assert_eq(rp_listener_stop(first, NULL), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_provider, session_for_another_provider_is_not_reported)
{
	struct calls calls = { .count = 0 };
	struct rp_provider *provider = make("Test-Aggregate", record, &calls);
	struct rp_listener *listener = listen_to("Test-Other");

	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_assert_eq(calls.count, 0u);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_provider, all_providers_of_a_name_are_enabled)
{
	struct calls calls[3] = { { .count = 0 } };
	struct rp_provider *providers[3];
	struct rp_listener *listener;

	providers[0] = make("Test-Twin", record, &calls[0]);
	providers[1] = make("Test-Twin", record, &calls[1]);
	listener = listen_to("Test-Twin:4:2:a=b");
	providers[2] = make("Test-Twin", record, &calls[2]);
	for (uint32_t i = 0; i < 3; i++) {
		struct rp_event_decl decl = { .size = sizeof(decl), .id = 1, .name = "one",
					      .version = (uint8_t)i };
		struct rp_listener_event reported;
		struct rp_event *event;

		expect_call(&calls[i], 0, true, 4, 2, true);
		cr_assert_str_eq(calls[i].filters[0], "a=b");
		cr_assert_eq(rp_event_create(providers[i], &decl, &event), 0);
		cr_assert_eq(rp_event_write(event, NULL, 0), 0);
		expect_event(listener, &reported);
		cr_assert_eq(reported.version, i);
	}
	expect_end(listener);
	for (int i = 0; i < 3; i++) {
		expect_call(&calls[i], 1, false, 0, 0, false);
		cr_assert_eq(calls[i].count, 2u);
		cr_assert_eq(rp_provider_destroy(providers[i]), 0);
	}
}

Test(core_provider, catch_all_reaches_providers_created_later)
{
	struct calls calls = { .count = 0 };
	struct rp_listener *listener = listen_to("*:30:4:x=y");
	struct rp_provider *provider = make("Test-Late", record, &calls);

	expect_call(&calls, 0, true, 0x30, 4, true);
	cr_assert_str_eq(calls.filters[0], "x=y");
	cr_assert_eq(calls.count, 1u);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	expect_call(&calls, 1, false, 0, 0, false);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_provider, new_callback_is_reported_of_every_running_session)
{
	struct calls first = { .count = 0 }, second = { .count = 0 };
	struct rp_provider *provider = make("Test-Replay", record, &first);
	struct rp_listener *a = listen_to("Test-Replay:1:1:who=a");
	struct rp_listener *b = listen_to("Test-Replay:2:2:who=b");

	cr_assert_eq(rp_provider_set_callback(provider, record, &second), 0);
	cr_assert_eq(first.count, 2u);
	cr_assert_eq(second.count, 2u);
	expect_call(&second, 0, true, 3, 2, true);
	expect_call(&second, 1, true, 3, 2, true);
	cr_assert_str_eq(second.filters[0], "who=a");
	cr_assert_str_eq(second.filters[1], "who=b");
	cr_assert_eq(rp_listener_stop(a, NULL), 0);
	cr_assert_eq(first.count, 2u, "the old callback is not called any more");
	cr_assert_eq(second.count, 3u);
	cr_assert_eq(rp_provider_set_callback(provider, NULL, NULL), 0);
	cr_assert_eq(rp_listener_stop(b, NULL), 0);
	cr_assert_eq(second.count, 3u);
	cr_assert_eq(rp_provider_set_callback(NULL, record, &second), -EINVAL);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

static int destroy_result = 1, set_result = 1;

static void destroy_self(struct rp_provider *provider, const struct rp_provider_state *state,
			 void *data)
{
	(void)state, (void)data;
	destroy_result = rp_provider_destroy(provider);
	set_result = rp_provider_set_callback(provider, NULL, NULL);
}

Test(core_provider, own_callback_cannot_destroy_or_replace_itself, .timeout = 60)
{
	struct rp_provider *provider = make("Test-Self", destroy_self, NULL);
	struct rp_listener *listener = listen_to("Test-Self");

	cr_assert_eq(destroy_result, -EDEADLK);
	cr_assert_eq(set_result, -EDEADLK);
	cr_assert_str_eq(rp_provider_name(provider), "Test-Self");
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

RP_PROVIDER(declared, "Test-Declared");
RP_EVENT(declared, one, 1, RP_LEVEL_INFORMATIONAL, 0);

Test(core_provider, declared_provider_takes_a_callback_and_is_not_destroyed)
{
	struct calls calls = { .count = 0 };
	struct rp_listener *listener = listen_to("Test-Declared:5:4");

	cr_assert_eq(rp_provider_destroy(declared_provider()), -EINVAL);
	cr_assert_str_eq(rp_provider_name(declared_provider()), "Test-Declared");
	cr_assert_eq(rp_provider_set_callback(declared_provider(), record, &calls), 0);
	expect_call(&calls, 0, true, 5, 4, true);
	cr_assert_eq(declared_one(), 0);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	expect_call(&calls, 1, false, 0, 0, false);
	cr_assert_eq(rp_provider_set_callback(declared_provider(), NULL, NULL), 0);
}

/* A callback that waits until it is released. */
struct gate {
	sem_t entered, leave;
	bool left;
};

static void wait_at_gate(struct rp_provider *provider, const struct rp_provider_state *state,
			 void *data)
{
	struct gate *gate = data;

	(void)provider;
	if (!state->source_enabled)
		return;
	sem_post(&gate->entered);
	while (sem_wait(&gate->leave) != 0)
		;
	__atomic_store_n(&gate->left, true, __ATOMIC_SEQ_CST);
}

static void *start_listener(void *data)
{
	*(struct rp_listener **)data = listen_to("Test-Gate");
	return NULL;
}

struct destroyer {
	struct rp_provider *provider;
	struct gate *gate;
	pid_t thread;
	bool left_before;
};

static void *destroy_provider(void *data)
{
	struct destroyer *destroyer = data;

	__atomic_store_n(&destroyer->thread, gettid(), __ATOMIC_SEQ_CST);
	cr_assert_eq(rp_provider_destroy(destroyer->provider), 0);
	destroyer->left_before = __atomic_load_n(&destroyer->gate->left, __ATOMIC_SEQ_CST);
	return NULL;
}

static bool is_asleep(pid_t thread)
{
	char path[64], text[256] = "";
	FILE *file;
	char *at;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	cr_assert_not_null(fgets(text, sizeof(text), file));
	fclose(file);
	at = strrchr(text, ')');
	return at && at[2] == 'S';
}

Test(core_provider, destroy_waits_for_the_callback_in_another_thread, .timeout = 120)
{
	struct gate gate = { .left = false };
	struct destroyer destroyer = { .gate = &gate };
	struct rp_listener *listener;
	pthread_t starter, thread;

	sem_init(&gate.entered, 0, 0);
	sem_init(&gate.leave, 0, 0);
	destroyer.provider = make("Test-Gate", wait_at_gate, &gate);
	pthread_create(&starter, NULL, start_listener, &listener);
	while (sem_wait(&gate.entered) != 0)
		;
	pthread_create(&thread, NULL, destroy_provider, &destroyer);
	wait_until(__atomic_load_n(&destroyer.thread, __ATOMIC_SEQ_CST) != 0 &&
		   is_asleep(destroyer.thread));
	cr_assert_not(gate.left);
	sem_post(&gate.leave);
	pthread_join(thread, NULL);
	pthread_join(starter, NULL);
	cr_assert(destroyer.left_before, "destroy returned while the callback ran");
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

struct nest {
	struct rp_listener *inner;
	unsigned int depth, calls;
	int stop_result;
};

/* The first call starts an inner session and stops it. */
static void start_and_stop(struct rp_provider *provider, const struct rp_provider_state *state,
			   void *data)
{
	struct nest *nest = data;

	(void)provider, (void)state;
	cr_assert_eq(nest->depth, 0u, "calls for one provider come one at a time");
	nest->depth++;
	if (nest->calls++ == 0) {
		nest->inner = listen_to("Test-Nest");
		nest->stop_result = rp_listener_stop(nest->inner, NULL);
	}
	nest->depth--;
}

Test(core_provider, callback_may_start_and_stop_a_session, .timeout = 60)
{
	struct nest nest = { .stop_result = 1 };
	struct rp_provider *provider = make("Test-Nest", start_and_stop, &nest);
	struct rp_listener *listener = listen_to("Test-Nest");

	cr_assert_eq(nest.stop_result, 0);
	cr_assert_eq(nest.calls, 3u, "told of its own session, and of the inner one twice");
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_assert_eq(nest.calls, 4u);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}
