/* SPDX-License-Identifier: MIT */
/*
 * A program that knows nothing of ringpipe: it measures a malloc/free pair, and locks that no other
 * thread has. inbox_cost.py runs it with and without libraries that wrap these functions. The time
 * is CPU time of the thread, and each figure is the best of the program's rounds.
 */
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"

#define ROUNDS 20u
#define COUNT 50000u
#define BLOCK_BYTES 64u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void allocate(void)
{
	void *volatile block = malloc(BLOCK_BYTES);

	free(block);
}

static void lock_mutex(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void lock_to_read(void)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
}

static double thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* libc takes faster paths as long as a process has had one thread only. */
static void *run_empty(void *data)
{
	return data;
}

static inline __attribute__((always_inline)) void measure(const char *name, void (*call)(void))
{
	const unsigned int rounds = bench_rounds(ROUNDS);
	double best[ROUNDS];

	for (unsigned int round = 0; round < rounds; round++) {
		const double start = thread_ns();

		for (unsigned int i = 0; i < COUNT; i++)
			call();
		best[round] = (thread_ns() - start) / COUNT;
	}
	sort_rounds(best, rounds);
	figure(name, best[0], "ns");
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_empty, NULL) != 0 ||
	    pthread_join(thread, NULL) != 0)
		return 1;
	measure("malloc and free", allocate);
	measure("mutex", lock_mutex);
	measure("read lock", lock_to_read);
	return 0;
}
