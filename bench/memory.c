/* SPDX-License-Identifier: MIT */
/*
 * What each thing takes of memory, as the growth of what is resident by many of them.
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define MANY 1000u
#define SESSIONS 10u

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

int main(void)
{
	providers();
	series("a series of a counter", bench_counted_counter(), 0);
	series("a series of a histogram, one value in it", bench_recorded_counter(), 1);
	sessions();
	return 0;
}
