/* SPDX-License-Identifier: MIT */
/*
 * A server with a flight recorder that crashes in the way given as argument. It writes more events
 * than the recorder holds, and prints the last serial before its end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#define EVENTS 150000u
#define THREADS 8

RP_PROVIDER(host, "Test-Host");
RP_EVENT(host, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U32(number), RP_STRING(text));
RP_STATE_EVENT(host, began, 2, RP_LEVEL_INFORMATIONAL, 1, RP_U32(answer));

static pthread_barrier_t barrier;
static volatile int *nowhere;		/* an inaccessible page */

static void fault(void)
{
	*nowhere = 1;
}

static void *fault_with_others(void *data)
{
	pthread_barrier_wait(&barrier);
	fault();
	return data;
}

static void fault_everywhere(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, fault_with_others, NULL);
	fault_with_others(NULL);
}

/* Overwrites malloc's metadata and the memory that it manages. */
__attribute__((no_sanitize("address"))) static void destroy_heap(void)
{
	char *end = sbrk(0);

	for (volatile char *at = end - 100000; at < end; at++)
		*at = 0x41;
}

static __attribute__((noinline)) int overflow(int depth)
{
	volatile char page[4096];

	page[0] = (char)depth;
	return depth < 0 ? 0 : overflow(depth + 1) + page[0];
}

/* The program's own handler, on an alternate stack. */
static void on_fault(int number)
{
	(void)number;
	host_mark(EVENTS, "from the handler");
	_exit(42);
}

static void overflow_with_handler(void)
{
	static char stack[65536];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };

	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
	overflow(0);
}

static void end(const char *how)
{
	if (strcmp(how, "fault") == 0)
		fault();
	else if (strcmp(how, "threads") == 0)
		fault_everywhere();
	else if (strcmp(how, "heap") == 0)
		destroy_heap(), fault();
	else if (strcmp(how, "overflow") == 0)
		overflow(0);
	else if (strcmp(how, "handler") == 0)
		overflow_with_handler();
	else if (strcmp(how, "abort") == 0)
		abort();
	else
		raise(atoi(how));
}

int main(int argc, char **argv)
{
	nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (argc != 2 || nowhere == MAP_FAILED || host_began(42) != 0)
		return 1;
	for (uint32_t i = 0; i < EVENTS; i++) {
		if (host_mark(i, "so that the recorder has to give something up") != 0)
			return 1;
	}
	puts("written");
	fflush(stdout);
	end(argv[1]);
	return 0;
}
