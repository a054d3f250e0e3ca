/* SPDX-License-Identifier: MIT */
/*
 * Uses CPU time in two functions, with twice as much in the first; argument: milliseconds of the
 * second. With the argument `lock`, a thread holds a mutex 20 times, for 20 ms each, while the main
 * thread waits for it. Prints the ids of the threads.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS 3000000ull
#define ROUNDS 20

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t held, done;

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* A system call would show other functions, so the clock is read rarely. */
#define USE(ns) do { \
	uint64_t end = cpu_ns() + (ns); \
	while (cpu_ns() < end) { \
		for (volatile int i = 0; i < 20000; i++) \
			; \
	} \
} while (0)

__attribute__((noinline)) static void use_twice(uint64_t ns)
{
	USE(2 * ns);
	__asm__ volatile("");
}

__attribute__((noinline)) static void use_once(uint64_t ns)
{
	USE(ns);
	__asm__ volatile("");
}

__attribute__((noinline)) static void *hold_mutex(void *unused)
{
	printf("holder %ld\n", syscall(SYS_gettid));
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&mutex);
		sem_post(&held);
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
		pthread_mutex_unlock(&mutex);
		sem_wait(&done);
	}
	return unused;
}

__attribute__((noinline)) static void wait_for_mutex(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	__asm__ volatile("");
}

static void lock(void)
{
	pthread_t holder;

	sem_init(&held, 0, 0);
	sem_init(&done, 0, 0);
	printf("waiter %ld\nmutex %lu\n", syscall(SYS_gettid), (unsigned long)&mutex);
	pthread_create(&holder, NULL, hold_mutex, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		sem_wait(&held);
		wait_for_mutex();
		sem_post(&done);
	}
	pthread_join(holder, NULL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "lock")) {
		lock();
		return 0;
	}
	for (long slices = atol(argv[1]) * 1000000 / (long)SLICE_NS; slices > 0; slices--) {
		use_twice(SLICE_NS);
		use_once(SLICE_NS);
	}
	return 0;
}
