/* SPDX-License-Identifier: MIT */
/*
 * Measures counting, compared with a relaxed atomic add to a private word: in one thread, and in up
 * to 64 threads, compared with as many threads that add to one word. The time is CPU time, so the
 * result does not depend on the number of processors.
 */
#include <pthread.h>
#include <stdint.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"

#define ROUNDS 15u
#define COUNTS 200u	/* thousands */
#define THREADS 64u

RP_PROVIDER(bench, "Bench-Counters");
RP_COUNTER(bench, added, NULL, NULL);
RP_HISTOGRAM(bench, recorded, NULL, NULL);

struct word {
	_Alignas(64) uint64_t value;
};

static struct rp_counter *series;
static struct word shared;
static unsigned int counts;	/* by each thread in a round */

static double thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void add_atomic(struct word *word)
{
	for (unsigned int i = 0; i < counts; i++)
		__atomic_fetch_add(&word->value, 1, __ATOMIC_RELAXED);
}

static void add_shared(struct word *word)
{
	(void)word;
	add_atomic(&shared);
}

static void add_counter(struct word *word)
{
	(void)word;
	for (unsigned int i = 0; i < counts; i++)
		bench_added_add(1);
}

static void add_series(struct word *word)
{
	(void)word;
	for (unsigned int i = 0; i < counts; i++)
		rp_counter_add(series, 1);
}

static void record(struct word *word)
{
	(void)word;
	for (unsigned int i = 0; i < counts; i++)
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
	job->ns = (thread_ns() - begun) / counts;
	return NULL;
}

/* The threads' CPU time per call. */
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

struct row {
	const char *name;
	void (*work)(struct word *word);
	unsigned int threads;
};

#define ROWS_MAX 32u
static struct row rows[ROWS_MAX];
static unsigned int row_count;

static void plan(const char *name, void (*work)(struct word *word), unsigned int threads)
{
	static char names[ROWS_MAX][64];

	if (threads > 1)
		snprintf(names[row_count], sizeof(names[0]), "%s, %u threads", name, threads);
	else
		snprintf(names[row_count], sizeof(names[0]), "%s", name);
	rows[row_count] = (struct row){ names[row_count], work, threads };
	row_count++;
}

int main(void)
{
	const struct rp_counter_tag tag = { "key", "value" };
	static double ns[ROWS_MAX][ROUNDS];

	if (rp_counter_series(bench_added_counter(), &tag, 1, &series) != 0)
		return 1;
	counts = bench_rounds(COUNTS) * 1000;
	plan("relaxed atomic add", add_atomic, 1);
	for (unsigned int threads = 1; threads <= THREADS; threads *= 2) {
		plan("counter", add_counter, threads);
		plan("atomic add to one word", add_shared, threads);
	}
	plan("series with tags", add_series, 1);
	plan("histogram", record, 1);
	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		for (unsigned int row = 0; row < row_count; row++)
			ns[row][i] = round_of(rows[row].work, rows[row].threads);
	}
	for (unsigned int row = 0; row < row_count; row++)
		figure_rounds(rows[row].name, ns[row], bench_rounds(ROUNDS));
	return 0;
}
