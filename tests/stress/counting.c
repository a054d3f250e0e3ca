/* SPDX-License-Identifier: MIT */
/*
 * Counters under load: writers on several threads, whose signal handlers interrupt counting and
 * count too, moved between processors, while windows are read continuously. Each writer keeps
 * separate counts. Sums, counts and the histogram's sum (of whole numbers) are exact, and the
 * readings of a window add up to the same values.
 */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

#define WRITERS 6u
#define COUNTS 300000u
#define VALUES 1000u		/* recorded values: 1 to VALUES */

RP_PROVIDER(stress, "Stress-Counting");
RP_COUNTER(stress, sum, NULL, NULL);
RP_UPDOWN_COUNTER(stress, level, NULL, NULL);
RP_HISTOGRAM(stress, spread, NULL, NULL);

/* A writer's counts; the handler's are separate, since it may interrupt an update of the others. */
struct writer {
	pthread_t thread;
	uint64_t counts;
	uint64_t sum, handler_sum;
	int64_t level, handler_level;
	uint64_t records, handler_records;
	uint64_t recorded, handler_recorded;
	uint32_t ended;
} __attribute__((aligned(64)));

static __thread struct writer *self;
static struct rp_counter *series;
static uint32_t all_ended;

static void on_usr1(int signal)
{
	struct writer *writer = self;

	(void)signal;
	if (!writer)
		return;
	stress_sum_add(3);
	writer->handler_sum += 3;
	stress_level_add(-1);
	writer->handler_level--;
	stress_spread_record(VALUES);
	writer->handler_records++;
	writer->handler_recorded += VALUES;
}

static void *count(void *data)
{
	struct writer *writer = data;

	self = writer;
	for (uint64_t i = 0; i < writer->counts; i++) {
		uint64_t value = i % VALUES + 1;

		stress_sum_add(1);
		writer->sum++;
		rp_counter_add(series, 2);
		writer->sum += 2;
		stress_level_add(i % 2 ? -1 : 2);
		writer->level += i % 2 ? -1 : 2;
		stress_spread_record((double)value);
		writer->records++;
		writer->recorded += value;
	}
	__atomic_store_n(&writer->ended, 1, __ATOMIC_RELEASE);
	/* Signals still arrive: the handler's counts end with the thread. */
	while (!__atomic_load_n(&all_ended, __ATOMIC_ACQUIRE))
		sched_yield();
	return NULL;
}

/* Sends signals and moves threads between processors, until all have counted. */
static void *disturb(void *data)
{
	struct writer *writers = data;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t random = 5;
	unsigned int running;

	do {
		running = 0;
		for (unsigned int i = 0; i < WRITERS; i++) {
			cpu_set_t set;

			if (__atomic_load_n(&writers[i].ended, __ATOMIC_ACQUIRE))
				continue;
			running++;
			pthread_kill(writers[i].thread, SIGUSR1);
			CPU_ZERO(&set);
			CPU_SET(stress_random(&random) % (uint32_t)cpus, &set);
			pthread_setaffinity_np(writers[i].thread, sizeof(set), &set);
		}
		sched_yield();
	} while (running);
	__atomic_store_n(&all_ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Sums of all readings of the windows so far. */
struct reported {
	struct rp_counter_window *sum, *spread;
	double change, last, recorded, min, max;
	uint64_t records, readings;
	bool went_back;
};

static void look(struct reported *reported)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	if (rp_counter_window_read(reported->sum, &reading) != 0)
		abort();
	reported->change += reading.change;
	reported->went_back |= reading.change < 0 || reading.value < reported->last;
	reported->last = reading.value;
	if (rp_counter_window_read(reported->spread, &reading) != 0)
		abort();
	reported->records += reading.count;
	reported->recorded += reading.sum;
	if (reading.count && reading.min < reported->min)
		reported->min = reading.min;
	if (reading.max > reported->max)
		reported->max = reading.max;
	reported->readings++;
}

static struct rp_counter_reading read_counter(struct rp_counter *counter)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	if (rp_counter_read(counter, &reading) != 0)
		abort();
	return reading;
}

static void settle(const struct writer *writers, const struct reported *reported)
{
	uint64_t sum = 0, records = 0, recorded = 0;
	int64_t level = 0;
	struct rp_counter_reading reading;

	for (unsigned int i = 0; i < WRITERS; i++) {
		sum += writers[i].sum + writers[i].handler_sum;
		level += writers[i].level + writers[i].handler_level;
		records += writers[i].records + writers[i].handler_records;
		recorded += writers[i].recorded + writers[i].handler_recorded;
	}
	stress_check(reported->last == (double)sum, "sum %.0f, counted %" PRIu64, reported->last,
		     sum);
	stress_check(reported->change == (double)sum, "windows reported %.0f of %" PRIu64,
		     reported->change, sum);
	stress_check(!reported->went_back, "the sum went back");
	reading = read_counter(stress_level_counter());
	stress_check(reading.value == (double)level, "level %.0f, counted %" PRId64, reading.value,
		     level);
	reading = read_counter(stress_spread_counter());
	stress_check(reading.count == records, "%" PRIu64 " values, recorded %" PRIu64,
		     reading.count, records);
	stress_check(reading.sum == (double)recorded, "sum %.0f, recorded %" PRIu64, reading.sum,
		     recorded);
	stress_check(reported->records == records, "windows told %" PRIu64 " of %" PRIu64,
		     reported->records, records);
	stress_check(reported->recorded == (double)recorded, "windows told %.0f of %" PRIu64,
		     reported->recorded, recorded);
	/* A value may be recorded during a read, which then sees only its bucket. */
	stress_check(reported->min >= 1 && reported->min <= 1 + RP_HISTOGRAM_ERROR &&
		     reported->max >= VALUES && reported->max <= VALUES * (1 + RP_HISTOGRAM_ERROR),
		     "from %g to %g", reported->min, reported->max);
	stress_check(reading.min == 1 && reading.max == VALUES, "ever from %g to %g", reading.min,
		     reading.max);
	stress_note("%" PRIu64 " counted, %" PRIu64 " readings", sum, reported->readings);
}

static void run_writers(struct writer *writers, struct reported *reported)
{
	pthread_t disturber;

	for (unsigned int i = 0; i < WRITERS; i++) {
		writers[i].counts = stress_amount(COUNTS) * stress_rounds();
		stress_spawn(&writers[i].thread, count, &writers[i]);
	}
	stress_spawn(&disturber, disturb, writers);
	while (!__atomic_load_n(&all_ended, __ATOMIC_ACQUIRE))
		look(reported);
	pthread_join(disturber, NULL);
	for (unsigned int i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
	look(reported);
}

int main(void)
{
	const struct rp_counter_tag tag = { "key", "value" };
	struct sigaction action = { .sa_handler = on_usr1, .sa_flags = SA_RESTART };
	struct writer *writers = stress_alloc(WRITERS, sizeof(*writers));
	struct reported reported = { .min = 1e300 };

	stress_begin("counters are exact under threads, signals, migration and readers");
	sigaction(SIGUSR1, &action, NULL);
	if (rp_counter_series(stress_sum_counter(), &tag, 1, &series) != 0 ||
	    rp_counter_window_open(stress_sum_counter(), &reported.sum) != 0 ||
	    rp_counter_window_open(stress_spread_counter(), &reported.spread) != 0)
		abort();
	run_writers(writers, &reported);
	settle(writers, &reported);
	rp_counter_window_close(reported.sum);
	rp_counter_window_close(reported.spread);
	free(writers);
	stress_end();
	return stress_exit();
}
