/* SPDX-License-Identifier: MIT */
/*
 * Measures how long the start and the stop of a session take with other sessions, with live
 * threads, with threads that write at the time, and by the size of its rings. Also measures the
 * time and memory of the first events of many live threads.
 *
 *	starts [MOST]	no more than MOST threads
 */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "clock.h"
#include "session.h"

#define ROUNDS 15u
#define STACK_BYTES (64u << 10)
#define USED_BYTES (8u << 10)	/* of its stack, as a typical thread uses */
#define WRITERS_MAX 16u
#define PAUSE_US 100u

RP_PROVIDER(bench, "Bench-Starts");
RP_EVENT(bench, once, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));

/* Written while sessions of Bench-Starts start and stop. */
RP_PROVIDER(other, "Bench-Other");
RP_EVENT(other, often, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a));

static void start_and_stop(const char *what, unsigned int x, size_t buffer_bytes)
{
	double start = 1e18, stop = 1e18, begun, started, stopped;
	char curve[64];

	for (unsigned int i = 0; i < bench_rounds(ROUNDS); i++) {
		struct rp_session *session;

		begun = now_ns();
		session = bench_start("Bench-Starts", "/dev/null", buffer_bytes, 0);
		started = now_ns();
		rp_session_stop(session, NULL);
		stopped = now_ns();
		start = started - begun < start ? started - begun : start;
		stop = stopped - started < stop ? stopped - started : stop;
	}
	snprintf(curve, sizeof(curve), "start, by %s", what);
	figure_point(curve, x, start / 1e3, "us");
	snprintf(curve, sizeof(curve), "stop, by %s", what);
	figure_point(curve, x, stop / 1e3, "us");
}

static void with_sessions(void)
{
	static const unsigned int counts[] = { 1, 2, 4, 8, 16, 32, RP_SESSIONS_MAX };
	struct rp_session *list[RP_SESSIONS_MAX];
	unsigned int have = 0;

	for (unsigned int i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		for (; have < counts[i] - 1; have++)
			list[have] = bench_start("Bench-Starts", "/dev/null", 1u << 20, 0);
		start_and_stop("sessions", counts[i], 1u << 20);
	}
	while (have > 0)
		rp_session_stop(list[--have], NULL);
}

static void with_space(void)
{
	for (unsigned int megabytes = 1; megabytes <= 1024; megabytes *= 4)
		start_and_stop("MB", megabytes, (size_t)megabytes << 20);
}

static int stopping;

static void *write_often(void *data)
{
	(void)data;
	while (!__atomic_load_n(&stopping, __ATOMIC_RELAXED)) {
		other_often(1);
		bench_once(1);
		usleep(PAUSE_US);
	}
	return NULL;
}

static void with_writers(void)
{
	struct rp_session *session = bench_start("Bench-Other", "/dev/null", 1u << 20, 0);
	pthread_t list[WRITERS_MAX];
	unsigned int have = 0;

	for (unsigned int count = 1; count <= WRITERS_MAX; count *= 2) {
		for (; have < count; have++) {
			if (pthread_create(&list[have], NULL, write_often, NULL) != 0)
				exit(1);
		}
		start_and_stop("writers", count, 1u << 20);
	}
	__atomic_store_n(&stopping, 1, __ATOMIC_RELAXED);
	while (have > 0)
		pthread_join(list[--have], NULL);
	rp_session_stop(session, NULL);
}

static sem_t ready, wrote;
static pthread_barrier_t write_now, leave_now;

static void *live(void *data)
{
	volatile char used[USED_BYTES];

	for (size_t i = 0; i < sizeof(used); i += 512)
		used[i] = 1;
	sem_post(&ready);
	pthread_barrier_wait(&write_now);
	bench_once((uint64_t)(uintptr_t)data);
	sem_post(&wrote);
	pthread_barrier_wait(&leave_now);
	return NULL;
}

static void wait_for(sem_t *semaphore, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		while (sem_wait(semaphore) != 0)
			;
	}
}

/* Threads that are alive simultaneously; each writes one event. */
static void with_threads(unsigned int count)
{
	pthread_t *list = calloc(count, sizeof(*list));
	struct rp_session *session;
	double resident, begun;
	pthread_attr_t attributes;

	if (!list)
		exit(1);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_barrier_init(&write_now, NULL, count + 1);
	pthread_barrier_init(&leave_now, NULL, count + 1);
	for (unsigned int i = 0; i < count; i++) {
		/*
		 * The earlier figures are printed; their x values show how far the benchmark got.
		 */
		if (pthread_create(&list[i], &attributes, live, (void *)(uintptr_t)i) != 0)
			exit(0);
	}
	wait_for(&ready, count);
	resident = bench_resident_bytes();
	session = bench_start("Bench-Starts", "/dev/null", 1u << 20, 0);
	begun = now_ns();
	pthread_barrier_wait(&write_now);
	wait_for(&wrote, count);
	figure_point("first event of each thread", count, (now_ns() - begun) / count / 1e3, "us");
	figure_point("session and threads alive", count, (bench_resident_bytes() - resident) / 1024,
		     "kB");
	rp_session_stop(session, NULL);
	start_and_stop("threads", count, 1u << 20);
	pthread_barrier_wait(&leave_now);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(list[i], NULL);
	pthread_barrier_destroy(&leave_now);
	pthread_barrier_destroy(&write_now);
	pthread_attr_destroy(&attributes);
	free(list);
}

int main(int argc, char **argv)
{
	unsigned int most = argc > 1 ? (unsigned int)atoi(argv[1]) : 10000;

	sem_init(&ready, 0, 0);
	sem_init(&wrote, 0, 0);
	with_sessions();
	with_space();
	with_writers();
	fflush(stdout);
	for (unsigned int count = 1; count <= most; count *= 10) {
		with_threads(count);
		fflush(stdout);
	}
	return 0;
}
