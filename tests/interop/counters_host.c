/* SPDX-License-Identifier: MIT */
/*
 * Counts with a counter of each kind, from several threads, waits until the sessions have all
 * values, and prints its own readings as JSON. RINGPIPE_CONFIG starts the sessions.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <ringpipe/ringpipe.h>

#define THREADS 4
#define COUNTS 20000

RP_PROVIDER(host, "Counters-Host");
RP_COUNTER(host, done, "things", "Things done");
RP_UPDOWN_COUNTER(host, level, NULL, "Level");
RP_GAUGE(host, heat, "C", NULL);
RP_HISTOGRAM(host, spread, "ms", "Spread");
RP_COUNTER(host, tagged, NULL, NULL);
RP_HISTOGRAM(host, tagged_spread, NULL, NULL);

static struct rp_counter *series[2];
static int asked;		/* number of reads of the observed counter */
static int finished;

static int observe(struct rp_observation *observation, void *data)
{
	(void)data;
	__atomic_fetch_add(&asked, 1, __ATOMIC_SEQ_CST);
	return rp_observe(observation, __atomic_load_n(&finished, __ATOMIC_SEQ_CST) ? 77 : 7, NULL,
			  0);
}

static int fail(struct rp_observation *observation, void *data)
{
	(void)observation, (void)data;
	return -5;
}

static void *count(void *data)
{
	int number = (int)(intptr_t)data;

	for (int i = 0; i < COUNTS; i++) {
		host_done_add(1);
		host_level_add(i % 3 - 1 + (i == 0));
		host_spread_record(number * COUNTS + i);
		rp_counter_add(series[i & 1], 2);
	}
	return NULL;
}

static struct rp_counter *create(const char *name, uint8_t kind,
				 int (*callback)(struct rp_observation *, void *))
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .kind = kind, .name = name,
					.observe = callback, .metadata = "k:v,k2:v2",
					.unit = "units", .rate_seconds = 60 };
	struct rp_counter *counter;

	if (rp_counter_create(host_provider(), &decl, &counter) != 0)
		exit(1);
	return counter;
}

static void print(const char *name, struct rp_counter *counter, const char *end)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	if (rp_counter_read(counter, &reading) != 0)
		exit(1);
	printf("\"%s\":{\"value\":%.17g,\"count\":%llu,\"sum\":%.17g,\"min\":%.17g,\"max\":%.17g,"
	       "\"p50\":%.17g,\"p95\":%.17g,\"p99\":%.17g}%s\n", name, reading.value,
	       (unsigned long long)reading.count, reading.sum, reading.min, reading.max,
	       reading.p50, reading.p95, reading.p99, end);
}

static void wait_for(int times)
{
	int until = __atomic_load_n(&asked, __ATOMIC_SEQ_CST) + times;

	while (__atomic_load_n(&asked, __ATOMIC_SEQ_CST) < until)
		poll(NULL, 0, 1);
}

int main(void)
{
	const struct rp_counter_tag tags[2] = { { "side", "left" }, { "side", "Grüße" } };
	struct rp_counter *observed = create("observed", RP_COUNTER_OBSERVED_SUM, observe), *gone;
	pthread_t threads[THREADS];

	create("failing", RP_COUNTER_OBSERVED_GAUGE, fail);
	gone = create("gone", RP_COUNTER_SUM, NULL);
	for (int i = 0; i < 2; i++) {
		if (rp_counter_series(host_tagged_counter(), &tags[i], 1, &series[i]) != 0)
			return 1;
	}
	/* The sessions have read the counters by now. */
	wait_for(3);
	rp_counter_destroy(gone);
	host_heat_set(36.6);
	rp_counter_record_tagged(host_tagged_spread_counter(), 5, tags, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&finished, 1, __ATOMIC_SEQ_CST);
	/* Both kinds of session have read the counters after that, in either order. */
	wait_for(6);
	printf("{");
	print("done", host_done_counter(), ",");
	print("level", host_level_counter(), ",");
	print("heat", host_heat_counter(), ",");
	print("spread", host_spread_counter(), ",");
	print("left", series[0], ",");
	print("right", series[1], ",");
	print("observed", observed, "}");
	return 0;
}
