/* SPDX-License-Identifier: MIT */
/*
 * Measures memory per object, as the growth of resident memory with many objects.
 */
#include <malloc.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define SESSION_BYTES (1u << 20)

RP_PROVIDER(bench, "Bench-Memory");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_COUNTER(bench, counted, NULL, NULL);
RP_HISTOGRAM(bench, recorded, NULL, NULL);

static const unsigned int counts[] = { 1, 10, 100, 1000, 0 };

static void providers(void)
{
	double before = bench_resident_bytes();
	struct rp_provider *provider;
	unsigned int have = 0;
	char name[32];

	for (const unsigned int *count = counts; *count; count++) {
		for (; have < *count; have++) {
			snprintf(name, sizeof(name), "Bench-Provider-%u", have);
			if (rp_provider_create(name, NULL, NULL, &provider) != 0)
				exit(1);
		}
		figure_point("providers", have, (bench_resident_bytes() - before) / 1024, "kB");
	}
}

/* Creates series of a counter, or of a histogram in which each series records values. */
static void series(const char *curve, struct rp_counter *counter, int is_histogram)
{
	double before = bench_resident_bytes();
	struct rp_counter *one;
	unsigned int have = 0;
	char value[32];

	for (const unsigned int *count = counts; *count; count++) {
		for (; have < *count; have++) {
			struct rp_counter_tag tag = { "key", value };

			snprintf(value, sizeof(value), "%u", have);
			if (rp_counter_series(counter, &tag, 1, &one) != 0)
				exit(1);
			if (is_histogram)
				rp_counter_record(one, have);
			else
				rp_counter_add(one, 1);
		}
		figure_point(curve, have, (bench_resident_bytes() - before) / 1024, "kB");
	}
}

static void sessions(void)
{
	static const unsigned int session_counts[] = { 1, 2, 4, 8, 16, 32, RP_SESSIONS_MAX, 0 };
	struct rp_session *list[RP_SESSIONS_MAX];
	double before = bench_resident_bytes(), idle;
	unsigned int have = 0;

	for (const unsigned int *count = session_counts; *count; count++) {
		while (have < *count)
			list[have++] = bench_start("Bench-Memory", "/dev/null", SESSION_BYTES, 0);
		figure_point("sessions without events", have,
			     (bench_resident_bytes() - before) / 1024, "kB");
	}
	idle = bench_resident_bytes();
	for (unsigned int i = 0; i < SESSION_BYTES / 8; i++)
		bench_bytes32(i, i, i, i);
	figure("a full session of 1 MB, beyond an idle one",
	       (bench_resident_bytes() - idle) / RP_SESSIONS_MAX / 1024, "kB");
	while (have > 0)
		rp_session_stop(list[--have], NULL);
	malloc_trim(0);
	figure("left after 40 sessions", (bench_resident_bytes() - before) / 1024, "kB");
}

int main(void)
{
	providers();
	series("series of a counter", bench_counted_counter(), 0);
	series("series of a histogram, a value in each", bench_recorded_counter(), 1);
	sessions();
	return 0;
}
