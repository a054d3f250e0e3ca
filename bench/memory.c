/* SPDX-License-Identifier: MIT */
/*
 * What each thing takes of memory, as the growth of what is resident by many of them; and what a
 * listener takes of time, beside a session that writes the same events out.
 */
#include <sys/resource.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define MANY 1000u
#define SESSIONS 10u
#define EVENTS 1000000u
#define PACE_NS 500		/* 2 M/s */

RP_PROVIDER(bench, "Bench-Memory");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_COUNTER(bench, counted, NULL, NULL);
RP_HISTOGRAM(bench, recorded, NULL, NULL);

static double resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		exit(1);
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void providers(void)
{
	double before = resident_bytes();
	struct rp_provider *provider;
	char name[32];

	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "Bench-Provider-%u", i);
		if (rp_provider_create(name, NULL, NULL, &provider) != 0)
			exit(1);
	}
	figure("a provider", (resident_bytes() - before) / MANY, "B");
}

/* Series of a counter, or of a histogram that each record something. */
static void series(const char *name, struct rp_counter *counter, int is_histogram)
{
	double before = resident_bytes();
	struct rp_counter *one;
	char value[32];

	for (unsigned int i = 0; i < MANY; i++) {
		struct rp_counter_tag tag = { "key", value };

		snprintf(value, sizeof(value), "%u", i);
		if (rp_counter_series(counter, &tag, 1, &one) != 0)
			exit(1);
		if (is_histogram)
			rp_counter_record(one, i);
		else
			rp_counter_add(one, 1);
	}
	figure(name, (resident_bytes() - before) / MANY, "B");
}

static void sessions(void)
{
	double before = resident_bytes();
	struct rp_session *list[SESSIONS];

	for (unsigned int i = 0; i < SESSIONS; i++)
		list[i] = bench_start("Bench-Memory", "/dev/null", 4u << 20, 0);
	figure("a session of 4 MB nobody wrote to", (resident_bytes() - before) / SESSIONS / 1024,
	       "kB");
	for (unsigned int i = 0; i < 1000000; i++)
		bench_bytes32(i, i, i, i);
	figure("a session of 4 MB, written full", (resident_bytes() - before) / SESSIONS / 1024,
	       "kB");
	for (unsigned int i = 0; i < SESSIONS; i++)
		rp_session_stop(list[i], NULL);
	figure("left after ten sessions", (resident_bytes() - before) / 1024, "kB");
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

static void write_paced(unsigned int count)
{
	double begun = now_ns();

	for (unsigned int i = 0; i < count; i++) {
		if (i % 64 == 0) {
			while (now_ns() < begun + (double)i * PACE_NS)
				;
		}
		bench_bytes32(i, i, i, i);
	}
}

static uint64_t heard;

static void hear(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
	__atomic_store_n(&heard, heard + 1, __ATOMIC_RELAXED);
}

static void listener(unsigned int count)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Bench-Memory", .level = RP_LEVEL_VERBOSE,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.buffer_bytes = 64u << 20,
	};
	double resident = resident_bytes(), before;
	struct rp_session *session;
	struct rp_listener *list;

	if (rp_listener_start(&options, hear, NULL, &list) != 0)
		exit(1);
	figure("a listener", (resident_bytes() - resident) / 1024, "kB");
	before = others_cpu_ns();
	write_paced(count);
	rp_listener_close(list);
	figure("listener, CPU of an event", (others_cpu_ns() - before) / (double)heard, "ns");
	figure("listener, heard", (double)heard / count * 100, "%");
	rp_listener_stop(list, NULL);
	session = bench_start("Bench-Memory", "/dev/null", 64u << 20, 0);
	before = others_cpu_ns();
	write_paced(count);
	rp_session_stop(session, NULL);
	figure("session to nowhere, CPU of an event", (others_cpu_ns() - before) / count, "ns");
}

int main(void)
{
	providers();
	series("a series of a counter", bench_counted_counter(), 0);
	series("a series of a histogram, one value in it", bench_recorded_counter(), 1);
	sessions();
	listener(bench_rounds(100) * (EVENTS / 100));
	return 0;
}
