/* SPDX-License-Identifier: MIT */
/*
 * Measures listeners: CPU time of all threads except the writer's per delivered event, by the
 * number of listeners and by the event's bytes, compared with a session that writes to /dev/null;
 * and memory.
 *
 * The writer keeps a pace at which nothing is lost.
 */
#include <sys/resource.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUND_NS 300e6
#define HEARD_PACE_NS 500.0	/* 2 M/s for all listeners together */
#define BYTES_PACE_NS 2.0	/* 500 MB/s */
#define BURST 32u
#define BUFFER_BYTES (64u << 20)

RP_PROVIDER(bench, "Bench-Listener");
RP_EVENT(bench, blob, 1, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(b));

static char from[16384];
static uint64_t heard;

static void hear(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
	__atomic_fetch_add(&heard, 1, __ATOMIC_RELAXED);
}

static double others_cpu_ns(void)
{
	struct rusage all, own;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &own);
	return (double)(all.ru_utime.tv_sec + all.ru_stime.tv_sec - own.ru_utime.tv_sec -
			own.ru_stime.tv_sec) * 1e9 +
	       (double)(all.ru_utime.tv_usec + all.ru_stime.tv_usec - own.ru_utime.tv_usec -
			own.ru_stime.tv_usec) * 1e3;
}

static struct rp_listener *listen_to_all(size_t buffer_bytes)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Bench-Listener", .level = RP_LEVEL_VERBOSE,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.buffer_bytes = buffer_bytes,
	};
	struct rp_listener *listener;

	if (rp_listener_start(&options, hear, NULL, &listener) != 0)
		exit(1);
	return listener;
}

/* Return: how many events. */
static uint64_t write_paced(size_t bytes, double pace_ns)
{
	double begun = now_ns(), round_ns = bench_rounds(100) * (ROUND_NS / 100);
	uint64_t count = 0;

	while ((double)count * pace_ns < round_ns) {
		while (now_ns() < begun + (double)count * pace_ns)
			;
		for (unsigned int i = 0; i < BURST; i++)
			bench_blob(from, bytes);
		count += BURST;
	}
	return count;
}

static double pace_of(size_t bytes, unsigned int listeners)
{
	double pace = BYTES_PACE_NS * (double)bytes;

	return (pace > HEARD_PACE_NS ? pace : HEARD_PACE_NS) * listeners;
}

/* Return: CPU time for each event heard. */
static double measure(unsigned int count, size_t bytes)
{
	struct rp_listener *list[RP_SESSIONS_MAX];
	double before, cpu;
	uint64_t written;

	for (unsigned int i = 0; i < count; i++)
		list[i] = listen_to_all(BUFFER_BYTES / count);
	__atomic_store_n(&heard, 0, __ATOMIC_RELAXED);
	before = others_cpu_ns();
	written = write_paced(bytes, pace_of(bytes, count));
	for (unsigned int i = 0; i < count; i++)
		rp_listener_drain(list[i]);
	cpu = others_cpu_ns() - before;
	for (unsigned int i = 0; i < count; i++)
		rp_listener_stop(list[i], NULL);
	figure_point("delivered to listeners", count,
		     (double)heard / (double)(written * count) * 100, "%");
	return heard ? cpu / (double)heard : 0;
}

static double to_nowhere(size_t bytes)
{
	struct rp_session *session = bench_start("Bench-Listener", "/dev/null", BUFFER_BYTES, 0);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	double before = others_cpu_ns();

	write_paced(bytes, pace_of(bytes, 1));
	rp_session_stop(session, &stats);
	return (others_cpu_ns() - before) / (double)stats.delivered;
}

static void memory(const unsigned int *counts)
{
	struct rp_listener *list[RP_SESSIONS_MAX];
	double before = bench_resident_bytes();
	unsigned int have = 0;

	for (; *counts; counts++) {
		while (have < *counts)
			list[have++] = listen_to_all(RP_SESSION_BUFFER_MIN);
		figure_point("memory of listeners", have,
			     (bench_resident_bytes() - before) / 1024, "kB");
	}
	while (have > 0)
		rp_listener_stop(list[--have], NULL);
}

int main(void)
{
	static const unsigned int counts[] = { 1, 2, 4, 8, 16, 32, RP_SESSIONS_MAX, 0 };

	memory(counts);
	for (const unsigned int *count = counts; *count; count++)
		figure_point("listeners", *count, measure(*count, 32), "ns");
	for (size_t bytes = 8; bytes <= sizeof(from); bytes *= 4) {
		figure_point("listener", (double)bytes, measure(1, bytes), "ns");
		figure_point("session without output", (double)bytes, to_nowhere(bytes), "ns");
	}
	return 0;
}
