/* SPDX-License-Identifier: MIT */
/* Sessions that write successive files: no event is lost or duplicated between them. */
#include "../in_valgrind.h"
#include "core_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ringpipe/reader.h>

RP_PROVIDER(roll, "Test-Roll");
RP_EVENT(roll, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(bytes));

#define BLOB_BYTES 400u
#define FILES_MAX 64u
#define MB (1u << 20)

static char directory[] = "/tmp/rp-roll-XXXXXX";
static char path[64];
static const uint8_t blob[BLOB_BYTES];
static uint64_t serial;

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/trace.nettrace", directory);
}

/* The existing files, oldest first: their numbers have the same number of digits. */
struct files {
	char names[FILES_MAX][300];
	unsigned int count;
	uint64_t bytes;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static struct files list_files(void)
{
	DIR *list = opendir(directory);
	struct files files = { .count = 0 };
	struct dirent *entry;
	struct stat stat;

	while (list && (entry = readdir(list)) != NULL) {
		if (strncmp(entry->d_name, "trace.", 6) != 0)
			continue;
		cr_assert_lt(files.count, FILES_MAX);
		snprintf(files.names[files.count], 300, "%s/%s", directory, entry->d_name);
		/* The session may delete it meanwhile. */
		if (lstat(files.names[files.count], &stat) != 0)
			continue;
		files.bytes += (uint64_t)stat.st_size;
		files.count++;
	}
	if (list)
		closedir(list);
	qsort(files.names, files.count, sizeof(files.names[0]), compare_names);
	return files;
}

static void delete_files(void)
{
	struct files files = list_files();

	for (unsigned int i = 0; i < files.count; i++)
		(void)unlink(files.names[i]);
}

static void tear_down(void)
{
	delete_files();
	cr_assert(rmdir(directory) == 0 || errno == ENOENT);
}

TestSuite(sink_roll, .init = set_up, .fini = tear_down, .timeout = 120);

static int try_rolling(uint64_t quota, uint32_t block_ms, uint32_t flags,
		       struct rp_session **ret_session)
{
	struct rp_session_options options = options_for("Test-Roll");
	int ret;

	options.output_path = path;
	options.roll_bytes = quota;
	options.block_ms = block_ms;
	options.flags = flags;
	ret = rp_session_start(&options, ret_session);
	free_options(&options);
	return ret;
}

static struct rp_session *rolling(uint64_t quota)
{
	struct rp_session *session;

	cr_assert_eq(try_rolling(quota, PATIENCE_MS, 0, &session), 0);
	return session;
}

static void write_marks(uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes / BLOB_BYTES; i++)
		cr_assert_eq(roll_mark(serial++, blob, sizeof(blob)), 0);
}

/* Contents of successive files. */
struct content {
	uint64_t events, first, last;	/* serials */
	uint64_t gaps;			/* missing serials between events */
	uint64_t reported_lost;		/* by sequence points */
	uint64_t infos, named;		/* files with a ProcessInfo, with names of functions */
};

static void take_event(struct content *content, const struct rp_reader_event *event)
{
	uint64_t number;

	content->infos += strcmp(event->type->name, "ProcessInfo") == 0;
	content->named += strcmp(event->type->name, "RundownDone") == 0;
	if (strcmp(event->type->provider, "Test-Roll") != 0)
		return;
	cr_assert_eq(event->payload_bytes, 10 + BLOB_BYTES);
	memcpy(&number, event->payload, sizeof(number));
	if (content->events++ == 0)
		content->first = number;
	else
		cr_assert_gt(number, content->last);
	content->gaps += content->events > 1 ? number - content->last - 1 : 0;
	content->last = number;
}

static void read_file(const char *name, struct content *content)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader *reader;
	int ret;

	cr_assert_eq(rp_reader_open(name, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1)
		take_event(content, &event);
	cr_assert_eq(ret, 0, "%s: %s", name, rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	cr_assert_eq(stats.ended, 1u);
	cr_assert_eq(stats.unordered, 0u);
	content->reported_lost += stats.lost;
	rp_reader_close(reader);
}

static struct content read_files(void)
{
	struct files files = list_files();
	struct content content = { 0 };

	for (unsigned int i = 0; i < files.count; i++)
		read_file(files.names[i], &content);
	cr_assert_eq(content.infos, files.count);
	return content;
}

Test(sink_roll, each_event_is_in_one_of_the_files)
{
	struct rp_session *session = rolling(64 * MB);
	struct rp_session_stats stats = empty_stats();
	struct content content;

	write_marks(30 * MB);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered, serial);
	cr_assert_eq(stats.bytes, list_files().bytes);
	content = read_files();
	cr_assert_eq(content.events, serial);
	cr_assert_eq(content.first, 0u);
	cr_assert_eq(content.gaps, 0u);
	cr_assert_eq(content.reported_lost, 0u);
	cr_assert_geq(list_files().count, 4u);
	cr_assert_str_eq(strrchr(list_files().names[1], '/'), "/trace.000002.nettrace");
}

/*
 * As copytruncate does. The file has no head any more: it gets one, and the losses, and its end.
 */
Test(sink_roll, file_cut_from_outside_is_an_error_and_what_follows_is_counted_as_lost)
{
	struct rp_session *session = rolling(8 * MB);
	struct rp_session_stats stats = empty_stats();
	struct content content = { 0 };
	struct files files;
	uint64_t before;

	write_marks(5 * MB / 2);	/* half a file at the end */
	cr_assert_eq(rp_sessions_flush(PATIENCE_MS), 0);
	before = serial;
	files = list_files();
	cr_assert_geq(files.count, 3u);
	cr_assert_eq(truncate(files.names[files.count - 1], 0), 0);
	/* The first one is offered; the session may have ended at any of the others. */
	while (stats.error == 0) {
		(void)roll_mark(serial++, blob, sizeof(blob));
		cr_assert_eq(rp_session_get_stats(session, &stats), 0);
	}
	cr_assert_eq(rp_session_stop(session, &stats), -ESTALE);
	cr_assert_eq(stats.error, -ESTALE);
	cr_assert_eq(stats.delivered, before);
	cr_assert_geq(stats.lost, 1u);
	cr_assert_leq(stats.delivered + stats.lost, serial);
	cr_assert_eq(list_files().count, files.count);
	for (unsigned int i = 0; i < files.count; i++)
		read_file(files.names[i], &content);
	cr_assert_eq(content.first, 0u);
	cr_assert_eq(content.gaps, 0u);
	cr_assert_lt(content.last, before);
	cr_assert_eq(content.reported_lost, stats.lost);
}

Test(sink_roll, oldest_files_go_and_all_stay_below_the_quota)
{
	struct rp_session *session = rolling(8 * MB);
	struct rp_session_stats stats = empty_stats();
	struct content content;

	for (unsigned int i = 0; i < 60; i++) {
		write_marks(MB / 2);
		cr_assert_leq(list_files().bytes, 8 * MB);
	}
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered, serial);
	cr_assert_leq(list_files().bytes, 8 * MB);
	cr_assert_geq(list_files().bytes, 5 * MB);
	content = read_files();
	cr_assert_gt(content.first, 0u);
	cr_assert_eq(content.last, serial - 1);
	cr_assert_eq(content.gaps, 0u);
}

Test(sink_roll, files_of_an_earlier_session_count_and_numbers_go_on)
{
	struct rp_session *session;
	struct content content;
	struct files before;

	for (unsigned int i = 0; i < 3; i++) {
		before = list_files();
		session = rolling(8 * MB);
		write_marks(5 * MB);
		cr_assert_eq(rp_session_stop(session, NULL), 0);
		cr_assert_leq(list_files().bytes, 8 * MB);
		if (i > 0)
			cr_assert_str_gt(list_files().names[list_files().count - 1],
					 before.names[before.count - 1]);
	}
	content = read_files();
	cr_assert_eq(content.last, serial - 1);
	cr_assert_eq(content.gaps, 0u, "what is older has gone first");
}

Test(sink_roll, smaller_quota_applies_to_what_is_there)
{
	struct rp_session *session = rolling(32 * MB);

	write_marks(14 * MB);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_gt(list_files().bytes, 8 * MB);
	session = rolling(8 * MB);
	cr_assert_leq(list_files().bytes, 6 * MB);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(sink_roll, files_that_are_not_of_the_series_stay)
{
	static const char *const names[] = {
		"trace.nettrace", "trace.1.nettrace", "trace.000001", "trace.000001.nettrace.gz",
		"trace.0000001.nettrace", "trace.00000x.nettrace", "trace.9999999999999999999999",
	};
	struct rp_session *session;
	char other[96];

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(other, sizeof(other), "%s/%s", directory, names[i]);
		close(open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	session = rolling(8 * MB);
	write_marks(20 * MB);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(other, sizeof(other), "%s/%s", directory, names[i]);
		cr_assert_eq(unlink(other), 0, "%s is gone", other);
	}
	cr_assert_eq(read_files().last, serial - 1);
}

Test(sink_roll, another_session_has_to_choose_another_name)
{
	struct rp_session *session = rolling(8 * MB), *other;

	cr_assert_eq(try_rolling(8 * MB, 0, 0, &other), -EBUSY);
	write_marks(3 * MB);
	cr_assert_eq(try_rolling(8 * MB, 0, 0, &other), -EBUSY);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_eq(read_files().gaps, 0u);
	cr_assert_eq(read_files().events, serial);
}

Test(sink_roll, file_that_was_deleted_is_followed_by_the_next)
{
	struct rp_session *session = rolling(8 * MB);
	struct rp_session_stats stats = empty_stats();
	struct content content;
	uint64_t before;

	write_marks(MB / 4);
	delete_files();
	wait_until(list_files().count == 1);
	before = serial;
	write_marks(MB / 4);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered, serial);
	cr_assert_eq(stats.lost, 0u);
	content = read_files();
	cr_assert_leq(content.first, before);
	cr_assert_eq(content.last, serial - 1);
	cr_assert_eq(content.gaps, 0u);
}

Test(sink_roll, directory_that_vanished_ends_the_session)
{
	struct rp_session *session = rolling(8 * MB);
	struct rp_session_stats stats = empty_stats();

	cr_assert_eq(roll_mark(serial++, blob, sizeof(blob)), 0);
	delete_files();
	/* The session may just have created the next file. */
	while (rmdir(directory) != 0)
		delete_files();
	wait_until(!roll_mark_enabled());
	cr_assert_eq(roll_mark(serial, blob, sizeof(blob)), 0, "nobody wants it");
	cr_assert_eq(rp_session_stop(session, &stats), -ENOENT);
	cr_assert_eq(stats.delivered + stats.lost, serial);
}

Test(sink_roll, losses_are_reported_once)
{
	static const uint8_t too_big[RP_PAYLOAD_MAX + 1];
	struct rp_session *session = rolling(8 * MB);
	struct rp_session_stats stats = empty_stats();
	struct content content;
	uint64_t lost = 0;

	while (list_files().count < 4) {
		write_marks(MB / 4);
		cr_assert_eq(roll_mark(serial++, too_big, sizeof(too_big)), -EMSGSIZE);
		lost++;
	}
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.lost, lost);
	content = read_files();
	cr_assert_eq(content.first, 0u);
	cr_assert_eq(content.events + lost, serial);
	cr_assert_leq(content.gaps, lost);
	cr_assert_eq(content.reported_lost, lost);
}

Test(sink_roll, each_file_has_the_names_of_its_stacks)
{
	struct rp_session *session;

	if (runs_in_valgrind())
		cr_skip_test("valgrind runs code of its own");
	cr_assert_eq(try_rolling(8 * MB, PATIENCE_MS, RP_SESSION_STACKS, &session), 0);
	write_marks(4 * MB);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_geq(list_files().count, 3u);
	cr_assert_eq(read_files().named, list_files().count);
	cr_assert_eq(read_files().events, serial);
}

Test(sink_roll, what_cannot_roll_is_refused)
{
	struct rp_session_options options = options_for("Test-Roll");
	struct rp_listener *listener;
	struct rp_session *session;

	cr_assert_eq(try_rolling(8 * MB - 1, 0, 0, &session), -EINVAL);
	options.roll_bytes = 8 * MB;
	options.output_fd = 1;
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL, "no name");
	options.output_fd = -1;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), -EINVAL);
	options.output_path = path;
	options.recover_path = directory;
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL, "not both");
	options.recover_path = NULL;
	options.flags = RP_SESSION_OVERWRITE;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL, "not both");
	options.flags = 0;
	options.output_path = directory;
	cr_assert_eq(rp_session_start(&options, &session), 0, "a name like any other");
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	snprintf(path, sizeof(path), "%s.000001", directory);
	cr_assert_eq(unlink(path), 0);
	options.output_path = "/tmp/";
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL, "no name");
	options.output_path = "/missing/trace";
	cr_assert_eq(rp_session_start(&options, &session), -ENOENT);
	cr_assert_eq(list_files().count, 0u);
	free_options(&options);
}
