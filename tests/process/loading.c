/* SPDX-License-Identifier: MIT */
/* usage: loading PLUGIN. Events in many objects, and in objects that are loaded and unloaded. */
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include "shared_event.h"

#define ROUNDS 100u

static const char *plugin_path;
static int (*plugin_call)(uint32_t number);
static uint32_t (*plugin_index)(void);

static void *load(void)
{
	void *handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	check(handle);
	plugin_call = (int (*)(uint32_t))(uintptr_t)dlsym(handle, "plugin_call");
	plugin_index = (uint32_t (*)(void))(uintptr_t)dlsym(handle, "plugin_index");
	check(plugin_call && plugin_index);
	return handle;
}

static void unload(void *handle)
{
	check(dlclose(handle) == 0);
	check(!dlopen(plugin_path, RTLD_NOW | RTLD_NOLOAD));	/* it is unloaded */
}

struct rows {
	unsigned int rows, events;
};

static int count_row(const struct rp_enabled *enabled, void *data)
{
	struct rows *rows = data;

	if (strcmp(enabled->provider, "Test-Plugin") == 0) {
		rows->rows++;
		rows->events += enabled->event_count;
	}
	return 0;
}

static struct rows plugin_rows(void)
{
	struct rows rows = { 0, 0 };

	check(rp_enabled_list(count_row, &rows) == 0);
	return rows;
}

static void expect_next(struct rp_listener *listener, const char *provider, const char *name,
			uint32_t number)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	uint32_t reported;

	check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
	check(strcmp(event.provider, provider) == 0);
	check(strcmp(event.name, name) == 0);
	check(event.payload_bytes >= sizeof(reported));
	memcpy(&reported, event.payload, sizeof(reported));
	check(reported == number);
}

static void expect_end(struct rp_listener *listener)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	check(rp_listener_drain(listener) == 0);
	check(rp_listener_next(listener, &event, -1) == -EPIPE);
	check(rp_listener_stop(listener, &stats) == 0);
	check(stats.lost == 0);
}

static void event_of_a_header_is_one_event_with_a_word_in_each_object(void)
{
	struct rp_listener *listener = listen_to("Test-Shared");

	check(&shared_hit_event_ != shared_one_word());
	check(&shared_hit_event_ != shared_two_word());
	check(shared_one_word() != shared_two_word());
	check(shared_hit_event_.index == shared_one_word()->index);
	check(shared_hit_event_.index == shared_two_word()->index);
	check(shared_hit_enabled());
	check(rp_event_enabled(shared_one_word()) && rp_event_enabled(shared_two_word()));
	check(shared_hit(0, "program") == 0);
	check(shared_one_fire() == 0);
	check(shared_two_fire() == 0);
	for (uint32_t from = 0; from < 3; from++)
		expect_next(listener, "Test-Shared", "hit", from);
	expect_end(listener);
	check(!shared_hit_enabled());
	check(!rp_event_enabled(shared_one_word()) && !rp_event_enabled(shared_two_word()));
}

static void loaded_library_joins_a_running_session_and_leaves_it(void)
{
	struct rp_listener *listener = listen_to("Test-Plugin");
	void *handle;

	check(plugin_rows().rows == 0);
	handle = load();
	check(plugin_rows().rows == 1);
	check(plugin_rows().events == 1);	/* unused events are not registered */
	check(plugin_call(1) == 0);
	expect_next(listener, "Test-Plugin", "called", 1);
	/* Events written before the unload are delivered with their names after it. */
	for (uint32_t i = 2; i < 1000; i++)
		check(plugin_call(i) == 0);
	unload(handle);
	check(plugin_rows().rows == 0);
	for (uint32_t i = 2; i < 1000; i++)
		expect_next(listener, "Test-Plugin", "called", i);
	expect_end(listener);
}

static void library_that_comes_and_goes_is_delivered_each_time(void)
{
	struct rp_listener *listener = listen_to("*");

	for (uint32_t i = 0; i < ROUNDS; i++) {
		void *handle = load();

		check(plugin_call(i) == 0);
		unload(handle);
	}
	for (uint32_t i = 0; i < ROUNDS; i++)
		expect_next(listener, "Test-Plugin", "called", i);
	expect_end(listener);
}

static uint64_t delivered(struct rp_session *session)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	check(rp_session_get_stats(session, &stats) == 0);
	return stats.delivered;
}

static void definitions_are_used_again(void)
{
	struct rp_session *session = session_to("/dev/null", "Test-Plugin", RP_SESSION_BUFFER_MIN);
	uint32_t highest = 0;

	for (uint32_t i = 1; i <= ROUNDS; i++) {
		void *handle = load();

		highest = plugin_index() > highest ? plugin_index() : highest;
		check(plugin_call(i) == 0);
		unload(handle);
		/* A pass may cover a few rounds; an index retired in a pass is free in the next. */
		if (i % 10 == 0)
			wait_until(delivered(session) == i);
	}
	check(rp_session_stop(session, NULL) == 0);
	/* Each round has two events: without reuse, there would be 200 more. */
	check(highest < ROUNDS);
}

static void nothing_is_left_of_a_library_without_a_session(void)
{
	size_t before = 0, after;
	uint32_t highest = 0;

	for (uint32_t i = 0; i < 10 * ROUNDS; i++) {
		void *handle = load();

		if (i <= ROUNDS) {
			before = mallinfo2().uordblks;
			highest = plugin_index() > highest ? plugin_index() : highest;
		}
		check(plugin_index() <= highest);
		unload(handle);
	}
	after = mallinfo2().uordblks;
	unload(load());
	check(after <= before + 4096);
}

struct visitor {
	pthread_t thread;
	uint64_t offered;
};

/* Models the lock of the loader, which ThreadSanitizer does not see. */
static pthread_mutex_t loader = PTHREAD_MUTEX_INITIALIZER;

/* Load and unload the plugin; it stays loaded while this thread calls its function. */
static void *visit(void *data)
{
	struct visitor *visitor = data;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		int (*call)(uint32_t number);
		void *handle;

		pthread_mutex_lock(&loader);
		handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
		pthread_mutex_unlock(&loader);
		check(handle);
		call = (int (*)(uint32_t))(uintptr_t)dlsym(handle, "plugin_call");
		check(call);
		for (unsigned int j = 0; j < 20; j++, visitor->offered++)
			(void)call(j);
		pthread_mutex_lock(&loader);
		check(dlclose(handle) == 0);
		pthread_mutex_unlock(&loader);
	}
	return NULL;
}

/* The provider is declared again before all events of the unloaded one have been delivered. */
static void library_comes_and_goes_while_others_write_its_events_and_sessions_change(void)
{
	struct rp_session *session = session_to("/dev/null", "Test-Plugin", 0);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct visitor visitors[3] = { { .offered = 0 } };
	uint64_t offered = 0;

	for (unsigned int i = 0; i < 3; i++)
		check(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]) == 0);
	for (unsigned int i = 0; i < ROUNDS / 5; i++) {
		struct rp_session *other = session_to("/dev/null", "*", RP_SESSION_BUFFER_MIN);

		check(plugin_rows().rows <= 2);
		check(rp_session_stop(other, NULL) == 0);
	}
	for (unsigned int i = 0; i < 3; i++) {
		check(pthread_join(visitors[i].thread, NULL) == 0);
		offered += visitors[i].offered;
	}
	check(rp_session_stop(session, &stats) == 0);
	check(offered == 3 * 20 * ROUNDS);
	check(stats.delivered + stats.lost == offered);
}

static struct rp_counter_reading read_counter(struct rp_counter *counter)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	check(rp_counter_read(counter, &reading) == 0);
	return reading;
}

static void counter_of_a_header_is_one_counter(void)
{
	check(shared_hits_counter() != shared_one_counter());
	check(shared_one_counter() != shared_two_counter());
	shared_hits_add(1);
	shared_one_count(10, 4);
	shared_two_count(100, 5);
	check(read_counter(shared_hits_counter()).value == 111);
	check(read_counter(shared_one_counter()).value == 111);
	check(read_counter(shared_mark_counter()).value == 5);
	shared_mark_set(6);
	check(read_counter(shared_mark_counter()).value == 6);
}

static struct rp_counter *plugins(void *handle, const char *what)
{
	struct rp_counter *(*get)(void) =
		(struct rp_counter *(*)(void))(uintptr_t)dlsym(handle, what);

	check(get);
	return get();
}

/* The session collects counters while the library is loaded; the values start at zero each time. */
static void counters_of_a_library_come_and_go_with_it(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Plugin", .level = 4,
		.filter_data = "EventCounterIntervalSec=0.01",
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
	};
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_listener *listener;

	check(rp_listener_start(&options, NULL, NULL, &listener) == 0);
	for (unsigned int round = 0; round < 20; round++) {
		void *handle = load();

		check(plugin_call(3) == 0 && plugin_call(5) == 0);
		check(read_counter(plugins(handle, "plugin_counter")).value == 2);
		check(read_counter(plugins(handle, "plugin_histogram")).mean == 4);
		/* Wait for at least one report of the counter. */
		do {
			check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
		} while (strcmp(event.name, "EventCounters") != 0);
		unload(handle);
	}
	check(rp_listener_stop(listener, NULL) == 0);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	plugin_path = argv[1];
	event_of_a_header_is_one_event_with_a_word_in_each_object();
	definitions_are_used_again();
	loaded_library_joins_a_running_session_and_leaves_it();
	library_that_comes_and_goes_is_delivered_each_time();
	nothing_is_left_of_a_library_without_a_session();
	library_comes_and_goes_while_others_write_its_events_and_sessions_change();
	counter_of_a_header_is_one_counter();
	counters_of_a_library_come_and_go_with_it();
	return 0;
}
