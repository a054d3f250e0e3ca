/* SPDX-License-Identifier: MIT */
/*
 * Waits in known functions for known times, and prints each wait as it saw it: the kind and the
 * nanoseconds between a clock read before and one after. Then it prints, for each kind, how often
 * the kernel says that the thread went to sleep, and the thread that woke it.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 20

static int word, pipe_ends[2];

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* How often this thread gave up its processor. */
static long sleeps_so_far(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

__attribute__((noinline)) static void wait_for_time(long ns)
{
	nanosleep(&(struct timespec){ 0, ns }, NULL);
	__asm__ volatile("");
}

__attribute__((noinline)) static void wait_for_word(int round)
{
	while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) <= round)
		syscall(SYS_futex, &word, FUTEX_WAIT, round, NULL);
}

__attribute__((noinline)) static void wait_for_pipe(void)
{
	char byte;

	if (read(pipe_ends[0], &byte, 1) != 1)
		_exit(1);
}

__attribute__((noinline)) static void wake_by_word(int round)
{
	__atomic_store_n(&word, round + 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &word, FUTEX_WAKE, 1);
	__asm__ volatile("");
}

__attribute__((noinline)) static void wake_by_pipe(void)
{
	if (write(pipe_ends[1], "x", 1) != 1)
		_exit(1);
}

static void *wake(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
		wake_by_word(round);
	}
	for (int round = 0; round < ROUNDS; round++) {
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
		wake_by_pipe();
	}
	printf("waker %ld\n", syscall(SYS_gettid));
	return unused;
}

int main(void)
{
	static const long sleeps[] = { 300000, 2000000, 5000000, 20000000 };
	uint64_t took[3 * ROUNDS], begin;
	long sleeping[5];
	pthread_t waker;

	if (pipe(pipe_ends) < 0)
		return 1;
	sleeping[0] = sleeps_so_far();
	for (int round = 0; round < ROUNDS; round++) {
		begin = now_ns();
		wait_for_time(sleeps[round % 4]);
		took[round] = now_ns() - begin;
	}
	sleeping[1] = sleeps_so_far();
	pthread_create(&waker, NULL, wake, NULL);
	sleeping[4] = sleeps_so_far();
	for (int round = 0; round < ROUNDS; round++) {
		begin = now_ns();
		wait_for_word(round);
		took[ROUNDS + round] = now_ns() - begin;
	}
	sleeping[2] = sleeps_so_far();
	for (int round = 0; round < ROUNDS; round++) {
		begin = now_ns();
		wait_for_pipe();
		took[2 * ROUNDS + round] = now_ns() - begin;
	}
	sleeping[3] = sleeps_so_far();
	pthread_join(waker, NULL);
	for (int i = 0; i < 3 * ROUNDS; i++)
		printf("%s %llu\n", i < ROUNDS ? "time" : i < 2 * ROUNDS ? "word" : "pipe",
		       (unsigned long long)took[i]);
	printf("time_sleeps %ld\nword_sleeps %ld\npipe_sleeps %ld\n", sleeping[1] - sleeping[0],
	       sleeping[2] - sleeping[4], sleeping[3] - sleeping[2]);
	return 0;
}
