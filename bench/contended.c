/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of preemption and shared rings: up to 64 threads on one CPU compared with one
 * thread there. The time is the CPU's, divided by the events of all threads.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 20u
#define EVENTS 80000u
#define THREADS 64u

RP_PROVIDER(bench, "Bench-Contended");
RP_EVENT(bench, bytes32, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static double thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

struct job {
	pthread_t thread;
	pthread_barrier_t *start;
	unsigned int count;
	double ns;
};

static void *run(void *data)
{
	struct job *job = data;
	double begun;

	stay_on(0);
	pthread_barrier_wait(job->start);
	begun = thread_ns();
	for (unsigned int i = 0; i < job->count; i++)
		bench_bytes32(i, i, i, i);
	job->ns = thread_ns() - begun;
	return NULL;
}

/* CPU time per event, all threads together. */
static double round_of(unsigned int threads)
{
	struct job jobs[THREADS];
	pthread_barrier_t start;
	double ns = 0;

	pthread_barrier_init(&start, NULL, threads);
	for (unsigned int i = 0; i < threads; i++) {
		jobs[i].start = &start;
		jobs[i].count = EVENTS / threads;
		pthread_create(&jobs[i].thread, NULL, run, &jobs[i]);
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(jobs[i].thread, NULL);
		ns += jobs[i].ns;
	}
	pthread_barrier_destroy(&start);
	return ns / EVENTS;
}

int main(void)
{
	static const unsigned int counts[] = { 1, 2, 4, 8, 16, 32, THREADS };
	enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };
	struct rp_session *session = bench_start("Bench-Contended", "/dev/null", 256u << 20, 0);
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	static double ns[COUNTS][ROUNDS];
	uint64_t written = 0;
	char name[64];

	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		for (unsigned int j = 0; j < COUNTS; j++) {
			ns[j][i] = round_of(counts[j]);
			bench_settle(session, written += EVENTS);
		}
	}
	rp_session_stop(session, &stats);
	for (unsigned int j = 0; j < COUNTS; j++) {
		snprintf(name, sizeof(name), "%u thread%s on one CPU", counts[j],
			 counts[j] > 1 ? "s" : "");
		figure_rounds(name, ns[j], bench_rounds(ROUNDS));
	}
	figure("lost", (double)stats.lost, "events");
	return 0;
}
