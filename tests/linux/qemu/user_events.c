/* SPDX-License-Identifier: MIT */
/*
 * Sessions whose events go to the kernel's user_events, in a machine with such a kernel. One
 * process is the client of the diagnostics socket, the traced process and the reader of the
 * tracepoints.
 *
 * usage: user_events PLUGIN LIBRARY…
 */
#include "user_events.h"

#include <dlfcn.h>
#include <pthread.h>

#include "../attached_component.h"

const char *plugin_path;

#define SESSIONS_MAX 4
#define EVENTS_AT_ONCE 500
#define EVENTS_IN_ALL 20000

static uint64_t exporter_bits(const struct rp_event *event)
{
	return __atomic_load_n(&event->enable, __ATOMIC_RELAXED) >> 40 & 0xff;
}

/* Counts the events that the kernel enabled. */
static int on_row(const struct rp_enabled *enabled, void *data)
{
	if (enabled->session_name && strcmp(enabled->session_name, "user_events") == 0)
		*(uint32_t *)data += enabled->event_count;
	return 0;
}

static void bit_follows_the_tracepoint(void)
{
	int session = start_all("bit_follows");
	uint32_t rows;
	uint64_t bits;

	check(!guest_mark_enabled() && !guest_other_enabled());
	check(guest_mark(1, "nobody listens", 0, 0) == 0);
	for (int i = 0; i < 3; i++) {
		switch_tracepoint("bit_follows", true);
		bits = exporter_bits(&guest_mark_event_);
		check(bits && (bits & (bits - 1)) == 0);
		check(guest_mark_event_.enable == bits << 40);
		check(exporter_bits(&guest_other_event_) == bits);
		rows = 0;
		check(rp_enabled_list(on_row, &rows) == 0 && rows == 3);
		switch_tracepoint("bit_follows", false);
		check(guest_mark_event_.enable == 0 && guest_other_event_.enable == 0);
	}
	end(session, "bit_follows");
}

static void perf_reads_what_was_written(void)
{
	static const char *const names[] = { "serial", "text", "value", "flag" };
	static const uint8_t types[] = { 12, 18, 14, 3 };
	int session = start_all("perf_reads");
	struct perf perf = perf_open("perf_reads");
	uint8_t fields[BYTES_MAX];
	struct record record;
	const uint8_t *at;

	check(guest_mark_enabled());
	check(guest_mark(0x0123456789abcdefull, "hello", -1.5, 1) == 0);
	record = next_record(&perf, fields);
	expect_mark(&record, 0x0123456789abcdefull, "hello", -1.5, 1);
	check(!record.activity && !record.related);
	at = expect_text(record.metadata, "Guest-Events");
	check(u32_at(at) == 1);
	at = expect_text(at + 4, "mark");
	check(u32_at(at) == 1 && u32_at(at + 4) == 0);			/* keywords */
	check(u32_at(at + 8) == 0 && u32_at(at + 12) == 4);		/* version, level */
	check(u32_at(at + 16) == 4);
	at += 20;
	for (int i = 0; i < 4; i++) {
		check(u32_at(at) == types[i]);
		at = expect_text(at + 4, names[i]);
	}
	check(at == record.metadata + record.metadata_bytes);
	perf_close(&perf);
	check(!guest_mark_enabled());
	end(session, "perf_reads");
}

static void activity_ids_go_along(void)
{
	const struct rp_activity activity = {
		.id = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
		.related = { { 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 } },
	};
	/* The first three groups of a GUID are little-endian numbers. */
	static const uint8_t id[] = { 4, 3, 2, 1, 6, 5, 8, 7, 9, 10, 11, 12, 13, 14, 15, 16 };
	int session = start_all("activity");
	struct perf perf = perf_open("activity");
	struct rp_activity before;
	uint8_t fields[BYTES_MAX];
	struct record record;

	rp_activity_get(&before);
	rp_activity_set(&activity);
	guest_mark(1, "", 0, 0);
	rp_activity_set(&before);
	record = next_record(&perf, fields);
	expect_mark(&record, 1, "", 0, 0);
	check(record.activity && memcmp(record.activity, id, 16) == 0);
	check(record.related && record.related[0] == 20 && record.related[15] == 32);
	perf_close(&perf);
	end(session, "activity");
}

static void thousands_arrive_in_order(void)
{
	int session = start_all("thousands");
	struct perf perf = perf_open("thousands");
	uint8_t fields[BYTES_MAX];

	for (uint64_t serial = 0; serial < EVENTS_IN_ALL;) {
		uint64_t first = serial;

		for (; serial < first + EVENTS_AT_ONCE; serial++)
			check(guest_mark(serial, "serial", (double)serial, serial & 1) == 0);
		for (uint64_t i = first; i < serial; i++) {
			struct record record = next_record(&perf, fields);

			expect_mark(&record, i, "serial", (double)i, i & 1);
		}
	}
	check(perf_next(&perf, fields, sizeof(fields)) == 0);
	perf_close(&perf);
	end(session, "thousands");
}

static void ftrace_counts_the_same(void)
{
	int session = start_all("ftrace_counts");
	unsigned int lines = 0;
	char line[4096];
	FILE *trace;

	clear_trace();
	switch_tracepoint("ftrace_counts", true);
	for (uint64_t i = 0; i < 100; i++)
		guest_mark(i, "a line of the trace", 0, 0);
	switch_tracepoint("ftrace_counts", false);
	trace = fopen(TRACING "/trace", "re");
	check(trace);
	while (fgets(line, sizeof(line), trace))
		lines += strstr(line, " ftrace_counts: ") != NULL;
	fclose(trace);
	check(lines == 100);
	end(session, "ftrace_counts");
}

static void wishes_are_kept(void)
{
	static const struct {
		struct wish wish;
		bool mark, other, blob;
	} rows[] = {
		{ { .provider = "Guest-Events", .keywords = 2, .level = 5 }, false, true, false },
		{ { .provider = "Guest-Events", .keywords = 3, .level = 4 }, true, false, true },
		{ { .provider = "Guest-Events", .keywords = 3, .level = 5, .without = 3 }, true,
		  true, false },
		{ { .provider = "*", .keywords = 3, .level = 5 }, true, true, true },
		{ { .provider = "Guest-Event", .keywords = 3, .level = 5 }, false, false, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct wish wish = rows[i].wish;
		int session;

		wish.tracepoint = "wishes";
		session = start(&wish);
		switch_tracepoint("wishes", true);
		check(!!guest_mark_enabled() == rows[i].mark);
		check(!!guest_other_enabled() == rows[i].other);
		check(!!guest_blob_enabled() == rows[i].blob);
		switch_tracepoint("wishes", false);
		end(session, "wishes");
	}
}

static void sets_have_tracepoints_of_their_own(void)
{
	const struct wish wish = { .provider = "Guest-Events", .keywords = 3, .level = 5,
				   .tracepoint = "sets_rest", .set = "sets_two", .set_id = 2 };
	int session = start(&wish);
	struct perf perf;
	uint8_t fields[BYTES_MAX];
	struct record record;

	check(has_tracepoint("sets_rest"));
	perf = perf_open("sets_two");
	check(guest_other_enabled() && !guest_mark_enabled());
	guest_mark(1, "not this", 0, 0);
	guest_other(7);
	record = next_record(&perf, fields);
	check(record.id == 2 && record.payload_bytes == 8 && record.payload[0] == 7);
	check(perf_next(&perf, fields, sizeof(fields)) == 0);
	perf_close(&perf);
	end(session, "sets_two");
	wait_until(!has_tracepoint("sets_rest"));
}

static void expect_refusal(const struct wish *wishes, uint32_t count, int passed, uint32_t expected)
{
	uint32_t hresult;
	uint64_t id;
	int fd = ask(wishes, count, passed, &hresult, &id);

	if (hresult != expected)
		printf("# 0x%x, not 0x%x\n", hresult, expected);
	check(hresult == expected);
	close(fd);
}

static void what_cannot_be_is_refused(void)
{
	const struct wish good = { .provider = "Guest-Events", .keywords = 3, .level = 5,
				   .tracepoint = "refused" };
	struct wish row = good;
	char long_name[600];
	int file = events_file(), null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int status = open(TRACING "/user_events_status", O_RDONLY | O_CLOEXEC);

	expect_refusal(&good, 1, -1, BAD_ENCODING);
	expect_refusal(&good, 1, null, NOT_SUPPORTED);
	expect_refusal(&good, 1, status, NOT_SUPPORTED);
	row.tracepoint = NULL;
	expect_refusal(&row, 1, file, INVALID_ARGUMENT);
	row.tracepoint = "two words";
	expect_refusal(&row, 1, file, INVALID_ARGUMENT);
	row.tracepoint = "path/name";
	expect_refusal(&row, 1, file, INVALID_ARGUMENT);
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	row.tracepoint = long_name;
	expect_refusal(&row, 1, file, INVALID_ARGUMENT);
	row = good;
	row.set = "refused_set";
	row.set_id = row.set_id_again = 1;
	expect_refusal(&row, 1, file, INVALID_ARGUMENT);
	row = good;
	row.level = 6;
	expect_refusal(&row, 1, file, INVALID_ARGUMENT);
	check(!has_tracepoint("refused"));
	check(!guest_mark_enabled());
	close(file);
	close(null);
	close(status);
}

static void name_of_another_format_is_refused(void)
{
	const struct wish wish = { .provider = "Guest-Events", .keywords = 3, .level = 5,
				   .tracepoint = "taken" };
	int file = events_file();

	put_file(TRACING "/dynamic_events", "u:taken u32 other");
	expect_refusal(&wish, 1, file, FAIL);
	put_file(TRACING "/dynamic_events", "-:user_events/taken u32 other");
	close(file);
	end(start(&wish), "taken");
}

static void as_many_sessions_as_bits(void)
{
	struct wish wish = { .provider = "Guest-Events", .keywords = 3, .level = 5 };
	int sessions[SESSIONS_MAX], file = events_file();
	char name[32];

	wish.tracepoint = name;
	for (int i = 0; i < SESSIONS_MAX; i++) {
		snprintf(name, sizeof(name), "many_%d", i);
		sessions[i] = start(&wish);
		switch_tracepoint(name, true);
	}
	check(__builtin_popcountll(guest_mark_event_.enable) == SESSIONS_MAX);
	snprintf(name, sizeof(name), "many_more");
	expect_refusal(&wish, 1, file, FAIL);
	for (int i = 0; i < SESSIONS_MAX; i++) {
		snprintf(name, sizeof(name), "many_%d", i);
		switch_tracepoint(name, false);
		end(sessions[i], name);
	}
	check(guest_mark_event_.enable == 0);
	close(file);
}

static void stop_tracing_ends_a_session(void)
{
	const struct wish wish = { .provider = "Guest-Events", .keywords = 3, .level = 5,
				   .tracepoint = "stopped" };
	int file = events_file(), session, stop;
	struct message message;
	uint64_t id, stopped;
	uint32_t hresult;

	session = ask(&wish, 1, file, &hresult, &id);
	check(hresult == OK);
	close(file);
	switch_tracepoint("stopped", true);
	check(guest_mark_enabled());
	begin_message(&message, 0x02, 0x01);
	put_u64(&message, id);
	stop = send_to(getpid(), &message, -1);
	check(reply_of(stop, &stopped, sizeof(stopped)) == OK && stopped == id);
	check(!guest_mark_enabled());
	close(stop);
	check(read(session, &id, sizeof(id)) == 0);
	close(session);
	/* The kernel does not remove an enabled tracepoint. */
	switch_tracepoint("stopped", false);
	wait_until(!has_tracepoint("stopped"));
}

/* The session's own stats: delivered, lost, and lost as too big. */
static void read_stats(uint64_t id, uint64_t *ret_delivered, uint64_t *ret_lost,
		       uint64_t *ret_too_big)
{
	struct message message;
	uint8_t payload[28 + 8 * RP_LOSS_REASON_COUNT + 4];
	int fd;

	begin_message(&message, 0x52, 0x01);
	put_u64(&message, id);
	fd = send_to(getpid(), &message, -1);
	check(reply_of(fd, payload, sizeof(payload)) == OK);
	memcpy(ret_delivered, payload, 8);
	memcpy(ret_lost, payload + 8, 8);
	memcpy(ret_too_big, payload + 28 + 8 * RP_LOSS_TOO_BIG, 8);
	close(fd);
}

static int add_lost(const struct rp_enabled *enabled, void *data)
{
	*(uint64_t *)data += enabled->lost;
	return 0;
}

static void what_is_too_long_is_counted(void)
{
	static const uint8_t bytes[70000];
	const struct wish wish = { .provider = "Guest-Events", .keywords = 3, .level = 5,
				   .tracepoint = "too_long" };
	uint64_t id, delivered, lost, too_big, listed = 0;
	int file = events_file(), session;
	uint8_t fields[BYTES_MAX];
	struct record record;
	uint32_t hresult;
	struct perf perf;

	session = ask(&wish, 1, file, &hresult, &id);
	check(hresult == OK);
	close(file);
	perf = perf_open("too_long");
	guest_blob(bytes, 7000);
	guest_blob(bytes, 9000);
	guest_blob(bytes, 65000);
	guest_blob(bytes, sizeof(bytes));
	guest_blob(bytes, 1);
	record = next_record(&perf, fields);
	check(record.payload_bytes == 7002);
	record = next_record(&perf, fields);
	check(record.payload_bytes == 3);
	check(perf_next(&perf, fields, sizeof(fields)) == 0);
	read_stats(id, &delivered, &lost, &too_big);
	check(delivered == 2 && lost == 3 && too_big == 3);
	check(rp_enabled_list(add_lost, &listed) == 0 && listed == 3);
	perf_close(&perf);
	end(session, "too_long");
}

static void libraries_come_and_go(void)
{
	const struct wish wish = { .provider = "*", .keywords = UINT64_MAX, .level = 5,
				   .tracepoint = "come_and_go" };
	int session = start(&wish);
	struct perf perf = perf_open("come_and_go");
	uint8_t fields[BYTES_MAX];

	for (uint64_t i = 0; i < 5; i++) {
		void *plugin = dlopen(plugin_path, RTLD_NOW);
		int (*call)(uint64_t serial);
		struct record record;

		check(plugin);
		*(void **)&call = dlsym(plugin, "plugin_call");
		check(call && call(i) == 1);
		record = next_record(&perf, fields);
		check(record.payload_bytes == 8 && record.payload[0] == i);
		dlclose(plugin);
		check(!dlopen(plugin_path, RTLD_NOW | RTLD_NOLOAD));
		/* The kernel now changes the bits of all existing words. */
		perf_close(&perf);
		check(!guest_mark_enabled());
		perf = perf_open("come_and_go");
		check(guest_mark_enabled());
	}
	perf_close(&perf);
	end(session, "come_and_go");
	check(!kernel_complained());
}

static void child_begins_without_the_session(void)
{
	int session = start_all("forked");
	struct perf perf = perf_open("forked");
	uint8_t fields[BYTES_MAX];
	struct record record;
	pid_t child;

	child = fork();
	if (child == 0) {
		check(guest_mark_event_.enable == 0);
		check(guest_mark(1, "a child's", 0, 0) == 0);
		/* The child's own session. */
		end(start_all("forked_child"), "forked_child");
		switch_tracepoint("forked", true);
		switch_tracepoint("forked", false);
		check(guest_mark_event_.enable == 0);
		_exit(0);
	}
	expect_child(child);
	check(guest_mark_enabled());
	check(guest_mark(2, "the parent's", 0, 0) == 0);
	record = next_record(&perf, fields);
	expect_mark(&record, 2, "the parent's", 0, 0);
	check(perf_next(&perf, fields, sizeof(fields)) == 0);
	perf_close(&perf);
	end(session, "forked");
}

static void host_that_closes_descriptors_ends_sessions(void)
{
	int session = start_all("closed"), kept;
	char byte;

	switch_tracepoint("closed", true);
	check(guest_mark_enabled());
	kept = fcntl(session, F_DUPFD_CLOEXEC, 200);
	check(kept >= 200);
	for (int fd = 3; fd < 200; fd++)
		close(fd);
	check(guest_mark(1, "to nowhere", 0, 0) == 0);
	check(read(kept, &byte, 1) == 0);
	wait_until(!guest_mark_enabled());
	close(kept);
	switch_tracepoint("closed", false);
	wait_until(!has_tracepoint("closed"));
	/* The server continues on other descriptors. */
	end(start_all("closed"), "closed");
}

static bool writing;

static void *write_on(void *data)
{
	uint64_t serial = 0;

	while (__atomic_load_n(&writing, __ATOMIC_RELAXED))
		guest_mark(serial++, "writing on", 0, 0);
	return data;
}

static void sessions_end_under_writers(void)
{
	pthread_t threads[3];

	writing = true;
	for (int i = 0; i < 3; i++)
		check(pthread_create(&threads[i], NULL, write_on, NULL) == 0);
	for (int i = 0; i < 30; i++) {
		int session = start_all("under_writers");

		switch_tracepoint("under_writers", true);
		poll(NULL, 0, 1);
		switch_tracepoint("under_writers", i & 1);
		close(session);
		wait_until(!guest_mark_enabled());
		if (i & 1)
			switch_tracepoint("under_writers", false);
		wait_until(!has_tracepoint("under_writers"));
	}
	__atomic_store_n(&writing, false, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static uint32_t reported_on, reported_off;

static void on_change(struct rp_provider *provider, const struct rp_provider_state *state,
		      void *data)
{
	(void)provider;
	(void)data;
	__atomic_fetch_add(state->enabled ? &reported_on : &reported_off, 1, __ATOMIC_RELAXED);
}

static void callbacks_receive_the_kernels_switch(void)
{
	int session = start_all("callbacks");

	check(rp_provider_set_callback(guest_provider(), on_change, NULL) == 0);
	switch_tracepoint("callbacks", true);
	wait_until(__atomic_load_n(&reported_on, __ATOMIC_RELAXED) == 1);
	switch_tracepoint("callbacks", false);
	wait_until(__atomic_load_n(&reported_off, __ATOMIC_RELAXED) == 1);
	end(session, "callbacks");
}

static void component_follows_the_kernels_switch(void)
{
	int session = start_all("component");

	check(component_attach(guest_provider()) == 0);
	check(component_words_are(0, 0));
	switch_tracepoint("component", true);
	/* The keywords of mark and other, and the levels up to that of other. */
	wait_until(component_words_are(0x3, 0x3f));
	switch_tracepoint("component", false);
	wait_until(component_words_are(0, 0));
	end(session, "component");
}

static const struct test session_tests[] = {
	TEST(bit_follows_the_tracepoint),
	TEST(perf_reads_what_was_written),
	TEST(activity_ids_go_along),
	TEST(thousands_arrive_in_order),
	TEST(ftrace_counts_the_same),
	TEST(wishes_are_kept),
	TEST(sets_have_tracepoints_of_their_own),
	TEST(what_cannot_be_is_refused),
	TEST(name_of_another_format_is_refused),
	TEST(as_many_sessions_as_bits),
	TEST(stop_tracing_ends_a_session),
	TEST(what_is_too_long_is_counted),
	TEST(libraries_come_and_go),
	TEST(libraries_come_and_go_while_sessions_start_and_end),
	TEST(child_begins_without_the_session),
	TEST(host_that_closes_descriptors_ends_sessions),
	TEST(sessions_end_under_writers),
	TEST(callbacks_receive_the_kernels_switch),
	TEST(component_follows_the_kernels_switch),
};

/* Return: the number of failures. */
static unsigned int run_tests(const struct test *tests, size_t count, unsigned int number)
{
	unsigned int failed = 0;

	for (size_t i = 0; i < count; i++) {
		pid_t child = fork();
		int status = 0;

		/* Each test runs in a separate process, so that a failure has no later effect. */
		if (child == 0) {
			tests[i].run();
			exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
			printf("# wait status 0x%x\nnot ", (unsigned int)status);
			failed++;
		}
		printf("ok %u - %s\n", number++, tests[i].name);
	}
	return failed;
}

int main(int argc, char **argv)
{
	unsigned int failed;

	plugin_path = argc > 1 ? argv[1] : "";
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("RINGPIPE_USER_EVENTS")) {
		failed = (unsigned int)atoi(argv[2]);
		failed += run_tests(typed_tests, typed_test_count, COUNT(session_tests) + 1);
		return failed != 0;
	}
	loading_set_libraries((const char *const *)argv + 2, argc > 2 ? (unsigned int)argc - 2 : 0);
	printf("TAP version 13\n1..%zu\n", COUNT(session_tests) + typed_test_count);
	failed = run_tests(session_tests, COUNT(session_tests), 1);
	setenv("RINGPIPE_USER_EVENTS", "1", 1);
	execl("/proc/self/exe", argv[0], plugin_path, failed ? "1" : "0", NULL);
	return 1;
}
