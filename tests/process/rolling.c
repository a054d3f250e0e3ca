/* SPDX-License-Identifier: MIT */
/*
 * A process with rolling files is killed, and another process continues the series. Each file is
 * readable, and no event is duplicated or missing between two files. Two processes can share a
 * directory under two file names, but not under one. The files of a process that loses events state
 * as many losses as its calls returned, by reason.
 */
#include "check.h"
#include "../strict/strict.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

RP_PROVIDER(rolling, "Test-Rolling");
RP_EVENT(rolling, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(life), RP_U64(serial), RP_BLOB(bytes));

#define LIVES 12u
#define FILES_MAX 64u
#define WAIT_MS 60000u
#define LOSING_LIFE 1u
#define ROLLED_BYTES (5u << 20)		/* the quota is larger, so no file is removed */

static char directory[] = "/tmp/rp-rolling-XXXXXX";
static char names[FILES_MAX][300];

static int start(const char *name, uint32_t block_ms, struct rp_session **ret_session)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Rolling", .keywords = UINT64_MAX, .level = 5,
	};
	char path[64];
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = path, .buffer_bytes = RP_SESSION_BUFFER_MIN,
		.format = nettrace_version(),
		.roll_bytes = RP_SESSION_ROLL_MIN, .block_ms = block_ms,
	};

	snprintf(path, sizeof(path), "%s/%s.nettrace", directory, name);
	return rp_session_start(&options, ret_session);
}

/* Write events in a child. */
static void live(const char *name, uint64_t life)
{
	static const char bytes[500];
	struct rp_session *session;

	check(start(name, WAIT_MS, &session) == 0);
	for (uint64_t serial = 0;; serial++)
		check(rolling_mark(life, serial, bytes, serial % sizeof(bytes)) == 0);
}

static pid_t begin_life(const char *name, uint64_t life)
{
	pid_t child = fork();

	check(child >= 0);
	if (child == 0)
		live(name, life);
	return child;
}

static void end_life(pid_t child)
{
	int status;

	check(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static unsigned int list_files(const char *name)
{
	DIR *list = opendir(directory);
	unsigned int count = 0;
	struct dirent *entry;

	check(list);
	while ((entry = readdir(list))) {
		if (strncmp(entry->d_name, name, strlen(name)) != 0)
			continue;
		check(count < FILES_MAX);
		snprintf(names[count++], sizeof(names[0]), "%s/%s", directory, entry->d_name);
	}
	closedir(list);
	qsort(names, count, sizeof(names[0]), compare_names);
	return count;
}

/* The results of a writer's calls. */
struct returned {
	uint64_t written, full, too_big;
};

/* Write as many bytes as fit into the quota, fast, so that most events find no space. */
static void write_with_losses(struct returned *returned)
{
	static const char bytes[RP_PAYLOAD_MAX];
	uint64_t written_bytes = 0;

	for (uint64_t serial = 0; written_bytes < ROLLED_BYTES; serial++) {
		const bool is_too_big = serial % 100 == 0;
		const size_t size = is_too_big ? RP_PAYLOAD_MAX : serial % 2000;
		const int ret = rolling_mark(LOSING_LIFE, serial, bytes, size);

		check(ret == 0 || ret == (is_too_big ? -EMSGSIZE : -ENOBUFS));
		returned->written += ret == 0;
		returned->full += ret == -ENOBUFS;
		returned->too_big += ret == -EMSGSIZE;
		written_bytes += ret == 0 ? size : 0;
	}
}

static void count_losses(void)
{
	static const struct strict_serials serials = { "Test-Rolling", "mark", "life", "serial" };
	struct returned returned = { 0 };
	struct rp_session *session;
	uint64_t written = 0, lost = 0, too_big = 0, last = 0;
	unsigned int count;

	check(start("losing", 0, &session) == 0);
	write_with_losses(&returned);
	check(rp_session_stop(session, NULL) == 0);
	count = list_files("losing");
	check(count > 2);
	for (unsigned int i = 0; i < count; i++) {
		struct strict_result result;

		if (!strict_read(names[i], 0, &serials, NULL, NULL, &result))
			fprintf(stderr, "%s: %s\n", names[i], result.fault);
		check(!result.fault[0] && result.complete && result.writer_count == 1);
		check(i == 0 || result.writers[0].first > last);
		last = result.writers[0].last;
		written += result.writers[0].count;
		lost += result.lost_in_points;
		too_big += strict_lost(&result, "too-big");
	}
	printf("%u files, %lu events, %lu lost\n", count, (unsigned long)written,
	       (unsigned long)lost);
	check(returned.full > 0 && returned.too_big > 0);
	check(written == returned.written && too_big == returned.too_big);
	check(lost == returned.full + returned.too_big);
}

static uint64_t newest_bytes(const char *name)
{
	unsigned int count = list_files(name);
	struct stat stat;

	return count && lstat(names[count - 1], &stat) == 0 ? (uint64_t)stat.st_size : 0;
}

struct last {
	uint64_t life, serial;
	bool seen;
};

/* Check that the second reader, which shares no code with the library, finds no gap and no loss. */
static void read_strictly(const char *path, bool is_whole)
{
	static const struct strict_serials serials = { "Test-Rolling", "mark", "life", "serial" };
	struct strict_result result;

	if (!strict_read(path, is_whole ? 0 : STRICT_CUT, &serials, NULL, NULL, &result))
		fprintf(stderr, "%s: %s\n", path, result.fault);
	check(!result.fault[0] && result.complete == is_whole);
	check(strict_missing(&result) == 0 && result.lost_in_points == 0);
}

/* Return: whether the file is complete. */
static bool read_file(const char *path, struct last *last)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint64_t numbers[2];
	int ret;

	check(rp_reader_open(path, &reader) == 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (strcmp(event.type->provider, "Test-Rolling") != 0)
			continue;
		memcpy(numbers, event.payload, sizeof(numbers));
		if (last->seen && numbers[0] == last->life)
			check(numbers[1] == last->serial + 1);
		else if (last->seen)
			check(numbers[0] > last->life && numbers[1] == 0);
		*last = (struct last){ numbers[0], numbers[1], true };
	}
	if (ret != 0 && ret != -ENODATA)
		fprintf(stderr, "%s: %s\n", path, rp_reader_error(reader));
	check(ret == 0 || ret == -ENODATA);
	rp_reader_close(reader);
	read_strictly(path, ret == 0);
	return ret == 0;
}

static void survive_kills(void)
{
	struct last last = { 0 };
	unsigned int count, whole = 0;
	uint64_t bytes = 0;
	struct stat stat;

	for (uint64_t life = 0; life < LIVES; life++) {
		unsigned int before = list_files("killed");
		char newest[300] = "";
		pid_t child;

		if (before)
			memcpy(newest, names[before - 1], sizeof(newest));
		child = begin_life("killed", life);
		/* Kill the process when its own file has events, in each life a little later. */
		wait_until((before = list_files("killed")) > 0 &&
			   strcmp(names[before - 1], newest) > 0 && newest_bytes("killed") > 4096);
		for (uint64_t i = 0; i < life * 1000; i++)
			(void)newest_bytes("killed");
		end_life(child);
	}
	count = list_files("killed");
	for (unsigned int i = 0; i < count; i++) {
		whole += read_file(names[i], &last);
		check(lstat(names[i], &stat) == 0);
		bytes += (uint64_t)stat.st_size;
	}
	printf("%u files, %u whole, %lu bytes\n", count, whole, (unsigned long)bytes);
	check(last.seen && last.life == LIVES - 1);
	check(bytes <= RP_SESSION_ROLL_MIN);
	/* A killed process leaves at most two incomplete files: the last, and the one before. */
	check(count - whole <= 2 * LIVES);
}

static void share_a_directory(void)
{
	pid_t one = begin_life("one", 0), two = begin_life("two", 0);
	struct rp_session *session;
	struct last last = { 0 };
	unsigned int count;

	wait_until(newest_bytes("one") > 4096 && newest_bytes("two") > 4096);
	check(start("one", WAIT_MS, &session) == -EBUSY);
	end_life(one);
	check(start("one", WAIT_MS, &session) == 0 && rp_session_stop(session, NULL) == 0);
	end_life(two);
	count = list_files("two");
	for (unsigned int i = 0; i < count; i++)
		(void)read_file(names[i], &last);
	check(last.seen);
}

int main(void)
{
	unsigned int count;

	check(mkdtemp(directory));
	survive_kills();
	share_a_directory();
	count_losses();
	count = list_files("");
	for (unsigned int i = 0; i < count; i++)
		(void)unlink(names[i]);
	check(rmdir(directory) == 0);
	return 0;
}
