/* SPDX-License-Identifier: MIT */
/*
 * A session writes to a file system that fills up. The file stays readable to its end, and events
 * read plus reported losses equal the offered events. The test needs a mount namespace: root, or
 * user namespaces.
 */
#include "check.h"
#include "../strict/strict.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

RP_PROVIDER(disk, "Test-Disk");
RP_EVENT(disk, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(bytes));

#define OFFERED 50000000u	/* far more than any of the disks holds */

static char directory[] = "/tmp/rp-disk-XXXXXX";
static char trace[64];

static void skip(const char *reason)
{
	printf("%s: %s\n", reason, strerror(errno));
	rmdir(directory);
	exit(SKIPPED);
}

/*
 * Only one thread writes, and a cleared bit is not set again. So the count is exact, except for the
 * last write, during which the bit may have been cleared.
 */
static uint64_t write_until_gone(uint64_t serial, bool *ret_unsure)
{
	static const char bytes[100];

	*ret_unsure = false;
	while (serial < OFFERED && disk_mark_enabled()) {
		(void)disk_mark(serial, bytes, serial % sizeof(bytes));
		serial++;
		if (!disk_mark_enabled())
			*ret_unsure = true;
	}
	return serial;
}

/* Check that the second reader, which shares no code with the library, finds the same numbers. */
static void read_strictly(uint64_t events, uint64_t lost)
{
	static const struct strict_serials serials = { "Test-Disk", "mark", NULL, "serial" };
	struct strict_result result;

	if (!strict_read(trace, STRICT_RECOVERED, &serials, NULL, NULL, &result))
		fprintf(stderr, "%s\n", result.fault);
	check(!result.fault[0]);
	check(result.lost_in_points == lost);
	check(result.writer_count == (events > 0) && result.writers[0].count == events);
}

/* Read the whole file. The serials must be those of the writes, in order, each at most once. */
static void read_trace(uint64_t *ret_events, uint64_t *ret_lost)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint64_t next = 0, serial;
	int ret;

	*ret_events = 0;
	check(rp_reader_open(trace, &reader) == 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (strcmp(event.type->provider, "Test-Disk") != 0)
			continue;
		memcpy(&serial, event.payload, sizeof(serial));
		check(serial >= next);
		next = serial + 1;
		++*ret_events;
	}
	if (ret != 0)
		fprintf(stderr, "%s\n", rp_reader_error(reader));
	check(ret == 0);
	rp_reader_get_stats(reader, &stats);
	check(stats.ended == 1);
	*ret_lost = stats.lost;
	rp_reader_close(reader);
	read_strictly(*ret_events, *ret_lost);
}

/* If the disk is full, the sink cuts off the incomplete part, up to a megabyte. */
static void run(const char *size, size_t buffer_bytes, bool takes_some)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t offered, events, lost;
	struct rp_session *session;
	bool unsure;

	check(mount("none", directory, "tmpfs", 0, size) == 0);
	session = session_to(trace, "Test-Disk", buffer_bytes);
	offered = write_until_gone(0, &unsure);
	check(rp_session_stop(session, &stats) == -ENOSPC);
	check(stats.error == -ENOSPC);
	check(stats.lost_by[RP_LOSS_SINK] > 0);
	read_trace(&events, &lost);
	printf("%s: offered %lu, read %lu, told lost %lu\n", size, (unsigned long)offered,
	       (unsigned long)events, (unsigned long)lost);
	check(!takes_some || events > 0);
	check(events == stats.delivered);
	check(lost == stats.lost);
	check(events + lost == offered || (unsure && events + lost + 1 == offered));
	/* The host continues: its events are disabled, and it can run another session. */
	check(!disk_mark_enabled());
	session = session_to("/dev/null", "Test-Disk", buffer_bytes);
	check(disk_mark(1, "x", 1) == 0);
	check(rp_session_stop(session, NULL) == 0);
	check(umount(directory) == 0);
}

/* Recover the only session in the folder with the command, into a file on another disk. */
static void recover(const char *folder, const char *path)
{
	char command[512];

	check(getenv("RINGPIPE"));
	snprintf(command, sizeof(command), "%s recover --list %s | grep -q failed && "
		 "%s recover %s/*-* -o %s && %s recover --prune %s", getenv("RINGPIPE"), folder,
		 getenv("RINGPIPE"), folder, path, getenv("RINGPIPE"), folder);
	check(system(command) == 0);
}

/* Start a session whose rings are on another disk than its output. */
static struct rp_session *session_to_recover(const char *folder, size_t buffer_bytes)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Disk", .keywords = UINT64_MAX, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = trace, .buffer_bytes = buffer_bytes, .recover_path = folder,
		.format = nettrace_version(),
	};
	struct rp_session *session;

	check(rp_session_start(&options, &session) == 0);
	return session;
}

/* Recover the session of `folder`. The trace must have all events that found space in a ring. */
static void expect_all_recovered(const char *folder, uint64_t offered, bool unsure,
				 const struct rp_session_stats *stats)
{
	uint64_t full = stats->lost_by[RP_LOSS_FULL] + stats->lost_by[RP_LOSS_FULL_FALLBACK];
	char recovered[64], on_disk[sizeof(trace)];
	uint64_t events, lost;

	check(stats->lost > full);
	snprintf(recovered, sizeof(recovered), "%s/recovered", folder);
	recover(folder, recovered);
	memcpy(on_disk, trace, sizeof(trace));
	memcpy(trace, recovered, sizeof(recovered));
	read_trace(&events, &lost);
	memcpy(trace, on_disk, sizeof(trace));
	printf("offered %lu, recovered %lu and %lu lost, full %lu in rings and %lu in locks' "
	       "rings or none\n", (unsigned long)offered, (unsigned long)events,
	       (unsigned long)lost, (unsigned long)stats->lost_by[RP_LOSS_FULL],
	       (unsigned long)stats->lost_by[RP_LOSS_FULL_FALLBACK]);
	check(lost == full);
	check(events + full == stats->delivered + stats->lost);
	check(events + full == offered || (unsure && events + full + 1 == offered));
	check(unlink(recovered) == 0 && rmdir(folder) == 0);
}

static void run_recoverable(const char *size, size_t buffer_bytes)
{
	char folder[] = "/tmp/rp-keep-XXXXXX";
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	uint64_t offered;
	bool unsure;

	check(mkdtemp(folder));
	check(mount("none", directory, "tmpfs", 0, size) == 0);
	session = session_to_recover(folder, buffer_bytes);
	offered = write_until_gone(0, &unsure);
	check(rp_session_stop(session, &stats) == -ENOSPC);
	expect_all_recovered(folder, offered, unsure, &stats);
	check(umount(directory) == 0);
}

static void write_and_wait(struct rp_session *session, uint64_t serial)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	static const char bytes[1000];

	check(disk_mark(serial, bytes, sizeof(bytes)) == 0);
	do {
		sched_yield();
		check(rp_session_get_stats(session, &stats) == 0);
	} while (stats.delivered <= serial);
}

/* Check that the command shows `count` events of an output without an end, and fails. */
static void expect_no_end(int count)
{
	char command[512];

	snprintf(command, sizeof(command), "%s report %s events >%s.events 2>/dev/null; "
		 "[ $? -eq 1 ] && grep -c Test-Disk/mark %s.events | grep -qx %d",
		 getenv("RINGPIPE"), trace, trace, trace, count);
	check(system(command) == 0);
}

/*
 * The output has no space for its end behind its last whole block. That block must remain in the
 * output, because the rings do not contain its events any more.
 */
static void run_recoverable_without_space_for_an_end(void)
{
	char folder[] = "/tmp/rp-keep-XXXXXX";
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rlimit before, limit;
	struct rp_session *session;
	struct stat output;
	uint64_t offered;
	bool unsure;

	check(mkdtemp(folder));
	check(mount("none", directory, "tmpfs", 0, "size=1m") == 0);
	session = session_to_recover(folder, RP_SESSION_BUFFER_MIN);
	write_and_wait(session, 0);
	write_and_wait(session, 1);
	check(stat(trace, &output) == 0 && getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = before;
	limit.rlim_cur = (rlim_t)output.st_size;
	check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	offered = write_until_gone(2, &unsure);
	check(rp_session_stop(session, &stats) == -EFBIG);
	check(setrlimit(RLIMIT_FSIZE, &before) == 0);
	check(stats.delivered == 2);
	expect_no_end(2);
	expect_all_recovered(folder, offered, unsure, &stats);
	check(umount(directory) == 0);
}

/* If the disk is smaller than the quota, the session deletes old files to free space. */
static void run_rolling(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Disk", .keywords = UINT64_MAX, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = trace, .buffer_bytes = RP_SESSION_BUFFER_MIN,
		.format = nettrace_version(),
		.roll_bytes = RP_SESSION_ROLL_MIN, .block_ms = 60000,
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	static const char bytes[1000];
	struct rp_session *session;
	uint64_t events, lost;

	check(mount("none", directory, "tmpfs", 0, "size=5m") == 0);
	check(rp_session_start(&options, &session) == 0);
	for (uint64_t serial = 0; serial < 20000; serial++)
		check(disk_mark(serial, bytes, sizeof(bytes)) == 0);
	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered == 20000 && stats.lost == 0);
	/* The newest file is complete. */
	for (unsigned int i = 1; i < 100; i++) {
		snprintf(trace, sizeof(trace), "%s/trace.%06u", directory, i);
		if (access(trace, F_OK) == 0)
			read_trace(&events, &lost);
	}
	check(events > 0 && lost == 0);
	check(umount(directory) == 0);
	snprintf(trace, sizeof(trace), "%s/trace", directory);
}

/* On a full disk, not even the header fits: the stop reports the error and no file remains. */
static void run_full(void)
{
	struct rp_session *session;
	struct statvfs space;
	char filler[80], block[4096] = "";
	int fd;

	check(mount("none", directory, "tmpfs", 0, "size=64k") == 0);
	snprintf(filler, sizeof(filler), "%s/filler", directory);
	fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	check(fd >= 0);
	while (write(fd, block, sizeof(block)) > 0)
		;
	check(errno == ENOSPC && close(fd) == 0);
	check(statvfs(directory, &space) == 0 && space.f_bfree == 0);
	session = session_to(trace, "Test-Disk", RP_SESSION_BUFFER_MIN);
	(void)disk_mark(1, "x", 1);
	check(rp_session_stop(session, NULL) == -ENOSPC);
	check(access(trace, F_OK) != 0);
	check(umount(directory) == 0);
}

int main(void)
{
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	if (unshare(CLONE_NEWNS) != 0)
		skip("no mount namespace of our own");
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", directory, "tmpfs", 0, "size=1m") != 0)
		skip("no tmpfs of our own");
	check(umount(directory) == 0);
	run("size=5m", 64 << 20, true);
	run("size=3m", RP_SESSION_BUFFER_MIN, true);
	run("size=1m", 64 << 20, false);
	run("size=64k", 64 << 20, false);
	run("size=8k", 8 << 20, false);
	run_full();
	run_recoverable("size=5m", 64 << 20);
	/* Repeat, because not each run loses an event while the drain thread counts losses. */
	for (int i = 0; i < 10; i++)
		run_recoverable("size=2m", RP_SESSION_BUFFER_MIN);
	run_recoverable("size=8k", 8 << 20);
	run_recoverable_without_space_for_an_end();
	run_rolling();
	check(rmdir(directory) == 0);
	return 0;
}
