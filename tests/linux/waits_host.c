/* SPDX-License-Identifier: MIT */
/*
 * Waits in known functions for known times, and prints each wait as it saw it: the kind and the
 * nanoseconds between a clock read before and one after. Then it prints, for each kind, how often
 * the kernel says that the thread went to sleep, and the thread that woke it. Both threads also
 * use CPU time. For each, it prints begin, end, CPU time, and how often it left its processor.
 */
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 20
#define CPU_NS 100000000

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

struct use {
	uint64_t ns, cpu_ns;
	long switches;
};

static struct use use_so_far(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (struct use){
		.ns = now_ns(),
		.cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
			  (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000,
		.switches = usage.ru_nvcsw + usage.ru_nivcsw,
	};
}

/*
 * Ends with a wait, because a recorder sees a thread's CPU time only up to a switch. Tests count
 * sleeps, so it is none.
 */
static void use_cpu(void)
{
	uint64_t end_ns = use_so_far().cpu_ns + CPU_NS;

	while (use_so_far().cpu_ns < end_ns)
		;
	poll(NULL, 0, 1);
}

/* Runs a function of this thread, and prints what it used. */
static void measure(const char *name, void (*function)(void))
{
	struct use begin = use_so_far(), end;

	function();
	end = use_so_far();
	printf("%s %ld\n", name, syscall(SYS_gettid));
	printf("%s_begin_ns %llu\n", name, (unsigned long long)begin.ns);
	printf("%s_end_ns %llu\n", name, (unsigned long long)end.ns);
	printf("%s_cpu_ns %llu\n", name, (unsigned long long)(end.cpu_ns - begin.cpu_ns));
	printf("%s_switches %ld\n", name, end.switches - begin.switches);
}

static void run_waker(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
		wake_by_word(round);
	}
	for (int round = 0; round < ROUNDS; round++) {
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
		wake_by_pipe();
	}
	use_cpu();
}

static void *wake(void *unused)
{
	measure("waker", run_waker);
	return unused;
}

static void run_waiter(void)
{
	static const long sleeps[] = { 300000, 2000000, 5000000, 20000000 };
	uint64_t took[3 * ROUNDS], begin;
	long sleeping[5];
	pthread_t waker;

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
	use_cpu();
	for (int i = 0; i < 3 * ROUNDS; i++)
		printf("%s %llu\n", i < ROUNDS ? "time" : i < 2 * ROUNDS ? "word" : "pipe",
		       (unsigned long long)took[i]);
	printf("time_sleeps %ld\nword_sleeps %ld\npipe_sleeps %ld\n", sleeping[1] - sleeping[0],
	       sleeping[2] - sleeping[4], sleeping[3] - sleeping[2]);
}

int main(void)
{
	if (pipe(pipe_ends) < 0)
		return 1;
	measure("waiter", run_waiter);
	return 0;
}
