/* SPDX-License-Identifier: MIT */
/*
 * A program that knows nothing of ringpipe. Each of its parts prints its own record of what it did,
 * one line for each fact, for the test to compare with the events of the in-box providers.
 *
 * usage: inbox_program PART
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
		exit(1); \
	} \
} while (0)

static long thread_id(void)
{
	return syscall(SYS_gettid);
}

/* Threads. */

enum thread_end { RETURNS, EXITS, IS_CANCELLED, END_COUNT };

static void *thread_work(void *data)
{
	const enum thread_end end = *(enum thread_end *)data;
	char name[16];

	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
	snprintf(name, sizeof(name), "worker-%d", (int)end);
	if (end == RETURNS)
		CHECK(prctl(PR_SET_NAME, name) == 0);
	else
		CHECK(pthread_setname_np(pthread_self(), name) == 0);
	printf("thread %ld %p %s\n", thread_id(), (void *)(uintptr_t)thread_work, name);
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
	if (end == EXITS)
		pthread_exit(data);
	while (end == IS_CANCELLED)
		pause();
	return data;
}

static void threads(void)
{
	for (int i = 0; i < 30; i++) {
		enum thread_end end = i % END_COUNT;
		pthread_t thread;
		void *result;

		CHECK(pthread_create(&thread, NULL, thread_work, &end) == 0);
		if (end == IS_CANCELLED)
			CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, &result) == 0);
		CHECK(result == (end == IS_CANCELLED ? PTHREAD_CANCELED : &end));
	}
	printf("creator %ld\n", thread_id());
}

static const struct part {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "threads", threads },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (argc == 2 && !strcmp(argv[1], parts[i].name)) {
			parts[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: inbox_program PART\n");
	return 2;
}
