/* SPDX-License-Identifier: MIT */
/*
 * Memory of a session: the session stays below its limit and frees all memory. Threads that start
 * and end leave no memory in use.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stress.h"

#define PROVIDER "Stress-Memory"
#define WRITERS 4u
#define LANES 16u

/* A program's thread-local memory is on the stack of each thread, including ringpipe's threads. */
static __thread char host_memory[1 << 20];

RP_PROVIDER(stress, PROVIDER);
RP_EVENT(stress, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(stream), RP_U64(serial),
	 RP_BLOB(filling));

/*
 * Bytes of rings mapped in this process. A ring is shared memory without a name, mapped twice: each
 * inode counts once.
 */
static uint64_t ring_bytes(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t inodes[512], sum = 0;
	size_t count = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		uint64_t begin, end, inode;
		bool known = false;

		if (!strstr(line, "/dev/zero (deleted)") && !strstr(line, "memfd:ringpipe"))
			continue;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64, &begin, &end,
			   &inode) != 3)
			continue;
		for (size_t i = 0; i < count; i++)
			known = known || inodes[i] == inode;
		if (known || count == 512)
			continue;
		inodes[count++] = inode;
		sum += end - begin;
	}
	if (maps)
		fclose(maps);
	return sum;
}

/*
 * Proportional: a page of a ring counts once, although it is mapped twice. The pages of files are
 * left out, because their part grows when other processes end.
 */
static int64_t pss_bytes(void)
{
	FILE *rollup = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	int64_t kb = -1, file_kb = 0;

	while (rollup && fgets(line, sizeof(line), rollup)) {
		if (sscanf(line, "Pss: %" SCNd64, &kb) != 1 &&
		    sscanf(line, "Pss_File: %" SCNd64, &file_kb) == 1)
			break;
	}
	if (rollup)
		fclose(rollup);
	return kb < 0 ? -1 : (kb - file_kb) * 1024;
}

struct writer {
	pthread_t thread;
	struct stress_stream *stream;
	uint64_t count;
};

static void *write_all(void *data)
{
	struct writer *writer = data;

	for (uint64_t i = 0; i < writer->count; i++)
		stress_write(writer->stream);
	return NULL;
}

static void write_with_threads(struct stress_books *books, uint64_t count)
{
	struct writer writers[WRITERS];

	for (unsigned int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .stream = &books->streams[i], .count = count };
		stress_spawn(&writers[i].thread, write_all, &writers[i]);
	}
	for (unsigned int i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
}

#define PERCENT(bytes) ((bytes) / 100)
/* A session below 16 MB additionally has the sink's blocks and pending output. */
#define SINK_BYTES(megabytes) ((megabytes) < 16 ? 640u << 10 : 0u)

static void a_session_keeps_its_ceiling(size_t megabytes)
{
	const char *path = stress_path("memory.nettrace");
	uint64_t count = stress_amount(100000), rings, most = 0;
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct stress_tally tally = { 0 };
	struct stress_books books;
	struct rp_session *session;

	stress_begin("rings_stay_below_%zu_mb_and_are_given_back", megabytes);
	stress_check(ring_bytes() == 0, "rings before the session");
	stress_books_init(&books, WRITERS, count * 8, stress_mark);
	session = stress_start(PROVIDER, path, -1, megabytes << 20, 0);
	/* Rings are created at first use: those of the processors appear while writers write. */
	for (unsigned int i = 0; i < 8; i++) {
		write_with_threads(&books, count);
		rings = ring_bytes();
		most = rings > most ? rings : most;
		stress_check(rp_session_get_stats(session, &stats) == 0, "no stats");
		stress_check(stats.memory_bytes <= (megabytes << 20) + PERCENT(megabytes << 20) +
						   SINK_BYTES(megabytes),
			     "memory_bytes %" PRIu64, stats.memory_bytes);
	}
	stress_check(most > 0, "no rings were found");
	stress_check(most <= (megabytes << 20) + PERCENT(megabytes << 20), "%" PRIu64
		     " bytes of rings", most);
	stress_stop(session, &stats);
	stress_check(ring_bytes() == 0, "%" PRIu64 " bytes of rings after the stop", ring_bytes());
	stress_read_file(path, &books, &tally);
	stress_settle(&books, &tally, &stats);
	stress_stats(&books, &stats);
	stress_note("rings %" PRIu64 " bytes at most", most);
	unlink(path);
	stress_books_fini(&books);
	stress_end();
}

/* After the first few, each session frees all its memory: a leak would grow with their number. */
static void sessions_leave_nothing(void)
{
	const char *path = stress_path("memory.nettrace");
	uint64_t rounds = stress_amount(200) * stress_rounds();
	struct rp_session_stats stats;
	int64_t before = 0, after;

	stress_begin("%" PRIu64 "_sessions_leave_no_memory_behind", rounds);
	for (uint64_t i = 0; i < 20 + rounds; i++) {
		struct rp_session *session;

		if (i == 20)
			before = pss_bytes();
		session = stress_start(PROVIDER, path, -1, 1u << 20, 0);
		for (uint64_t j = 0; j < 100; j++)
			stress_mark(0, j, "", 0);
		stress_stop(session, &stats);
	}
	after = pss_bytes();
	unlink(path);
	stress_check(ring_bytes() == 0, "rings after the stop");
	/* One kilobyte per session would be a leak. */
	stress_check(STRESS_WATCHED || after - before < (int64_t)rounds * 1024 + (64 << 10),
		     "%" PRId64 " bytes more", after - before);
	stress_note("%" PRId64 " bytes more after %" PRIu64 " sessions", after - before, rounds);
	stress_end();
}

static void *write_once(void *data)
{
	stress_write(data);
	return NULL;
}

static void *run_lane(void *data)
{
	struct writer *lane = data;

	for (uint64_t i = 0; i < lane->count; i++) {
		pthread_t thread;

		stress_spawn(&thread, write_once, lane->stream);
		pthread_join(thread, NULL);
	}
	return NULL;
}

/* Threads of one lane run one after another and share a stream. */
static void storm(struct stress_books *books, uint64_t threads)
{
	struct writer lanes[LANES];

	for (unsigned int i = 0; i < LANES; i++) {
		lanes[i] = (struct writer){ .stream = &books->streams[i],
					    .count = threads / LANES };
		stress_spawn(&lanes[i].thread, run_lane, &lanes[i]);
	}
	for (unsigned int i = 0; i < LANES; i++)
		pthread_join(lanes[i].thread, NULL);
}

static void short_threads_cost_nothing_that_stays(void)
{
	const char *path = stress_path("memory.nettrace");
	uint64_t threads = stress_amount(10000);
	int64_t noise, before, during;
	struct stress_tally tally = { 0 };
	struct rp_session_stats stats;
	struct stress_books books, control;
	struct rp_session *session;

	stress_begin("%" PRIu64 "_threads_that_write_once_cost_no_more_than_the_rings", threads);
	stress_books_init(&control, LANES, threads, stress_mark);
	stress_books_init(&books, LANES, threads, stress_mark);
	for (unsigned int i = 0; i < LANES; i++) {
		memset(books.streams[i].fate, 0, books.streams[i].space);
		memset(books.streams[i].seen, 0, books.streams[i].space);
		memset(control.streams[i].fate, 0, control.streams[i].space);
	}
	/* Measures threads without a session: memory of the allocator and the loader. */
	storm(&control, threads / 2);
	before = pss_bytes();
	storm(&control, threads / 2);
	noise = pss_bytes() - before;
	before = pss_bytes();
	session = stress_start(PROVIDER, path, -1, 1u << 20, 0);
	storm(&books, threads);
	during = pss_bytes();
	stress_stop(session, &stats);
	stress_read_file(path, &books, &tally);
	stress_settle(&books, &tally, &stats);
	stress_stats(&books, &stats);
	stress_note("%" PRId64 " bytes more than without a session (noise %" PRId64 ")",
		    during - before, noise);
	/* The ring, 1 MB, and the variation of the control run, at least 256 KB. */
	stress_check(STRESS_WATCHED ||
		     during - before < (2 << 20) + 2 * (noise < 0 ? -noise : noise) + (256 << 10),
		     "%" PRId64 " bytes", during - before);
	unlink(path);
	stress_books_fini(&control);
	stress_books_fini(&books);
	stress_end();
}

int main(void)
{
	((volatile char *)host_memory)[0] = 1;
	for (unsigned int i = 0; i < stress_rounds(); i++) {
		a_session_keeps_its_ceiling(1);
		a_session_keeps_its_ceiling(64);
		short_threads_cost_nothing_that_stays();
	}
	sessions_leave_nothing();
	return stress_exit();
}
