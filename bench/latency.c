/* SPDX-License-Identifier: MIT */
/*
 * Measures the distribution of an event's latency, with its thread alone on a CPU and with other
 * runnable threads there, which may preempt a write.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define SAMPLES 5000000u
#define STEPS 32u		/* buckets of the histogram between two powers of two */
#define BUCKETS (64u * STEPS)
#define PACE_NS 100		/* 10 M/s: the drain thread keeps up */

RP_PROVIDER(bench, "Bench-Latency");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

#if defined(__x86_64__)

static bool stopping;
static double ticks_per_ns;

static uint64_t ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void calibrate(void)
{
	double begun = now_ns();
	uint64_t from = ticks();

	while (now_ns() - begun < 50e6)
		;
	ticks_per_ns = (double)(ticks() - from) / (now_ns() - begun);
}

static unsigned int bucket_of(uint64_t value)
{
	unsigned int power = value < STEPS ? 0 : 63 - (unsigned int)__builtin_clzll(value) - 4;

	return power * STEPS / 2 + (unsigned int)(value >> power);
}

/* The lowest value of the bucket. */
static double value_of(unsigned int bucket)
{
	unsigned int power = bucket < STEPS ? 0 : bucket / (STEPS / 2) - 1;

	return (double)((uint64_t)(bucket - power * STEPS / 2) << power);
}

static void *compute(void *data)
{
	(void)data;
	stay_on(0);
	while (!__atomic_load_n(&stopping, __ATOMIC_RELAXED))
		;
	return NULL;
}

static void *write_too(void *data)
{
	(void)data;
	stay_on(0);
	while (!__atomic_load_n(&stopping, __ATOMIC_RELAXED)) {
		uint64_t until = ticks() + (uint64_t)(PACE_NS * ticks_per_ns);

		bench_bytes32(1, 2, 3, 4);
		while (ticks() < until)
			;
	}
	return NULL;
}

static void report(const char *condition, const uint64_t *histogram, uint64_t most)
{
	static const double shares[] = { 0.5, 0.9, 0.99, 0.999, 0.9999 };
	enum { SHARES = sizeof(shares) / sizeof(shares[0]) };
	uint64_t count = 0, seen = 0;
	unsigned int share = 0;
	char name[64];

	for (unsigned int i = 0; i < BUCKETS; i++)
		count += histogram[i];
	for (unsigned int i = 0; i < BUCKETS && share < SHARES; i++) {
		seen += histogram[i];
		while (share < SHARES && (double)seen >= shares[share] * (double)count) {
			snprintf(name, sizeof(name), "%s, p%g", condition, shares[share] * 100);
			figure(name, value_of(i) / ticks_per_ns, "ns");
			figure_point(condition, 1 / (1 - shares[share]), value_of(i) / ticks_per_ns,
				     "ns");
			share++;
		}
	}
	snprintf(name, sizeof(name), "%s, longest", condition);
	figure(name, (double)most / ticks_per_ns, "ns");
}

static void measure(const char *condition, void *(*competitor)(void *data), unsigned int samples)
{
	static uint64_t histogram[BUCKETS];
	uint64_t most = 0;
	pthread_t thread;

	memset(histogram, 0, sizeof(histogram));
	stopping = false;
	if (competitor && pthread_create(&thread, NULL, competitor, NULL) != 0)
		exit(1);
	for (unsigned int i = 0; i < samples; i++) {
		uint64_t begun = ticks(), took;

		bench_bytes32(i, i, i, i);
		took = ticks() - begun;
		histogram[bucket_of(took)]++;
		most = took > most ? took : most;
		while (ticks() < begun + (uint64_t)(PACE_NS * ticks_per_ns))
			;
	}
	__atomic_store_n(&stopping, true, __ATOMIC_RELAXED);
	if (competitor)
		pthread_join(thread, NULL);
	report(condition, histogram, most);
}

int main(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	unsigned int samples = bench_rounds(100) * (SAMPLES / 100);
	struct rp_session *session;

	calibrate();
	session = bench_start("Bench-Latency", "/dev/null", 64u << 20, 0);
	stay_on(0);
	measure("alone", NULL, samples);
	measure("with a computing thread", compute, samples);
	measure("with a writing thread", write_too, samples);
	rp_session_stop(session, &stats);
	figure("lost", (double)stats.lost, "events");
	return 0;
}

#else

int main(void)
{
	return 77;
}

#endif
