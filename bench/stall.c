/* SPDX-License-Identifier: MIT */
/*
 * Measures the effect of a stalled disk: one thread writes events of 32 bytes at a given rate, and
 * one write(2) to the file blocks for a while. Compares the losses that the file reports, the sum
 * of its events EventsLost, with the events that it lacks.
 *
 *	stall FILE RATE-IN-MILLIONS STALL-IN-MS [BLOCK-MS]
 *
 * This program defines write(2), which the library calls, so the stall needs no slow disk.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "instead.h"
#include "session.h"

#define BATCH 100u
#define BEFORE_NS 200e6
#define AFTER_NS 300e6
#define BUFFER_BYTES (64u << 20)

RP_PROVIDER(bench, "Bench-Stall");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static unsigned int stall_ms;	/* how long the next write blocks; that write resets it */

ssize_t stalled_write(int fd, const void *bytes, size_t size) BENCH_INSTEAD_OF(write);

ssize_t stalled_write(int fd, const void *bytes, size_t size)
{
	unsigned int ms = __atomic_exchange_n(&stall_ms, 0, __ATOMIC_RELAXED);

	if (ms)
		usleep(ms * 1000);
	return syscall(SYS_write, fd, bytes, size);
}

/*
 * Offers events until some time after the stall, and catches up if it is late. Return: the number
 * of events; `ret_longest_ns` is the longest time of a batch.
 */
static uint64_t offer(double per_second, unsigned int ms, double *ret_longest_ns)
{
	double share = bench_rounds(100) / 100.0, begun = now_ns(), longest = 0, now;
	double from = begun + share * BEFORE_NS, end = from + ms * 1e6 + share * AFTER_NS;
	uint64_t offered = 0;
	int stalled = 0;

	for (now = begun; now < end; now = now_ns()) {
		if (!stalled && now > from) {
			__atomic_store_n(&stall_ms, ms, __ATOMIC_RELAXED);
			stalled = 1;
		}
		if ((double)offered > per_second * (now - begun) / 1e9)
			continue;
		for (unsigned int i = 0; i < BATCH; i++)
			bench_bytes32(offered + i, offered, i, 1);
		offered += BATCH;
		longest = now_ns() - now > longest ? now_ns() - now : longest;
	}
	*ret_longest_ns = longest;
	return offered;
}

/* Counts the file's events, and the losses in the last field of its events EventsLost. */
static void read_back(const char *path, uint64_t *ret_seen, uint64_t *ret_reported)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint64_t seen = 0, reported = 0, count;
	int ret = rp_reader_open(path, &reader);

	while (ret >= 0 && (ret = rp_reader_next(reader, &event)) == 1) {
		if (strcmp(event.type->name, "EventsLost") == 0 && event.payload_bytes > 8) {
			memcpy(&count, (const char *)event.payload + event.payload_bytes - 8, 8);
			reported += count;
		} else if (strcmp(event.type->provider, "Bench-Stall") == 0) {
			seen++;
		}
	}
	if (ret < 0) {
		fprintf(stderr, "stall: %s: %s\n", path, strerror(-ret));
		exit(1);
	}
	rp_reader_close(reader);
	*ret_seen = seen;
	*ret_reported = reported;
}

int main(int argc, char **argv)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Bench-Stall", .level = RP_LEVEL_VERBOSE,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.buffer_bytes = BUFFER_BYTES, .output_fd = -1,
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	uint64_t offered, seen, reported;
	struct rp_session *session;
	double longest;

	if (argc < 4) {
		fprintf(stderr, "usage: stall FILE RATE-IN-MILLIONS STALL-IN-MS [BLOCK-MS]\n");
		return 2;
	}
	options.output_path = argv[1];
	options.block_ms = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
	if (rp_session_start(&options, &session) != 0)
		return 1;
	offered = offer(atof(argv[2]) * 1e6, (unsigned int)atoi(argv[3]), &longest);
	rp_session_stop(session, &stats);
	read_back(argv[1], &seen, &reported);
	unlink(argv[1]);
	figure("offered", (double)offered, "events");
	figure("lost", (double)stats.lost, "events");
	figure("missing in the file", (double)(offered - seen), "events");
	figure("reported in the file", (double)reported, "events");
	figure("longest batch", longest / 1e6, "ms");
	return 0;
}
