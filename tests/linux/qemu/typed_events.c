/* SPDX-License-Identifier: MIT */
/* With RINGPIPE_USER_EVENTS each event has a separate tracepoint with its fields. */
#include "user_events.h"

#include <dlfcn.h>

#include "../attached_component.h"

static void event_has_a_tracepoint_with_its_fields(void)
{
	static const char *const lines[] = {
		"field:u64 serial;\toffset:8;\tsize:8;",
		"field:__data_loc char[] text;\toffset:16;\tsize:4;",
		"field:struct double value;\toffset:20;\tsize:8;", "field:u8 flag;\toffset:28;",
	};
	char text[4096];
	int fd;
	ssize_t n;

	fd = open(EVENTS "Guest_Events_mark/format", O_RDONLY | O_CLOEXEC);
	check(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	check(n > 0);
	text[n] = 0;
	close(fd);
	for (int i = 0; i < 4; i++) {
		if (!strstr(text, lines[i]))
			printf("# no %s in %s\n", lines[i], text);
		check(strstr(text, lines[i]));
	}
	check(has_tracepoint("Guest_Events_other") && has_tracepoint("Guest_Events_blob"));
}

static void typed_values_are_what_was_written(void)
{
	struct perf perf = perf_open("Guest_Events_mark");
	uint8_t fields[BYTES_MAX];
	double value = -1.5;
	size_t size;

	check(guest_mark_enabled() && !guest_other_enabled());
	for (uint64_t serial = 0; serial < 1000; serial++)
		check(guest_mark(serial, serial & 1 ? "odd" : "", value, serial & 1) == 0);
	for (uint64_t serial = 0; serial < 1000; serial++) {
		const char *text = serial & 1 ? "odd" : "";

		wait_until((size = perf_next(&perf, fields, BYTES_MAX)) > 0);
		check(memcmp(fields, &serial, 8) == 0);
		/* After the kernel's eight bytes and the fixed fields. */
		check(u32_at(fields + 8) == ((uint32_t)(strlen(text) + 1) << 16 | (8 + 21)));
		check(memcmp(fields + 12, &value, 8) == 0 && fields[20] == (serial & 1));
		check(memcmp(fields + 21, text, strlen(text) + 1) == 0);
	}
	check(perf_next(&perf, fields, sizeof(fields)) == 0);
	perf_close(&perf);
	check(guest_mark_event_.enable == 0);
}

static unsigned int trace_lines(const char *first, const char *second)
{
	FILE *trace = fopen(TRACING "/trace", "re");
	unsigned int lines = 0;
	char line[4096];

	check(trace);
	while (fgets(line, sizeof(line), trace))
		lines += strstr(line, first) && strstr(line, second);
	fclose(trace);
	return lines;
}

static uint64_t monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The time in the event's first line, which ftrace rounds. */
static uint64_t traced_us(const char *event)
{
	FILE *trace = fopen(TRACING "/trace", "re");
	unsigned long long seconds, microseconds;
	char line[4096];

	check(trace);
	while (fgets(line, sizeof(line), trace)) {
		char *at = strstr(line, event);

		if (!at)
			continue;
		while (at > line && at[-1] != ' ')
			at--;
		check(sscanf(at, "%llu.%llu:", &seconds, &microseconds) == 2);
		fclose(trace);
		return seconds * 1000000 + microseconds;
	}
	check(!"the event is in the trace");
	return 0;
}

static void ftrace_has_the_clock_of_a_nettrace_file_where_it_is_asked_to(void)
{
	uint64_t before, after, traced;

	put_file(TRACING "/trace_clock", "mono");
	clear_trace();
	switch_tracepoint("Guest_Events_mark", true);
	before = monotonic_us();
	guest_mark(1, "now", 0, 0);
	after = monotonic_us();
	switch_tracepoint("Guest_Events_mark", false);
	traced = traced_us(": Guest_Events_mark: ");
	if (traced < before || traced > after + 1)
		printf("# %llu, not %llu to %llu\n", (unsigned long long)traced,
		       (unsigned long long)before, (unsigned long long)after);
	check(traced >= before && traced <= after + 1);
	put_file(TRACING "/trace_clock", "local");
}

static void child_goes_on_with_typed_events(void)
{
	pid_t child;

	clear_trace();
	switch_tracepoint("Guest_Events_mark", true);
	child = fork();
	if (child == 0) {
		check(guest_mark_enabled());
		for (uint64_t i = 0; i < 10; i++)
			guest_mark(i, "of the child", 0, 0);
		switch_tracepoint("Guest_Events_mark", false);
		check(guest_mark_event_.enable == 0);
		switch_tracepoint("Guest_Events_other", true);
		check(guest_other_enabled());
		switch_tracepoint("Guest_Events_other", false);
		_exit(0);
	}
	expect_child(child);
	check(!guest_mark_enabled());
	check(trace_lines(" Guest_Events_mark: ", "of the child") == 10);
	check(trace_lines("serial=0x9 (9) text=of the child", "") == 1);
}

static void library_comes_again_to_its_tracepoint(void)
{
	for (uint64_t i = 0; i < 3; i++) {
		void *plugin = dlopen(plugin_path, RTLD_NOW);
		int (*call)(uint64_t serial);
		uint8_t fields[BYTES_MAX];
		struct perf perf;

		check(plugin);
		*(void **)&call = dlsym(plugin, "plugin_call");
		check(call && call(0) == 0);
		perf = perf_open("Plugin_Events_called");
		check(call(i) == 1);
		wait_until(perf_next(&perf, fields, BYTES_MAX) > 0);
		check(fields[0] == i);
		dlclose(plugin);
		/* The kernel now changes only the enable words of the other events. */
		perf_close(&perf);
	}
	check(!kernel_complained());
}

static void clients_have_sessions_at_the_same_time(void)
{
	int session = start_all("beside");
	struct perf perf = perf_open("beside"), typed = perf_open("Guest_Events_mark");
	uint8_t fields[BYTES_MAX];
	struct record record;

	check(__builtin_popcountll(guest_mark_event_.enable) == 2);
	guest_mark(5, "twice", 0, 0);
	record = next_record(&perf, fields);
	expect_mark(&record, 5, "twice", 0, 0);
	wait_until(perf_next(&typed, fields, BYTES_MAX) > 0);
	check(fields[0] == 5);
	perf_close(&perf);
	perf_close(&typed);
	end(session, "beside");
}

static struct rp_event *make_twin(struct rp_provider *provider, uint32_t id, const char *field)
{
	const struct rp_field fields[] = { { .name = field, .type = RP_TYPE_U32 } };
	const struct rp_event_decl decl = { .size = sizeof(decl), .id = id, .name = "same",
					    .fields = fields, .field_count = 1 };
	struct rp_event *event;

	check(rp_event_create(provider, &decl, &event) == 0);
	return event;
}

static void events_of_one_name_share_a_tracepoint_where_their_fields_are_the_same(void)
{
	struct rp_provider *provider;
	struct rp_event *first, *second, *other;

	check(rp_provider_create("Guest-Twins", NULL, NULL, &provider) == 0);
	first = make_twin(provider, 1, "number");
	second = make_twin(provider, 2, "number");
	other = make_twin(provider, 3, "another");
	switch_tracepoint("Guest_Twins_same", true);
	check(rp_event_enabled(first) && rp_event_enabled(second) && !rp_event_enabled(other));
	switch_tracepoint("Guest_Twins_same", false);
	check(!rp_event_enabled(first) && !rp_event_enabled(second));
	check(rp_provider_destroy(provider) == 0);
}

static void component_follows_the_tracepoints_of_single_events(void)
{
	check(component_attach(guest_provider()) == 0);
	check(component_words_are(0, 0));
	switch_tracepoint("Guest_Events_mark", true);
	wait_until(component_words_are(0x1, 0x1f));
	switch_tracepoint("Guest_Events_other", true);
	wait_until(component_words_are(0x3, 0x3f));
	switch_tracepoint("Guest_Events_mark", false);
	switch_tracepoint("Guest_Events_other", false);
	wait_until(component_words_are(0, 0));
}

const struct test typed_tests[] = {
	TEST(event_has_a_tracepoint_with_its_fields),
	TEST(typed_values_are_what_was_written),
	TEST(ftrace_has_the_clock_of_a_nettrace_file_where_it_is_asked_to),
	TEST(child_goes_on_with_typed_events),
	TEST(library_comes_again_to_its_tracepoint),
	TEST(clients_have_sessions_at_the_same_time),
	TEST(events_of_one_name_share_a_tracepoint_where_their_fields_are_the_same),
	TEST(component_follows_the_tracepoints_of_single_events),
	TEST(file_listener_and_tracepoints_hold_the_same),
};

const size_t typed_test_count = COUNT(typed_tests);
