/* SPDX-License-Identifier: MIT */
/*
 * The host writes a hundred events, prints "written", and waits for a signal or a line. An argument
 * adds events:
 *
 * - too-big: three more events are too large, and lost.
 * - busy: three more events find every fallback lock held.
 * - damaged: threads that end abandon three more events.
 * - blocked: a signal handler on its alternate stack, which never waits, fills the buffer and loses
 *   three more events.
 * - define: two more kinds of events are defined, the first while no file may grow, and seven
 *   events of each are written.
 * - traced: the output gets the hundred events, three events of a request of another service, and
 *   three events of an activity that the process began itself.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <ringpipe/ringpipe.h>

#include "../leave_rseq.h"

RP_PROVIDER(host, "Test-Host");
RP_EVENT(host, mark, 1, RP_LEVEL_INFORMATIONAL, 1, RP_U32(number), RP_STRING(text));
RP_EVENT(host, bulk, 2, RP_LEVEL_INFORMATIONAL, 1, RP_BLOB(bytes));

static void write_too_big(void)
{
	static const char bytes[70000];

	for (int i = 0; i < 3; i++) {
		if (host_bulk(bytes, sizeof(bytes)) == 0)
			abort();
	}
}

/* A payload whose last page is unreadable: its write stops in the middle, in a handler. */
#define PAGE 4096u
#define PAGES 5u

static char *unreadable;
static bool is_held;
static __thread sigjmp_buf way_out;

static void hold(int signal)
{
	(void)signal;
	__atomic_store_n(&is_held, true, __ATOMIC_RELEASE);
	for (;;)
		poll(NULL, 0, -1);
}

static void leave(int signal)
{
	(void)signal;
	siglongjmp(way_out, 1);
}

/* In sections, the writers of a flight recorder would hold no lock. */
static void use_fallback(void)
{
	if (leave_rseq() != 0)
		abort();
}

static void handle_faults(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	unreadable = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (unreadable == MAP_FAILED ||
	    mprotect(unreadable + (PAGES - 1) * PAGE, PAGE, PROT_NONE) != 0 ||
	    sigaction(SIGSEGV, &action, NULL) != 0)
		abort();
}

/* Return: only when every lock is held. */
static void *write_held(void *data)
{
	use_fallback();
	if (host_bulk(unreadable, PAGES * PAGE) == 0)
		abort();
	__atomic_store_n((int *)data, *(int *)data + 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The session may add locks after a loss, and further threads then hold these, too. */
static void write_busy(void)
{
	static int lost;
	pthread_t thread;

	handle_faults(hold);
	for (int i = 0; i < 3; i = __atomic_load_n(&lost, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&is_held, false, __ATOMIC_RELAXED);
		if (pthread_create(&thread, NULL, write_held, &lost) != 0)
			abort();
		while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE) &&
		       __atomic_load_n(&lost, __ATOMIC_ACQUIRE) == i)
			poll(NULL, 0, 1);
	}
}

static void *write_and_leave(void *data)
{
	use_fallback();
	if (sigsetjmp(way_out, 1) == 0)
		(void)host_bulk(unreadable, PAGES * PAGE);
	return data;
}

static void write_damaged(void)
{
	pthread_t thread;

	handle_faults(leave);
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&thread, NULL, write_and_leave, NULL) != 0 ||
		    pthread_join(thread, NULL) != 0)
			abort();
	}
}

static void fill(int signal)
{
	static const char bytes[60000];
	int lost = 0;

	(void)signal;
	while (lost < 3)
		lost += host_bulk(bytes, sizeof(bytes)) != 0;
}

static void write_blocked(void)
{
	static char bytes[1 << 20];	/* sanitizers need much */
	const stack_t stack = { .ss_sp = bytes, .ss_size = sizeof(bytes) };
	const struct sigaction action = { .sa_handler = fill, .sa_flags = SA_ONSTACK };

	if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 ||
	    raise(SIGUSR1) != 0)
		abort();
}

static void define(struct rp_provider *provider, const char *name, uint32_t id)
{
	static const struct rp_field fields[] = { { .name = "number", .type = RP_TYPE_U32 } };
	const struct rp_event_decl decl = {
		.size = sizeof(decl), .id = id, .name = name, .fields = fields, .field_count = 1,
		.level = RP_LEVEL_INFORMATIONAL, .keywords = 1,
	};
	struct rp_event *event;

	if (rp_event_create(provider, &decl, &event) != 0)
		abort();
	for (uint32_t i = 0; i < 7; i++) {
		const struct rp_part part = { &i, sizeof(i) };

		if (rp_event_write(event, &part, 1) != 0)
			abort();
	}
}

static void define_with_limit(void)
{
	struct rlimit usual, none;
	struct rp_provider *provider;

	if (rp_provider_create("Test-Dynamic", NULL, NULL, &provider) != 0 ||
	    getrlimit(RLIMIT_FSIZE, &usual) != 0)
		abort();
	none = usual;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_FSIZE, &none);
	define(provider, "undefined", 1);
	setrlimit(RLIMIT_FSIZE, &usual);
	define(provider, "defined", 2);
}

/* The ids of the example of the W3C's Trace Context. */
static void write_traced(void)
{
	static const char header[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
	struct rp_activity activity, outer;
	uint8_t flags;

	if (rp_traceparent_parse(header, sizeof(header) - 1, &activity, &flags) != 0)
		abort();
	rp_activity_set(&activity);
	for (uint32_t i = 100; i < 106; i++) {
		if (i == 103) {
			rp_activity_set(&(struct rp_activity){ 0 });
			rp_activity_begin(&outer);
		}
		if (host_mark(i, "of a request") != 0)
			abort();
	}
}

int main(int argc, char **argv)
{
	for (uint32_t i = 0; i < 100; i++) {
		if (host_mark(i, "one of a hundred") != 0)
			abort();
	}
	if (argc > 1 && strcmp(argv[1], "too-big") == 0)
		write_too_big();
	if (argc > 1 && strcmp(argv[1], "busy") == 0)
		write_busy();
	if (argc > 1 && strcmp(argv[1], "damaged") == 0)
		write_damaged();
	if (argc > 1 && strcmp(argv[1], "blocked") == 0)
		write_blocked();
	if (argc > 1 && strcmp(argv[1], "define") == 0)
		define_with_limit();
	if (argc > 1 && strcmp(argv[1], "traced") == 0) {
		(void)rp_sessions_flush(-1);
		write_traced();
	}
	puts("written");
	fflush(stdout);
	return getchar() == EOF;
}
