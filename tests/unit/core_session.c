/* SPDX-License-Identifier: MIT */
/* Sessions: which are refused, how many may exist, and what they leave allocated. */
#include "core_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/session_pass.h"
#include "core/session_state.h"
#include "core/sink.h"

RP_PROVIDER(sessions, "Test-Sessions");
RP_EVENT(sessions, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U64(serial));

Test(core_session, forty_run_simultaneously_and_no_more, .timeout = 240)
{
	struct rp_listener *listeners[RP_SESSIONS_MAX], *another = NULL;
	struct rp_session_options options = options_for("Test-Sessions");
	struct rp_session_stats stats = empty_stats();
	struct rp_listener_event event;

	for (unsigned int i = 0; i < RP_SESSIONS_MAX; i++)
		listeners[i] = listen_to("Test-Sessions");
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &another), -ENOSPC);
	cr_assert_null(another);
	cr_assert_eq(sessions_mark(1), 0);
	cr_assert_eq(rp_listener_stop(listeners[17], &stats), 0);
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listeners[17]), 0);
	cr_assert_eq(sessions_mark(2), 0);
	for (unsigned int i = 0; i < RP_SESSIONS_MAX; i++) {
		for (uint64_t serial = i == 17 ? 2 : 1; serial <= 2; serial++) {
			expect_event(listeners[i], &event);
			cr_assert_eq(*(const uint64_t *)event.payload, serial);
		}
		expect_end(listeners[i]);
	}
	cr_assert_not(sessions_mark_enabled());
	free_options(&options);
}

static int try(const struct rp_session_options *options)
{
	struct rp_session *session = NULL;
	int ret = rp_session_start(options, &session);

	if (ret == 0)
		(void)rp_session_stop(session, NULL);
	else
		cr_assert_null(session, "the result was touched");
	return ret;
}

/* Return the result of a start that fails once its output is open. */
static int fail_with_output(const char *path)
{
	struct rp_session_options options = options_for("Test-Sessions");
	int ret;

	options.output_path = path;
	options.recover_path = "/proc/missing/recovery";
	ret = try(&options);
	free_options(&options);
	return ret;
}

Test(core_session, failed_start_leaves_no_new_file)
{
	char directory[] = "/tmp/rp-session-XXXXXX", path[64];
	struct stat before, after;
	int fd;

	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/trace", directory);
	cr_assert_eq(fail_with_output(path), -ENOENT);
	cr_assert_eq(access(path, F_OK), -1);
	/* An empty file that the program created keeps its owner and its mode. */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, &before), 0);
	close(fd);
	cr_assert_eq(fail_with_output(path), -ENOENT);
	cr_assert_eq(stat(path, &after), 0);
	cr_assert_eq(after.st_ino, before.st_ino);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rmdir(directory), 0);
}

/* Options of a later version of the headers, with a member that this library does not know. */
struct longer_options {
	struct rp_session_options known;
	uint64_t unknown;
};

struct longer_provider {
	struct rp_session_provider known;
	uint64_t unknown;
};

struct longer_filter {
	struct rp_event_filter known;
	uint64_t unknown;
};

Test(core_session, unknown_options_must_be_zero)
{
	struct longer_filter filter = { .known = { .size = sizeof(filter) } };
	struct longer_provider provider = { .known = {
		.size = sizeof(provider), .name = "Test-Sessions", .filter = &filter.known,
	} };
	struct longer_options longer = { .known = {
		.size = sizeof(longer), .providers = &provider.known, .provider_count = 1,
		.output_path = "/dev/null",
	} };

	cr_assert_eq(try(&longer.known), 0);
	longer.unknown = 1ull << 56;
	cr_assert_eq(try(&longer.known), -EINVAL);
	longer.unknown = 0;
	provider.unknown = 1;
	cr_assert_eq(try(&longer.known), -EINVAL);
	provider.unknown = 0;
	filter.unknown = 1;
	cr_assert_eq(try(&longer.known), -EINVAL);
	filter.unknown = 0;
	filter.known.size = sizeof(filter.known) - 1;
	cr_assert_eq(try(&longer.known), -EINVAL);
	filter.known.size = sizeof(filter.known);
	filter.known.id_count = 1;
	cr_assert_eq(try(&longer.known), -EINVAL, "a count of ids and none");
}

Test(core_session, each_of_several_longer_providers_is_found)
{
	struct longer_provider providers[2] = {
		{ .known = { .size = sizeof(providers[0]), .name = "Test-Others" } },
		{ .known = { .size = sizeof(providers[0]), .name = "Test-Sessions", .keywords = 1,
			     .level = RP_LEVEL_VERBOSE } },
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &providers[0].known, .provider_count = 2,
		.output_path = "/dev/null",
	};
	struct rp_session *session;

	cr_assert_eq(rp_session_start(&options, &session), 0);
	cr_assert(sessions_mark_enabled());
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	providers[1].unknown = 1;
	cr_assert_eq(try(&options), -EINVAL);
	providers[1].unknown = 0;
	providers[1].known.size = sizeof(providers[1].known);
	cr_assert_eq(try(&options), -EINVAL, "two sizes");
}

Test(core_session, reserved_bytes_must_be_zero)
{
	struct rp_event_filter filter = RP_EVENT_FILTER_INIT;
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Test-Sessions", .filter = &filter,
	};
	const struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.output_path = "/dev/null",
	};

	cr_assert_eq(try(&options), 0);
	provider.reserved[1] = 1;
	cr_assert_eq(try(&options), -EINVAL);
	provider.reserved[1] = 0;
	provider.flags = RP_SESSION_PROVIDER_EXACT << 1;
	cr_assert_eq(try(&options), -EINVAL);
	provider.flags = 0;
	filter.reserved[0] = 1;
	cr_assert_eq(try(&options), -EINVAL);
}

Test(core_session, wrong_options_are_refused)
{
	struct rp_session_provider provider = { .size = sizeof(provider), .name = "Test-Sessions" };
	const struct rp_session_options good = {
		.size = sizeof(good), .providers = &provider, .provider_count = 1,
		.output_path = "/dev/null",
	};
	struct rp_session_options options = good;

	cr_assert_eq(try(&good), 0);
	cr_assert_eq(rp_session_start(NULL, NULL), -EINVAL);
	cr_assert_eq(rp_session_start(&good, NULL), -EINVAL);
	options.size = RP_SESSION_OPTIONS_SIZE_V1 - 1;
	cr_assert_eq(try(&options), -EINVAL);
	options = good;
	options.provider_count = 0;
	cr_assert_eq(try(&options), -EINVAL);
	options.provider_count = 1001;
	cr_assert_eq(try(&options), -EINVAL);
	options = good;
	options.providers = NULL;
	cr_assert_eq(try(&options), -EINVAL);
	options = good;
	options.flags = 1u << 31;
	cr_assert_eq(try(&options), -EINVAL);
	options.flags = RP_SESSION_COARSE | RP_SESSION_CAUSAL;
	cr_assert_eq(try(&options), -EINVAL);
	options.flags = RP_SESSION_COARSE;
	cr_assert_eq(try(&options), 0);
	options.recover_path = "";
	cr_assert_eq(try(&options), -EINVAL);
	options.recover_path = NULL;
	options.roll_bytes = RP_SESSION_ROLL_MIN;
	cr_assert_eq(try(&options), -EINVAL);
	options = good;
	options.buffer_bytes = RP_SESSION_BUFFER_MIN - 1;
	cr_assert_eq(try(&options), -EINVAL);
	options.buffer_bytes = RP_SESSION_BUFFER_MIN;
	cr_assert_eq(try(&options), 0);
	options.buffer_bytes = SIZE_MAX;
	cr_assert_lt(try(&options), 0);
	options = good;
	options.output_path = NULL;
	options.output_fd = -1;
	cr_assert_eq(try(&options), -EINVAL);
	provider.level = 6;
	cr_assert_eq(try(&good), -EINVAL);
	cr_assert_eq(rp_session_stop(NULL, NULL), 0);
}

Test(core_session, wrong_names_are_refused)
{
	char longest[RP_NAME_MAX + 2];
	const char *const names[] = { NULL, "", longest, "\xff", "a\xe2\x82" };
	struct rp_session_provider provider = RP_SESSION_PROVIDER_INIT;
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.output_path = "/dev/null",
	};

	memset(longest, 'n', sizeof(longest));
	longest[RP_NAME_MAX + 1] = '\0';
	for (int i = 0; i < 5; i++) {
		provider.name = names[i];
		cr_assert_eq(try(&options), -EINVAL, "provider name %d", i);
	}
	provider.name = "Test-Sessions";
	for (int i = 1; i < 5; i++) {
		options.name = names[i];
		cr_assert_eq(try(&options), -EINVAL, "session name %d", i);
	}
	longest[RP_NAME_MAX] = '\0';
	provider.name = longest;
	options.name = longest;
	cr_assert_eq(try(&options), 0);
}

/* Resources that the process holds. */
struct held {
	unsigned int descriptors, shared;
	uint64_t bytes;
};

static struct held look(void)
{
	struct held held = { 0, 0, 0 };
	FILE *maps = fopen("/proc/self/maps", "r");
	DIR *fds = opendir("/proc/self/fd");
	uint64_t from, to;
	char line[512];

	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		cr_assert_eq(sscanf(line, "%lx-%lx", &from, &to), 2);
		held.bytes += to - from;
		held.shared += strstr(line, "/dev/zero") || strstr(line, "memfd:ringpipe");
	}
	fclose(maps);
	cr_assert_not_null(fds);
	while (readdir(fds))
		held.descriptors++;
	closedir(fds);
	return held;
}

static void *write_one(void *data)
{
	(void)data;
	(void)sessions_mark(1);
	return NULL;
}

static struct rp_session *run_session(void)
{
	struct rp_session_options options = options_for("*");
	struct rp_session *session;
	pthread_t thread;

	options.buffer_bytes = 64 << 20;
	options.output_path = "/dev/null";
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	cr_assert_eq(pthread_create(&thread, NULL, write_one, NULL), 0);
	pthread_join(thread, NULL);
	return session;
}

Test(core_session, stop_gives_everything_back, .timeout = 240)
{
	struct rp_session_stats stats = empty_stats();
	struct held before, during, after;
	struct rp_session *session;

	/*
	 * The drain thread and its heap stay, and so does the address range of the rings, without
	 * memory; the first session creates them.
	 */
	cr_assert_eq(rp_session_stop(run_session(), NULL), 0);
	cr_assert_eq(rp_session_stop(run_session(), NULL), 0);
	before = look();
	cr_assert_eq(before.shared, 0u);
	session = run_session();
	during = look();
	cr_assert_gt(during.shared, 0u);
	cr_assert_gt(during.descriptors, before.descriptors);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered, 1u);
	cr_assert_eq(stats.memory_bytes, 0u);
	for (int i = 0; i < 50; i++)
		cr_assert_eq(rp_session_stop(run_session(), NULL), 0);
	/* Another thread of the process may open a file for a moment. */
	wait_until((after = look()).descriptors <= before.descriptors);
	cr_assert_eq(after.shared, 0u);
	/* Half of what one of the 50 sessions had; a checked heap keeps some memory. */
	cr_assert_leq(after.bytes, before.bytes + (32u << 20), "%lu bytes more",
		      after.bytes - before.bytes);
}

Test(core_session, rings_stay_below_the_ceiling)
{
	struct rp_session_options options = options_for("Test-Sessions");
	struct rp_session_stats stats = empty_stats();
	struct rp_listener *listener;

	options.buffer_bytes = 3 << 20;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), 0);
	free_options(&options);
	for (int i = 0; i < 1000; i++)
		(void)sessions_mark(1);
	wait_until(rp_listener_get_stats(listener, &stats) == 0 && stats.rings > 0);
	/* The listener's own chunks are a megabyte. */
	cr_assert_leq(stats.memory_bytes, (3u << 20) + (2u << 20));
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
}

Test(core_session, stats_count_while_the_session_runs)
{
	struct rp_session *session = run_session();
	struct rp_session_stats stats;

	cr_assert_eq(rp_session_get_stats(NULL, &stats), -EINVAL);
	stats = empty_stats();
	wait_until(rp_session_get_stats(session, &stats) == 0 && stats.delivered == 1);
	cr_assert_gt(stats.bytes, 0u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

/* Rows of the listing about one provider. */
struct rows {
	unsigned int count;
	struct rp_enabled rows[4];
	char names[4][64], filters[4][64];
};

static int add_row(const struct rp_enabled *enabled, void *data)
{
	struct rows *rows = data;

	if (strcmp(enabled->provider, "Test-Sessions") != 0)
		return 0;
	cr_assert_lt(rows->count, 4u);
	cr_assert_eq(enabled->size, sizeof(*enabled));
	rows->rows[rows->count] = *enabled;
	strcpy(rows->names[rows->count], enabled->session_name ? enabled->session_name : "-");
	strcpy(rows->filters[rows->count], enabled->filter_data ? enabled->filter_data : "-");
	rows->count++;
	return 0;
}

static int refuse_row(const struct rp_enabled *enabled, void *data)
{
	(void)enabled;
	++*(unsigned int *)data;
	return -ECANCELED;
}

Test(core_session, listing_names_the_session_of_each_provider)
{
	struct rp_session_options options = options_for("Test-Sessions:2:4:k=v");
	struct rows none = { .count = 0 }, two = { .count = 0 };
	struct rp_listener *first, *second;
	unsigned int calls = 0;

	cr_assert_eq(rp_enabled_list(add_row, &none), 0);
	cr_assert_eq(none.count, 1u);
	cr_assert_eq(none.rows[0].session_id, 0u);
	cr_assert_eq(none.rows[0].event_count, 0u);

	first = listen_to("*:ff:5");
	options.name = "the second";
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &second), 0);
	free_options(&options);
	cr_assert_eq(rp_enabled_list(add_row, &two), 0);
	cr_assert_eq(two.count, 2u);
	cr_assert_str_eq(two.names[0], "session");
	cr_assert_eq(two.rows[0].keywords, 0xffu);
	cr_assert_eq(two.rows[0].level, 5);
	cr_assert_eq(two.rows[0].event_count, 1u);
	cr_assert_str_eq(two.filters[0], "-");
	cr_assert_str_eq(two.names[1], "the second");
	cr_assert_eq(two.rows[1].keywords, 2u);
	cr_assert_eq(two.rows[1].level, 4);
	cr_assert_eq(two.rows[1].event_count, 0u, "its keywords are others");
	cr_assert_str_eq(two.filters[1], "k=v");
	cr_assert_neq(two.rows[0].session_id, 0u);
	cr_assert_neq(two.rows[1].session_id, two.rows[0].session_id);
	cr_assert_eq(rp_enabled_list(refuse_row, &calls), -ECANCELED);
	cr_assert_eq(calls, 1u);
	expect_end(first);
	expect_end(second);
}

#define HOUR_NS 3600000000000u

/* The process did not run for an hour between two checks, and neither did its peer perhaps. */
Test(core_session, time_in_which_the_process_is_stopped_is_not_waited)
{
	struct rp_sink sink = { .fd = -1 };
	struct rp_session session = { .sink = &sink };
	unsigned int checks = 1;

	session.finish.checked_ns = rp_clock_monotonic_ns() - HOUR_NS;
	session.finish.idle_ns = RP_FINISH_NS - 1;
	cr_assert(rp_session_may_wait(&session));
	cr_assert_eq(session.finish.idle_ns, 0u);
	for (; checks < 100; checks++) {
		session.finish.checked_ns -= HOUR_NS;
		if (!rp_session_may_wait(&session))
			break;
	}
	cr_assert_lt(checks, 100u, "a process that seldom runs waits for ever");
}
