/* SPDX-License-Identifier: MIT */
/*
 * Counting, beside a relaxed atomic add on a word that nobody else touches: alone, and with up to
 * eight threads at once. Time is the threads' own, so that it says the same on few processors.
 */
#include <pthread.h>
#include <stdint.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define ROUNDS 15u
#define COUNTS 1000000u
#define THREADS 8u

RP_PROVIDER(bench, "Bench-Counters");
RP_COUNTER(bench, added, NULL, NULL);
RP_HISTOGRAM(bench, recorded, NULL, NULL);

struct word {
	_Alignas(64) uint64_t value;
};

static struct rp_counter *series;

static double thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void add_atomic(struct word *word)
{
	for (unsigned int i = 0; i < COUNTS; i++)
		__atomic_fetch_add(&word->value, 1, __ATOMIC_RELAXED);
}

static void add_counter(struct word *word)
{
	(void)word;
	for (unsigned int i = 0; i < COUNTS; i++)
		bench_added_add(1);
}

static void add_series(struct word *word)
{
	(void)word;
	for (unsigned int i = 0; i < COUNTS; i++)
		rp_counter_add(series, 1);
}

static void record(struct word *word)
{
	(void)word;
	for (unsigned int i = 0; i < COUNTS; i++)
		bench_recorded_record((double)(i & 1023));
}

struct job {
	pthread_t thread;
	pthread_barrier_t *start;
	void (*work)(struct word *word);
	struct word word;
	double ns;
};

static void *run(void *data)
{
	struct job *job = data;
	double begun;

	pthread_barrier_wait(job->start);
	begun = thread_ns();
	job->work(&job->word);
	job->ns = (thread_ns() - begun) / COUNTS;
	return NULL;
}

/* The threads' time for one call. */
static double round_of(void (*work)(struct word *word), unsigned int threads)
{
	struct job jobs[THREADS];
	pthread_barrier_t start;
	double ns = 0;

	pthread_barrier_init(&start, NULL, threads);
	for (unsigned int i = 0; i < threads; i++) {
		jobs[i].start = &start;
		jobs[i].work = work;
		pthread_create(&jobs[i].thread, NULL, run, &jobs[i]);
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(jobs[i].thread, NULL);
		ns += jobs[i].ns / threads;
	}
	pthread_barrier_destroy(&start);
	return ns;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*work)(struct word *word);
		unsigned int threads;
	} rows[] = {
		{ "relaxed atomic add", add_atomic, 1 },
		{ "counter", add_counter, 1 },
		{ "counter, 2 threads", add_counter, 2 },
		{ "counter, 4 threads", add_counter, 4 },
		{ "counter, 8 threads", add_counter, 8 },
		{ "series with tags", add_series, 1 },
		{ "histogram", record, 1 },
	};
	enum { COUNT = sizeof(rows) / sizeof(rows[0]) };
	const struct rp_counter_tag tag = { "key", "value" };
	double ns[COUNT][ROUNDS];

	if (rp_counter_series(bench_added_counter(), &tag, 1, &series) != 0)
		return 1;
	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		for (unsigned int row = 0; row < COUNT; row++)
			ns[row][i] = round_of(rows[row].work, rows[row].threads);
	}
	for (unsigned int row = 0; row < COUNT; row++)
		figure_rounds(rows[row].name, ns[row], bench_rounds(ROUNDS));
	return 0;
}
