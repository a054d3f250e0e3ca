/* SPDX-License-Identifier: MIT */
/*
 * Measures the whole path to a file: one thread offers events of 32 bytes at a fixed rate.
 *
 *	throughput FILE RATE-IN-MILLIONS SECONDS [MEGABYTES]
 *
 * If FILE is `socket`, the session writes to a socket that another process reads. A rate of 0
 * offers as fast as possible.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define BATCH 500u
#define BATCHES (1u << 16)
#define RECORD_WORDS 7u			/* of an event of 32 bytes, in a ring */
#define LINES_BYTES (16u << 20)		/* the size of the ring in a session of 64 MB */

RP_PROVIDER(bench, "Bench-Throughput");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static double cpu_ns(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

/* Times of the writer's batches; a long run overwrites the oldest. */
static double batches[BATCHES];

/* Offers for `seconds`. A late writer catches up without a pause, as a busy server does. */
static uint64_t offer(double per_second, double seconds)
{
	double begun = now_ns();
	uint64_t offered = 0;

	for (;;) {
		double elapsed = now_ns() - begun;

		if (elapsed >= seconds * 1e9)
			return offered;
		if (per_second > 0 && (double)offered > per_second * elapsed / 1e9)
			continue;
		for (unsigned int i = 0; i < BATCH; i++)
			bench_bytes32(offered + i, offered, i, 1);
		batches[offered / BATCH % BATCHES] = now_ns() - begun - elapsed;
		offered += BATCH;
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The writer's time for an event, in its median batch: in slow batches it was preempted. */
static double writer_ns(uint64_t offered)
{
	uint64_t count = offered / BATCH < BATCHES ? offered / BATCH : BATCHES;

	qsort(batches, count, sizeof(*batches), compare);
	return count ? batches[count / 2] / BATCH : 0;
}

/* A child reads the other end of the socket and ends with the stream. */
static struct rp_session *start_to_socket(size_t bytes)
{
	static char buffer[1 << 20];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		exit(1);
	if (fork() == 0) {
		close(ends[0]);
		while (read(ends[1], buffer, sizeof(buffer)) > 0)
			;
		_exit(0);
	}
	close(ends[1]);
	return bench_start_to(ends[0], "Bench-Throughput", bytes);
}

/* The floor: the kernel's time for writing that many bytes to a file, the best of 256 MB. */
static double write_alone(const char *path, double bytes)
{
	static char buffer[1 << 20];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	double best = 0;

	/* Private memory that was written to, like the drain thread's. */
	memset(buffer, 1, sizeof(buffer));
	for (unsigned int i = 0; i < 256; i++) {
		double begun = now_ns(), took;

		if (write(fd, buffer, sizeof(buffer)) != sizeof(buffer))
			exit(1);
		took = now_ns() - begun;
		best = best > 0 && best < took ? best : took;
	}
	close(fd);
	unlink(path);
	return best / sizeof(buffer) * bytes;
}

/* Records in memory, and their number: written by one thread, read by another. */
static uint64_t lines[LINES_BYTES / sizeof(uint64_t)];
static atomic_ulong lines_written, lines_taken;
#define LINES_RECORDS (LINES_BYTES / sizeof(uint64_t) / RECORD_WORDS)

static void *write_lines(void *data)
{
	const double *rate = data;
	double begun = now_ns();

	for (uint64_t at = 0; at < (uint64_t)*rate; at++) {
		uint64_t *record = &lines[at % LINES_RECORDS * RECORD_WORDS];

		if (at % BATCH == 0) {
			atomic_store_explicit(&lines_written, at, memory_order_release);
			while (now_ns() - begun < (double)at / *rate * 1e9 ||
			       at - atomic_load_explicit(&lines_taken, memory_order_acquire) >
				       LINES_RECORDS / 2)
				;
		}
		for (unsigned int i = 0; i < RECORD_WORDS; i++)
			record[i] = at + i;
	}
	atomic_store_explicit(&lines_written, (uint64_t)*rate, memory_order_release);
	return NULL;
}

/*
 * The other floor: the time to copy an event's words that another CPU has written, and nothing
 * else. Runs for a second, at the given rate, a quarter of a ring per step.
 */
static double lines_alone(double rate)
{
	static uint64_t buffer[LINES_BYTES / 4 / sizeof(uint64_t)];
	uint64_t taken = 0, count = (uint64_t)rate;
	double spent = 0;
	pthread_t writer;

	memset(lines, 1, sizeof(lines));
	memset(buffer, 1, sizeof(buffer));
	if (pthread_create(&writer, NULL, write_lines, &rate) != 0)
		exit(1);
	while (taken < count) {
		uint64_t end = atomic_load_explicit(&lines_written, memory_order_acquire);
		double begun;

		if (end < count && end - taken < LINES_RECORDS / 4)
			continue;
		begun = now_ns();
		for (uint64_t i = 0; taken < end && i < LINES_RECORDS / 4; i++, taken++)
			memcpy(&buffer[i * 4], &lines[taken % LINES_RECORDS * RECORD_WORDS], 32);
		spent += now_ns() - begun;
		atomic_store_explicit(&lines_taken, taken, memory_order_release);
	}
	pthread_join(writer, NULL);
	return spent / (double)count;
}

int main(int argc, char **argv)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	double rate, seconds, begun, took, drain;
	uint64_t offered;
	size_t bytes;

	if (argc < 4) {
		fprintf(stderr, "usage: throughput FILE RATE-IN-MILLIONS SECONDS [MEGABYTES]\n");
		return 2;
	}
	rate = atof(argv[2]) * 1e6;
	seconds = atof(argv[3]);
	bytes = (size_t)(argc > 4 ? atoi(argv[4]) : 64) << 20;
	session = strcmp(argv[1], "socket") == 0 ? start_to_socket(bytes) :
		  bench_start("Bench-Throughput", argv[1], bytes, 0);
	drain = cpu_ns(RUSAGE_SELF) - cpu_ns(RUSAGE_THREAD);
	begun = now_ns();
	offered = offer(rate, seconds);
	took = now_ns() - begun;
	rp_session_stop(session, &stats);
	drain = cpu_ns(RUSAGE_SELF) - cpu_ns(RUSAGE_THREAD) - drain;
	unlink(argv[1]);
	while (wait(NULL) > 0)
		;
	figure("offered", (double)offered / took * 1e3, "M/s");
	figure("delivered", (double)stats.delivered / took * 1e3, "M/s");
	figure("lost", (double)stats.lost, "events");
	figure("bytes per event", (double)stats.bytes / (double)stats.delivered, "B");
	figure("writer per event", writer_ns(offered), "ns");
	figure("drain thread per event", drain / (double)stats.delivered, "ns");
	if (strcmp(argv[1], "socket") != 0)
		figure("write(2) of an event's bytes alone",
		       write_alone(argv[1], (double)stats.bytes / (double)stats.delivered), "ns");
	if (rate > 0)
		figure("copy of an event from the other CPU alone", lines_alone(rate), "ns");
	if (stats.delivered + stats.lost != offered) {
		fprintf(stderr, "throughput: %lu offered, %lu accounted for\n", offered,
			stats.delivered + stats.lost);
		return 1;
	}
	return 0;
}
