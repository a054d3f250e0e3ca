/* SPDX-License-Identifier: MIT */
/*
 * Measures how the costs of counters grow: counting, finding series by their tags, and reading, by
 * the number of series; and reporting to a client, by the number of counters.
 */
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 15u
#define COUNTS 100000u
#define SERIES_MAX (RP_COUNTER_SERIES_MAX - 1)	/* the series without tags is the other one */
#define COUNTERS_MAX 10000u
#define REPORTED_TIMES 6u

RP_PROVIDER(bench, "Bench-Series");
RP_COUNTER(bench, counted, NULL, NULL);

static struct rp_counter *list[SERIES_MAX];
static char values[SERIES_MAX][12];

static void count_one_by_one(unsigned int count)
{
	for (unsigned int i = 0, at = 0; i < COUNTS; i++) {
		rp_counter_add(list[at], 1);
		at = at + 1 < count ? at + 1 : 0;
	}
}

static void find_one_by_one(unsigned int count)
{
	struct rp_counter_tag tag = { "key", NULL };

	for (unsigned int i = 0, at = 0; i < COUNTS / 10; i++) {
		tag.value = values[at];
		rp_counter_add_tagged(bench_counted_counter(), 1, &tag, 1);
		at = at + 1 < count ? at + 1 : 0;
	}
}

static void read_all(unsigned int count)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	(void)count;
	rp_counter_read(bench_counted_counter(), &reading);
}

static double best_of(void (*work)(unsigned int count), unsigned int count)
{
	double best = 1e18, begun, took;

	for (unsigned int round = 0; round < bench_rounds(ROUNDS); round++) {
		begun = now_ns();
		work(count);
		took = now_ns() - begun;
		best = took < best ? took : best;
	}
	return best;
}

static void series(void)
{
	static const unsigned int counts[] = { 1, 10, 100, 1000, SERIES_MAX };
	unsigned int have = 0;
	double begun, made;

	for (unsigned int i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		unsigned int count = counts[i], some = count - have;

		begun = now_ns();
		for (; have < count; have++) {
			struct rp_counter_tag tag = { "key", values[have] };

			snprintf(values[have], sizeof(values[have]), "%u", have);
			if (rp_counter_series(bench_counted_counter(), &tag, 1, &list[have]) != 0)
				exit(1);
		}
		made = (now_ns() - begun) / some;
		figure_point("made", count, made, "ns");
		figure_point("counted, by a stored pointer", count,
			     best_of(count_one_by_one, count) / COUNTS, "ns");
		figure_point("counted, by its tag", count,
			     best_of(find_one_by_one, count) / (COUNTS / 10), "ns");
		figure_point("all read", count, best_of(read_all, count) / 1e3, "us");
	}
}

static double clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double others_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* CPU time of all other threads per reported counter, while the program is idle. */
static void report(unsigned int count)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Bench-Reported", .level = RP_LEVEL_VERBOSE,
		.filter_data = "EventCounterIntervalSec=0.05",
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.output_path = "/dev/null", .output_fd = -1,
	};
	struct rp_session_stats before = RP_SESSION_STATS_INIT;
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	double cpu;

	if (rp_session_start(&options, &session) != 0)
		exit(1);
	/* The first report also allocates the client's state. */
	bench_settle(session, count);
	rp_session_get_stats(session, &before);
	cpu = others_cpu_ns();
	/*
	 * Counts from the current position: on a busy machine, more than one report may have been
	 * sent.
	 */
	bench_settle(session, before.delivered + bench_rounds(REPORTED_TIMES) * (uint64_t)count);
	rp_session_get_stats(session, &stats);
	cpu = others_cpu_ns() - cpu;
	rp_session_stop(session, NULL);
	figure_point("emitting a counter", count,
		     cpu / (double)(stats.delivered - before.delivered), "ns");
}

static void reporting(void)
{
	struct rp_provider *provider;
	struct rp_counter *counter;
	unsigned int have = 0;
	char name[32];

	if (rp_provider_create("Bench-Reported", NULL, NULL, &provider) != 0)
		exit(1);
	for (unsigned int count = 10; count <= COUNTERS_MAX; count *= 10) {
		for (; have < count; have++) {
			struct rp_counter_decl decl = {
				.size = sizeof(decl), .kind = RP_COUNTER_SUM, .name = name,
			};

			snprintf(name, sizeof(name), "counter-%u", have);
			if (rp_counter_create(provider, &decl, &counter) != 0)
				exit(1);
		}
		report(count);
	}
}

int main(void)
{
	series();
	reporting();
	return 0;
}
