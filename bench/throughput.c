/* SPDX-License-Identifier: MIT */
/*
 * End to end: events of 32 bytes offered at a fixed rate by one thread, to a file.
 *
 *	throughput FILE RATE-IN-MILLIONS SECONDS [MEGABYTES]
 *
 * The file `socket` is one, to a process that reads. A rate of 0 offers as fast as it goes.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define BATCH 500u
#define BATCHES (1u << 16)

RP_PROVIDER(bench, "Bench-Throughput");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static double cpu_ns(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

/* What batches took the writer; those of a long run come round. */
static double batches[BATCHES];

/*
 * Offers for `seconds`; behind its schedule it catches up without a pause, as a busy server does.
 */
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

/* The writer's time for an event, in its median batch: in others it was not running. */
static double writer_ns(uint64_t offered)
{
	uint64_t count = offered / BATCH < BATCHES ? offered / BATCH : BATCHES;

	qsort(batches, count, sizeof(*batches), compare);
	return count ? batches[count / 2] / BATCH : 0;
}

/* Its other end is read by a child, which ends with the stream. */
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

/* The floor: what the kernel takes for so many bytes of a file, in CPU time. */
static double write_alone(const char *path, double bytes)
{
	static char buffer[1 << 20];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	double begun, written = 0;

	/* As the drain thread's: memory of its own, written to. */
	memset(buffer, 1, sizeof(buffer));
	begun = cpu_ns(RUSAGE_THREAD);
	while (written < 256 * sizeof(buffer)) {
		ssize_t done = write(fd, buffer, sizeof(buffer));

		if (done <= 0)
			exit(1);
		written += (double)done;
	}
	begun = cpu_ns(RUSAGE_THREAD) - begun;
	close(fd);
	unlink(path);
	return begun / written * bytes;
}

int main(int argc, char **argv)
{
	struct rp_session_stats stats = { .size = sizeof(stats) };
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
	if (stats.delivered + stats.lost != offered) {
		fprintf(stderr, "throughput: %lu offered, %lu accounted for\n", offered,
			stats.delivered + stats.lost);
		return 1;
	}
	return 0;
}
