/* SPDX-License-Identifier: MIT */
/* usage: ending PLUGIN. Threads end in every possible way; checks the events up to their last. */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

RP_PROVIDER(ending, "Test-Ending");
RP_EVENT(ending, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_PROVIDER(observed, "Test-Observed");
RP_COUNTER(observed, sum, NULL, NULL);

static pthread_key_t key;
#if defined(__SANITIZE_THREAD__)
#define ROUNDS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)	/* the sanitizer ends before the last one */
#else
#define ROUNDS PTHREAD_DESTRUCTOR_ITERATIONS
#endif

/* Only one thread at a time writes events and changes these variables. */
static uint64_t serial;
static unsigned int destroyed;
static __thread unsigned int rounds;

/* Create a listener whose buffer holds all events that are written before it reads them. */
static struct rp_listener *listen_long(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Ending", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
	};
	struct rp_listener *listener;

	check(rp_listener_start(&options, NULL, NULL, &listener) == 0);
	return listener;
}

static void write_some(unsigned int count)
{
	while (count--)
		check(ending_mark(serial++) == 0);
}

/* A destructor runs again if one sets a value, up to PTHREAD_DESTRUCTOR_ITERATIONS times. */
static void write_at_end(void *data)
{
	destroyed++;
	write_some(100);
	if (++rounds < ROUNDS)
		check(pthread_setspecific(key, data) == 0);
}

static void write_in_handler(void *data)
{
	(void)data;
	write_some(10);
}

/* Check that the listener has all events, once and in order, and no other event. */
static void expect_serials(struct rp_listener *listener)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	check(rp_listener_drain(listener) == 0);
	for (uint64_t i = 0; i < serial; i++) {
		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
		check(memcmp(event.payload, &i, sizeof(i)) == 0);
	}
	check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == -EPIPE);
	check(rp_listener_stop(listener, &stats) == 0);
	check(stats.delivered == serial && stats.lost == 0);
	serial = 0;
}

static void run_thread(void *(*run)(void *), void *expected)
{
	pthread_t thread;
	void *result;

	check(pthread_create(&thread, NULL, run, NULL) == 0);
	check(pthread_join(thread, &result) == 0);
	check(result == expected);
}

/* The thread writes its first event in a destructor, when its function has already returned. */
static void *end_at_once(void *data)
{
	(void)data;
	check(pthread_setspecific(key, &key) == 0);
	return NULL;
}

static void leave(void)
{
	pthread_cleanup_push(write_in_handler, NULL);
	write_some(10);
	pthread_exit(&serial);
	pthread_cleanup_pop(0);
}

static void *exit_below(void *data)
{
	(void)data;
	check(pthread_setspecific(key, &key) == 0);
	leave();
	return NULL;
}

static void thread_writes_to_its_last_destructor(void)
{
	struct rp_listener *listener = listen_long();

	for (unsigned int i = 0; i < 20; i++) {
		run_thread(end_at_once, NULL);
		run_thread(exit_below, &serial);
	}
	check(destroyed == 40 * ROUNDS);
	expect_serials(listener);
}

static void *write_cancelled(void *data)
{
	(void)data;
	check(pthread_setspecific(key, &key) == 0);
	pthread_cleanup_push(write_in_handler, NULL);
	check(pthread_cancel(pthread_self()) == 0);
	write_some(1000);
	pthread_testcancel();
	check(!"cancelled");
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancelled_thread_writes_all_that_it_has_to(void)
{
	struct rp_listener *listener = listen_long();

	for (unsigned int i = 0; i < 20; i++)
		run_thread(write_cancelled, PTHREAD_CANCELED);
	expect_serials(listener);
}

static void count_call(const struct rp_listener_event *event, void *data)
{
	*(unsigned int *)data += strcmp(event->name, "mark") == 0;
}

/* A cancellation point that runs inside a function of the library. */
static void stop_here(struct rp_provider *provider, const struct rp_provider_state *state,
		      void *data)
{
	(void)provider, (void)state;
	++*(unsigned int *)data;
	pthread_testcancel();
}

static int row(const struct rp_enabled *enabled, void *data)
{
	(void)enabled, (void)data;
	pthread_testcancel();
	return 0;
}

static void use_sessions(void)
{
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Ending", .level = 5,
	};
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_listener *listener;
	unsigned int heard = 0;

	check(rp_session_stop(session_to("/dev/null", "*", RP_SESSION_BUFFER_MIN), NULL) == 0);
	listener = listen_to("Test-Ending");
	check(rp_listener_next(listener, &event, 0) == 0);
	check(rp_listener_set_providers(listener, &wanted, 1) == 0);
	check(ending_mark(0) == 0);
	check(rp_listener_next(listener, &event, -1) == 1);
	check(rp_listener_stop(listener, NULL) == 0);
	options.providers = &wanted;
	options.provider_count = 1;
	check(rp_listener_start(&options, count_call, &heard, &listener) == 0);
	check(ending_mark(0) == 0);
	check(rp_listener_drain(listener) == 0);
	check(rp_listener_stop(listener, NULL) == 0);
	check(heard == 1);
}

static void use_providers(void)
{
	static const struct rp_field field = { .name = "number", .type = RP_TYPE_U32 };
	struct rp_session *session = session_to("/dev/null", "*", RP_SESSION_BUFFER_MIN);
	struct rp_event_decl decl = { .size = sizeof(decl), .name = "made", .id = 1, .level = 4,
				      .fields = &field, .field_count = 1 };
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	unsigned int calls = 0;
	struct rp_provider *provider;
	struct rp_event *event;

	check(rp_provider_create("Test-Made", stop_here, &calls, &provider) == 0);
	check(calls == 1);
	check(rp_event_create(provider, &decl, &event) == 0);
	rp_event_destroy(event);
	check(rp_provider_set_callback(provider, stop_here, &calls) == 0);
	check(rp_session_stop(session, NULL) == 0);
	check(calls == 3);
	check(rp_provider_destroy(provider) == 0);
	check(rp_enabled_list(row, NULL) == 0);
	check(rp_counter_read(observed_sum_counter(), &reading) == 0);
}

static const char *plugin_path;

static void use_library(void)
{
	void *handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);

	check(handle);
	check(dlclose(handle) == 0);
}

static void *call_cancelled(void *data)
{
	void (**use)(void) = data;

	check(pthread_cancel(pthread_self()) == 0);
	(*use)();
	*use = NULL;
	pthread_testcancel();
	return NULL;
}

/* If cancellation ended a function in the middle, its locks would remain and the next call hang. */
static void no_function_is_left_by_a_cancelled_thread(void)
{
	void (*uses[])(void) = { use_sessions, use_providers, use_library };

	for (unsigned int i = 0; i < 3; i++) {
		pthread_t thread;
		void *result;

		check(pthread_create(&thread, NULL, call_cancelled, &uses[i]) == 0);
		check(pthread_join(thread, &result) == 0);
		check(!uses[i]);
		check(result == PTHREAD_CANCELED);
	}
	use_sessions();
	use_providers();
	use_library();
}

int main(int argc, char **argv)
{
	check(argc == 2);
	plugin_path = argv[1];
	check(pthread_key_create(&key, write_at_end) == 0);
	alarm(5 * PATIENCE_S);
	thread_writes_to_its_last_destructor();
	cancelled_thread_writes_all_that_it_has_to();
	no_function_is_left_by_a_cancelled_thread();
	check(pthread_key_delete(key) == 0);
	return 0;
}
