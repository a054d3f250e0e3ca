/* SPDX-License-Identifier: MIT */
/*
 * Structs of programs that were built with another version of the headers. Each lies right before
 * inaccessible memory, so that an access beyond its size crashes.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/batch.h>
#include <ringpipe/host_test.h>
#include <ringpipe/reader.h>

#include "core_support.h"

#define LONGER 64u		/* bytes that later versions may have added */

/* The sizes of version 1, which no later version changes. */
_Static_assert(RP_EVENT_FILTER_SIZE_V1 == 24, "frozen");
_Static_assert(RP_SESSION_PROVIDER_SIZE_V1 == 40, "frozen");
_Static_assert(RP_SESSION_OPTIONS_SIZE_V1 == 72, "frozen");
_Static_assert(RP_SESSION_STATS_SIZE_V1 == 256, "frozen");
_Static_assert(RP_SNAPSHOT_INFO_SIZE_V1 == 48, "frozen");
_Static_assert(RP_LISTENER_EVENT_SIZE_V1 == 120, "frozen");
_Static_assert(RP_TRIGGER_OPTIONS_SIZE_V1 == 32, "frozen");
_Static_assert(RP_TRIGGER_STATS_SIZE_V1 == 40, "frozen");
_Static_assert(RP_PROVIDER_STATE_SIZE_V1 == 48, "frozen");
_Static_assert(RP_ENABLED_SIZE_V1 == 64, "frozen");
_Static_assert(RP_TRACED_SIZE_V1 == 24, "frozen");
_Static_assert(RP_COUNTER_READING_SIZE_V1 == 112, "frozen");
_Static_assert(RP_VALUE_SIZE_V1 == 96, "frozen");
_Static_assert(RP_HOST_COPY_SIZE_V1 == 24, "frozen");
_Static_assert(RP_HOST_SIZE_V1 == 176, "frozen");
_Static_assert(RP_HOST_WALK_SIZE_V1 == 32, "frozen");
_Static_assert(RP_HOST_METHOD_SIZE_V1 == 1056, "frozen");
_Static_assert(RP_HOST_MODULE_SIZE_V1 == 32, "frozen");
_Static_assert(RP_HOST_COMMAND_SIZE_V1 == 24, "frozen");
_Static_assert(RP_HOST_TEST_SIZE_V1 == 48, "frozen");
_Static_assert(RP_PREPARE_OPTIONS_SIZE_V1 == 8, "frozen");
_Static_assert(RP_PROCESS_CONTEXT_SIZE_V1 == 16, "frozen");
_Static_assert(RP_COMPONENT_HOST_SIZE_V1 == 40, "frozen");
_Static_assert(RP_COMPONENT_SIZE_V1 == 32, "frozen");
_Static_assert(RP_COMPONENT_OPTIONS_SIZE_V1 == 40, "frozen");
_Static_assert(RP_READER_INFO_SIZE_V1 == 48, "frozen");
_Static_assert(RP_READER_EVENT_SIZE_V1 == 176, "frozen");
_Static_assert(RP_READER_STATS_SIZE_V1 == 56, "frozen");
_Static_assert(RP_READER_DAMAGE_SIZE_V1 == 32, "frozen");
_Static_assert(RP_READER_RANGE_SIZE_V1 == 24, "frozen");
_Static_assert(RP_EVENT_DECL_SIZE_V1 == 56, "frozen");
_Static_assert(RP_COUNTER_DECL_SIZE_V1 == 72, "frozen");
_Static_assert(RP_OBJECT_SIZE_V1 == 72, "frozen");
_Static_assert(RP_PROVIDER_DECL_SIZE_V1 == 24, "frozen");

/* Structs that never grow. */
_Static_assert(sizeof(struct rp_guid) == 16, "frozen");
_Static_assert(sizeof(struct rp_part) == 16, "frozen");
_Static_assert(sizeof(struct rp_host_range) == 16, "frozen");
_Static_assert(sizeof(struct rp_field) == 32, "frozen");
_Static_assert(sizeof(struct rp_enumerator) == 16, "frozen");
_Static_assert(sizeof(struct rp_enumeration) == 24, "frozen");
_Static_assert(sizeof(struct rp_counter_tag) == 16, "frozen");
_Static_assert(sizeof(struct rp_activity) == 32, "frozen");
_Static_assert(sizeof(struct rp_span) == 40, "frozen");
_Static_assert(sizeof(struct rp_span_scope) == 72, "frozen");
_Static_assert(sizeof(struct rp_fields) == 48, "frozen");
_Static_assert(sizeof(struct rp_batch_event) == 24, "frozen");
_Static_assert(sizeof(struct rp_reader_field) == 32, "frozen");
_Static_assert(sizeof(struct rp_reader_type) == 96, "frozen");
_Static_assert(sizeof(struct rp_reader_label) == 24, "frozen");
_Static_assert(sizeof(struct rp_component_words) == 16, "frozen");
_Static_assert(sizeof(struct rp_component_payload) == 1028, "frozen");
_Static_assert(sizeof(struct rp_event) == 32, "frozen");
_Static_assert(sizeof(struct rp_counter) == 40, "frozen");
_Static_assert(sizeof(struct rp_key) == 8, "frozen");

RP_PROVIDER(sizes, "Test-Sizes");
RP_EVENT(sizes, mark, 1, RP_LEVEL_VERBOSE, 0x10, RP_U64(serial));
RP_EVENT(sizes, plain, 2, RP_LEVEL_ERROR, 0);
RP_COUNTER(sizes, total, NULL, NULL);

static struct rp_session_provider all = {
	.size = sizeof(all), .name = "Test-Sizes",
};
static struct rp_session *recorder;
static struct rp_provider *provider;

/* Return: aligned `size` bytes of `fill` that end right before inaccessible memory; never freed. */
static void *before_a_gap(size_t size, int fill)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_leq(size, page);
	cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
	return memset(pages + page - ((size + 7) & ~(size_t)7), fill, size);
}

static void set_up(void)
{
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;

	options.flags = RP_SESSION_OVERWRITE;
	options.providers = &all;
	options.provider_count = 1;
	cr_assert_eq(rp_session_start(&options, &recorder), 0);
	cr_assert_eq(rp_provider_create("Test-Sizes-Made", NULL, NULL, &provider), 0);
}

static void tear_down(void)
{
	cr_assert_eq(rp_session_stop(recorder, NULL), 0);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

TestSuite(api_sizes, .init = set_up, .fini = tear_down);

static int start_session(const void *given)
{
	struct rp_session *session = NULL;
	int ret = rp_session_start(given, &session);

	cr_assert_eq(ret == 0, session != NULL);
	return ret == 0 ? rp_session_stop(session, NULL) : ret;
}

static int start_listener(const void *given)
{
	struct rp_listener *listener = NULL;
	int ret = rp_listener_start(given, NULL, NULL, &listener);

	return ret == 0 ? rp_listener_stop(listener, NULL) : ret;
}

static int start_provider(const void *given)
{
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;

	options.providers = given;
	options.provider_count = 1;
	return start_listener(&options);
}

static int read_snapshot(int (*fill)(struct rp_reader *reader, void *result), void *result);

static int fill_range(struct rp_reader *reader, void *given)
{
	return rp_reader_set_range(reader, given);
}

static int set_range(const void *given)
{
	return read_snapshot(fill_range, (void *)given);
}

static int start_filter(const void *given)
{
	struct rp_session_provider filtered = all;

	filtered.filter = given;
	return start_provider(&filtered);
}

static int start_triggers(const void *given)
{
	struct rp_triggers *triggers;
	int ret = rp_triggers_start(recorder, given, &triggers);

	return ret == 0 ? rp_triggers_stop(triggers, NULL) : ret;
}

static int prepare(const void *given)
{
	return rp_prepare(given);
}

static int enter(const struct rp_component_host *host, struct rp_component *component)
{
	static struct rp_component_state state;

	return rp_component_init(&state, host, NULL, 0, component);
}

static int attach_component(const void *given)
{
	struct rp_component_options own = RP_COMPONENT_OPTIONS_INIT;
	struct rp_component_link *link;
	uint32_t size;
	int ret;

	memcpy(&size, given, sizeof(size));
	if (size < RP_COMPONENT_OPTIONS_SIZE_V1)
		return rp_component_attach(enter, given, &link);
	/* The provider does not exist yet when the table of options is made. */
	own.provider = provider;
	memcpy((char *)(uintptr_t)given + sizeof(size), (char *)&own + sizeof(size),
	       RP_COMPONENT_OPTIONS_SIZE_V1 - sizeof(size));
	ret = rp_component_attach(enter, given, &link);
	return ret == 0 ? rp_component_detach(link) : ret;
}

static int create_event(const void *given)
{
	struct rp_event *event = NULL;
	int ret = rp_event_create(provider, given, &event);

	rp_event_destroy(event);
	return ret;
}

static int create_counter(const void *given)
{
	struct rp_counter *counter;
	int ret = rp_counter_create(provider, given, &counter);

	return ret == 0 ? rp_counter_destroy(counter) : ret;
}

static int publish(const void *given)
{
	return rp_process_context_publish(given);
}

/* Valid options for each struct that a caller fills. */
static const struct rp_session_options session_options = {
	.size = sizeof(session_options), .providers = &all, .provider_count = 1,
	.output_path = "/dev/null",
};
static const struct rp_event_filter event_filter = RP_EVENT_FILTER_INIT;
static const struct rp_trigger_options trigger_options = {
	.size = sizeof(trigger_options), .triggers = "Test-Sizes:mark", .path = "sizes.nettrace",
};
static const struct rp_prepare_options prepare_options = {
	.size = sizeof(prepare_options), .what = RP_PREPARE_SESSIONS,
};
static const struct rp_process_context process_context = RP_PROCESS_CONTEXT_INIT;
static const struct rp_component_options component_options = RP_COMPONENT_OPTIONS_INIT;
static const struct rp_event_decl event_decl = {
	.size = sizeof(event_decl), .id = 1, .name = "made",
};
static const struct rp_counter_decl counter_decl = {
	.size = sizeof(counter_decl), .kind = RP_COUNTER_SUM, .name = "made",
};

static const struct rp_reader_range reader_range = RP_READER_RANGE_INIT;

static const struct options {
	const char *name;
	const void *correct;
	size_t floor, size;
	int (*call)(const void *given);
} options[] = {
	{ "rp_session_options", &session_options, RP_SESSION_OPTIONS_SIZE_V1,
	  sizeof(session_options), start_session },
	{ "rp_session_options", &session_options, RP_SESSION_OPTIONS_SIZE_V1,
	  sizeof(session_options), start_listener },
	{ "rp_session_provider", &all, RP_SESSION_PROVIDER_SIZE_V1, sizeof(all), start_provider },
	{ "rp_event_filter", &event_filter, RP_EVENT_FILTER_SIZE_V1, sizeof(event_filter),
	  start_filter },
	{ "rp_trigger_options", &trigger_options, RP_TRIGGER_OPTIONS_SIZE_V1,
	  sizeof(trigger_options), start_triggers },
	{ "rp_prepare_options", &prepare_options, RP_PREPARE_OPTIONS_SIZE_V1,
	  sizeof(prepare_options), prepare },
	{ "rp_process_context", &process_context, RP_PROCESS_CONTEXT_SIZE_V1,
	  sizeof(process_context), publish },
	{ "rp_reader_range", &reader_range, RP_READER_RANGE_SIZE_V1, sizeof(reader_range),
	  set_range },
	{ "rp_component_options", &component_options, RP_COMPONENT_OPTIONS_SIZE_V1,
	  sizeof(component_options), attach_component },
	{ "rp_event_decl", &event_decl, RP_EVENT_DECL_SIZE_V1, sizeof(event_decl), create_event },
	{ "rp_counter_decl", &counter_decl, RP_COUNTER_DECL_SIZE_V1, sizeof(counter_decl),
	  create_counter },
};

/* The valid options, as a struct of another size. */
static void *resized(const struct options *of, uint32_t size)
{
	void *given = before_a_gap(size, 0);

	memcpy(given, of->correct, size < of->size ? size : of->size);
	if (size >= sizeof(size))
		memcpy(given, &size, sizeof(size));
	return given;
}

Test(api_sizes, options_of_the_first_version_are_accepted_and_shorter_ones_are_not)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct options *of = &options[i];

		cr_assert_eq(of->call(resized(of, (uint32_t)of->floor)), 0, "%s", of->name);
		for (uint32_t size = 4; size < of->floor; size += 4)
			cr_assert_eq(of->call(resized(of, size)), -EINVAL, "%s of %u", of->name,
				     size);
	}
}

Test(api_sizes, options_of_a_later_version_are_accepted_if_they_ask_for_nothing_new)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct options *of = &options[i];
		char *given = resized(of, (uint32_t)of->size + LONGER);

		cr_assert_eq(of->call(given), 0, "%s", of->name);
		given[of->size + LONGER - 1] = 1;
		cr_assert_eq(of->call(given), -EINVAL, "%s", of->name);
	}
}

Test(api_sizes, options_without_a_size_are_refused)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		cr_assert_eq(options[i].call(before_a_gap(options[i].size, 0)), -EINVAL, "%s",
			     options[i].name);
}

static int get_stats(void *result)
{
	return rp_session_get_stats(recorder, result);
}

/* A running session whose stats struct is refused keeps running. */
static int stop_session(void *result)
{
	struct rp_session_options of_one = session_options;
	struct rp_session *session;
	int ret;

	cr_assert_eq(rp_session_start(&of_one, &session), 0);
	ret = rp_session_stop(session, result);
	if (ret != 0)
		cr_assert_eq(rp_session_stop(session, NULL), 0);
	return ret;
}

static int stop_listener(void *result)
{
	struct rp_session_options of_one = session_options;
	struct rp_listener *listener;
	int ret;

	cr_assert_eq(rp_listener_start(&of_one, NULL, NULL, &listener), 0);
	ret = rp_listener_stop(listener, result);
	if (ret != 0)
		cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	return ret;
}

static int take_snapshot(void *result)
{
	return rp_session_snapshot(recorder, "/dev/null", -1, result);
}

static int stop_triggers(void *result)
{
	struct rp_triggers *triggers;
	int ret;

	cr_assert_eq(rp_triggers_start(recorder, &trigger_options, &triggers), 0);
	ret = rp_triggers_get_stats(triggers, result);
	cr_assert_eq(rp_triggers_stop(triggers, result), ret);
	if (ret != 0)
		cr_assert_eq(rp_triggers_stop(triggers, NULL), 0);
	return ret;
}

static int read_counter(void *result)
{
	struct rp_counter_window *window;
	int ret = rp_counter_read(sizes_total_counter(), result);

	cr_assert_eq(rp_counter_window_open(sizes_total_counter(), &window), 0);
	cr_assert_eq(rp_counter_window_read(window, result), ret);
	rp_counter_window_close(window);
	return ret;
}

static int next_of_listener(void *result)
{
	struct rp_listener *listener = listen_to("Test-Sizes");
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	int ret;

	cr_assert_eq(sizes_mark(7), 0);
	ret = rp_listener_next(listener, result, -1);
	/* A refused call consumes no event. */
	if (ret == -EINVAL)
		cr_assert_eq(rp_listener_next(listener, &event, -1), 1);
	stop_listening(listener);
	return ret == 1 ? 0 : ret;
}

static int next_of_fields(void *result)
{
	struct rp_listener *listener = listen_to("Test-Sizes");
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_fields fields;
	int ret;

	cr_assert_eq(sizes_mark(7), 0);
	cr_assert_eq(rp_listener_next(listener, &event, -1), 1);
	rp_listener_get_fields(&event, &fields);
	ret = rp_fields_find(&fields, "serial", result);
	cr_assert_eq(rp_fields_next(&fields, result), ret == 0 ? 1 : ret);
	stop_listening(listener);
	return ret;
}

static int take_snapshot_file(void)
{
	int fd = memfd_create("sizes", 0);

	cr_assert_eq(sizes_mark(7), 0);
	cr_assert_eq(rp_session_snapshot(recorder, NULL, fd, NULL), 0);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* Calls `fill` with a reader of a snapshot. */
static int read_snapshot(int (*fill)(struct rp_reader *reader, void *result), void *result)
{
	int fd = take_snapshot_file(), ret;
	struct rp_reader *reader;

	cr_assert_eq(rp_reader_open_fd(fd, &reader), 0);
	ret = fill(reader, result);
	rp_reader_close(reader);
	close(fd);
	return ret;
}

static int fill_event(struct rp_reader *reader, void *result)
{
	int ret = rp_reader_next(reader, result);

	return ret == 1 ? 0 : ret;
}

static int fill_info(struct rp_reader *reader, void *result)
{
	return rp_reader_get_info(reader, result);
}

static int fill_stats(struct rp_reader *reader, void *result)
{
	return rp_reader_get_stats(reader, result);
}

/* Read the rest of the trace, whose first block of events is damaged. */
static int fill_damage(struct rp_reader *reader, void *result)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;

	cr_assert_eq(rp_reader_resume_after_damage(reader), 0);
	while (rp_reader_next(reader, &event) == 1)
		;
	return rp_reader_get_damage(reader, 0, result);
}

static int next_of_reader(void *result)
{
	return read_snapshot(fill_event, result);
}

static int info_of_reader(void *result)
{
	return read_snapshot(fill_info, result);
}

static int stats_of_reader(void *result)
{
	return read_snapshot(fill_stats, result);
}

static int damage_of_reader(void *result)
{
	static const uint8_t damage[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	int fd = take_snapshot_file(), ret;
	struct rp_reader *reader;
	char bytes[1 << 16], *block;
	ssize_t size = read(fd, bytes, sizeof(bytes));

	block = memmem(bytes, (size_t)size, "EventBlock", 10);
	cr_assert_not_null(block);
	memcpy(block + 40, damage, sizeof(damage));
	cr_assert_eq(rp_reader_open_memory(bytes, (size_t)size, &reader), 0);
	ret = fill_damage(reader, result);
	rp_reader_close(reader);
	close(fd);
	return ret;
}

static const struct result {
	const char *name;
	size_t floor, size;
	int (*call)(void *result);
} results[] = {
#define RESULT(type, floor, call) { #type, floor, sizeof(struct type), call }
	RESULT(rp_session_stats, RP_SESSION_STATS_SIZE_V1, get_stats),
	RESULT(rp_session_stats, RP_SESSION_STATS_SIZE_V1, stop_session),
	RESULT(rp_session_stats, RP_SESSION_STATS_SIZE_V1, stop_listener),
	RESULT(rp_snapshot_info, RP_SNAPSHOT_INFO_SIZE_V1, take_snapshot),
	RESULT(rp_trigger_stats, RP_TRIGGER_STATS_SIZE_V1, stop_triggers),
	RESULT(rp_counter_reading, RP_COUNTER_READING_SIZE_V1, read_counter),
	RESULT(rp_listener_event, RP_LISTENER_EVENT_SIZE_V1, next_of_listener),
	RESULT(rp_value, RP_VALUE_SIZE_V1, next_of_fields),
	RESULT(rp_reader_event, RP_READER_EVENT_SIZE_V1, next_of_reader),
	RESULT(rp_reader_info, RP_READER_INFO_SIZE_V1, info_of_reader),
	RESULT(rp_reader_stats, RP_READER_STATS_SIZE_V1, stats_of_reader),
	RESULT(rp_reader_damage, RP_READER_DAMAGE_SIZE_V1, damage_of_reader),
#undef RESULT
};

static uint8_t *result_of(size_t size)
{
	const uint32_t caller = (uint32_t)size;

	return memcpy(before_a_gap(size, 0xa5), &caller, sizeof(caller));
}

Test(api_sizes, results_of_the_first_version_are_filled_and_shorter_ones_are_refused)
{
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		const struct result *of = &results[i];
		uint8_t *result = result_of(of->floor);
		uint32_t size;

		cr_assert_eq(of->call(result), 0, "%s", of->name);
		memcpy(&size, result, sizeof(size));
		cr_assert_eq(size, of->floor, "%s", of->name);
		for (size = 4; size < of->floor; size += 4) {
			result = result_of(size);
			cr_assert_eq(of->call(result), -EINVAL, "%s of %u", of->name, size);
			for (uint32_t byte = 4; byte < size; byte++)
				cr_assert_eq(result[byte], 0xa5, "%s of %u", of->name, size);
		}
	}
}

Test(api_sizes, results_of_a_later_version_are_zero_where_nothing_is_known)
{
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		const struct result *of = &results[i];
		uint8_t *result = result_of(of->size + LONGER);
		uint32_t size;

		cr_assert_eq(of->call(result), 0, "%s", of->name);
		memcpy(&size, result, sizeof(size));
		cr_assert_eq(size, of->size + LONGER, "%s", of->name);
		for (size_t byte = of->size; byte < size; byte++)
			cr_assert_eq(result[byte], 0, "%s", of->name);
	}
}

Test(api_sizes, initialised_provider_takes_every_event)
{
	struct rp_session_options of_one = RP_SESSION_OPTIONS_INIT;
	struct rp_session_provider every = RP_SESSION_PROVIDER_INIT;
	struct rp_listener *listener;
	struct rp_listener_event event;

	every.name = "Test-Sizes";
	of_one.providers = &every;
	of_one.provider_count = 1;
	cr_assert_eq(rp_listener_start(&of_one, NULL, NULL, &listener), 0);
	cr_assert_eq(sizes_mark(1), 0);
	cr_assert_eq(sizes_plain(), 0);
	expect_event(listener, &event);
	cr_assert_str_eq(event.name, "mark");
	expect_event(listener, &event);
	cr_assert_str_eq(event.name, "plain");
	every.flags = RP_SESSION_PROVIDER_EXACT;
	cr_assert_eq(rp_listener_set_providers(listener, &every, 1), 0);
	cr_assert_eq(sizes_mark(2), 0);
	cr_assert_eq(sizes_plain(), 0);
	expect_event(listener, &event);
	cr_assert_str_eq(event.name, "plain");
	stop_listening(listener);
}

Test(api_sizes, session_without_an_output_is_refused_and_writes_nothing_to_descriptor_0)
{
	struct rp_session_options of_one = RP_SESSION_OPTIONS_INIT;
	int fd = memfd_create("sizes", 0), before = dup(0);
	struct rp_session *session;

	of_one.providers = &all;
	of_one.provider_count = 1;
	cr_assert_eq(dup2(fd, 0), 0);
	cr_assert_eq(rp_session_start(&of_one, &session), -EINVAL);
	of_one.output_fd = -1;
	cr_assert_eq(rp_session_start(&of_one, &session), -EINVAL);
	cr_assert_eq(lseek(0, 0, SEEK_END), 0);
	if (before >= 0)
		cr_assert_eq(dup2(before, 0), 0);
	close(before);
	close(fd);
}
