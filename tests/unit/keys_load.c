/* SPDX-License-Identifier: MIT */
/*
 * Sites with static keys change while threads and signal handlers execute them, and while processes
 * fork. No thread is stopped for a change, so each thread computes sums around the sites: a wrong
 * instruction would change a sum or crash.
 *
 * RINGPIPE_STRESS=long: for 30 seconds.
 */
#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 1

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "base/atomic.h"
#include "base/code.h"
#include "core/core.h"
#include "core/keys.h"

#define THREADS 4u
#define SHORT_TOGGLES 400u
#define LONG_S 30
#define TOGGLES_MIN 100u	/* minimum in the long form, on any machine */
#define FORK_EVERY 50u
#define SIGNAL_US 500
#define PATIENCE_S 60
#define ONE (1ull << 48)	/* of a kernel tracer */

RP_PROVIDER(load, "Test-Keys-Load");
RP_EVENT(load, first, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b));
RP_EVENT(load, second, 2, RP_LEVEL_INFORMATIONAL, 0, RP_F64(a));
RP_EVENT(load, asked, 3, RP_LEVEL_INFORMATIONAL, 0);

static bool over;
static uint64_t signals;

/* Sites between the steps of a sum: their state must not change the sum. */
static __attribute__((noinline)) uint64_t sum_up(uint64_t n)
{
	uint64_t a = n, b = n ^ 0x5555, c = 3 * n;
	double d = (double)n;

#pragma GCC unroll 16
	for (unsigned int i = 0; i < 16; i++) {
		a += b;
		load_first(a, b);
		b += c ^ a;
		load_second(d);
		d += 1.0;
		c += b + (uint64_t)(load_asked_enabled() & 0);
	}
	return a ^ b ^ c ^ (uint64_t)d;
}

/* The same sum without sites. */
static __attribute__((noinline)) uint64_t expected(uint64_t n)
{
	uint64_t a = n, b = n ^ 0x5555, c = 3 * n;

	for (unsigned int i = 0; i < 16; i++) {
		a += b;
		b += c ^ a;
		c += b;
	}
	return a ^ b ^ c ^ (n + 16);
}

static void fail(const char *what)
{
	printf("not ok 1 - %s\n1..1\n", what);
	fflush(stdout);
	_exit(1);
}

static void interrupt(int number)
{
	uint64_t n = rp_add_relaxed(&signals, 1);

	(void)number;
	if (sum_up(n) != expected(n))
		fail("a sum in a signal handler is wrong");
}

static void *run(void *data)
{
	uint64_t n = (uint64_t)(uintptr_t)data << 32;

	for (; !rp_load_relaxed(&over); n++) {
		if (sum_up(n) != expected(n))
			fail("a sum is wrong");
	}
	return NULL;
}

static unsigned int count(unsigned char byte)
{
	unsigned int found = 0;

	for (const struct rp_key *key = __start_rp_keys; key < __stop_rp_keys; key++)
		found += rp_code_read((const unsigned char *)&key->site + key->site) == byte;
	return found;
}

static void toggle(uint64_t step, unsigned char byte)
{
	rp_add_seq_cst(&load_first_event_.enable, step);
	rp_add_seq_cst(&load_second_event_.enable, step);
	rp_add_seq_cst(&load_asked_event_.enable, step);
	pthread_mutex_lock(&rp_core.lock);
	rp_keys_settle();
	pthread_mutex_unlock(&rp_core.lock);
	if (count(byte) != (size_t)(__stop_rp_keys - __start_rp_keys))
		fail("not all sites were changed");
	/* The processor on which this thread now runs must execute the settled instruction. */
	if (load_asked_enabled() != (byte == RP_CODE_JUMP))
		fail("a site is not what it was made");
}

static void make_child(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(sum_up(1) != expected(1));
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fail("a child did not end well");
}

/* False if code cannot be changed here, as the library also found. */
static bool becomes_ready(void)
{
	time_t limit = time(NULL) + PATIENCE_S;
	bool can;

	pthread_mutex_lock(&rp_core.lock);
	can = rp_code_try() == 0;
	pthread_mutex_unlock(&rp_core.lock);
	while (can && count(RP_CODE_PASS) == 0) {
		if (time(NULL) > limit)
			fail("no site is ever passed by");
		usleep(1000);
	}
	return can;
}

static uint64_t toggle_under_load(void)
{
	const char *form = getenv("RINGPIPE_STRESS");
	bool is_long = form && strcmp(form, "long") == 0;
	time_t end = time(NULL) + LONG_S;
	uint64_t toggles = 0;

	while (is_long ? time(NULL) < end || toggles < TOGGLES_MIN : toggles < SHORT_TOGGLES) {
		toggle(ONE, RP_CODE_JUMP);
		toggle(-ONE, RP_CODE_PASS);
		toggles += 2;
		if (toggles % FORK_EVERY == 0)
			make_child();
	}
	return toggles;
}

int main(void)
{
	const struct itimerval interval = { { 0, SIGNAL_US }, { 0, SIGNAL_US } };
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];
	uint64_t toggles;

	printf("TAP version 13\n");
	fflush(stdout);	/* else forked children would print it again */
	if (!becomes_ready()) {
		printf("1..0 # SKIP code cannot be changed here\n");
		return 0;
	}
	sigaction(SIGALRM, &action, NULL);
	for (uintptr_t i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
			fail("no thread");
	}
	setitimer(ITIMER_REAL, &interval, NULL);
	toggles = toggle_under_load();
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
	rp_store_relaxed(&over, true);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("# figure: keys_load: %td sites changed %llu times under %u threads, %llu signals\n",
	       __stop_rp_keys - __start_rp_keys, (unsigned long long)toggles, THREADS,
	       (unsigned long long)signals);
	printf("ok 1 - sites_change_while_threads_run_through_them\n1..1\n");
	return 0;
}
