/* SPDX-License-Identifier: MIT */
/*
 * allowed NUMBER,… PROGRAM [ARGUMENT…]: run a program under a filter that kills it at any system
 * call outside the list, as filters of services do. `allowed run` is that program: it writes traces
 * to its working directory, prints "ready", and continues to write until its standard input ends.
 * `allowed other` makes a system call that no list contains.
 */
#include "allow_calls.h"
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define TICK_MS 5

RP_PROVIDER(allowed, "Test-Allowed");
RP_EVENT(allowed, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_STRING(text));
RP_COUNTER(allowed, marks, NULL, NULL);
RP_HISTOGRAM(allowed, spread, NULL, NULL);

static int allow(const char *list)
{
	struct rlimit no_core = { 0, 0 };

	check(setrlimit(RLIMIT_CORE, &no_core) == 0);
	return allow_calls(list, 0);
}

static void write_some(void)
{
	for (uint64_t serial = 0; serial < 1000; serial++) {
		(void)allowed_mark(serial, "text");
		allowed_marks_add(1);
		allowed_spread_record((double)serial);
	}
}

static void *in_thread(void *data)
{
	(void)data;
	write_some();
	return NULL;
}

static void with_a_file(const char *path, uint32_t flags)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "*", .keywords = UINT64_MAX, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .flags = flags, .providers = &wanted, .provider_count = 1,
		.output_path = path, .buffer_bytes = RP_SESSION_OVERWRITE_MIN,
	};
	struct rp_session *session;
	pthread_t thread;

	check(rp_session_start(&options, &session) == 0);
	check(pthread_create(&thread, NULL, in_thread, NULL) == 0);
	write_some();
	check(pthread_join(thread, NULL) == 0);
	if (flags & RP_SESSION_OVERWRITE)
		check(rp_session_snapshot(session, "snapshot.nettrace", -1, NULL) == 0);
	check(rp_session_stop(session, NULL) == 0);
}

static void count_event(const struct rp_listener_event *event, void *data)
{
	(void)event;
	__atomic_fetch_add((unsigned int *)data, 1, __ATOMIC_RELAXED);
}

static void with_listeners(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Allowed", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
	};
	struct rp_listener *listener = listen_to("Test-Allowed"), *push;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	unsigned int heard = 0;

	check(rp_listener_start(&options, count_event, &heard, &push) == 0);
	/* The writer continues until each listener has an event, so losses do not matter. */
	wait_until(((void)allowed_mark(1, "heard"), rp_listener_next(listener, &event, 1) == 1));
	check(rp_listener_stop(listener, NULL) == 0);
	wait_until(((void)allowed_mark(2, "heard"), __atomic_load_n(&heard, __ATOMIC_RELAXED)));
	check(rp_listener_drain(push) == 0);
	check(rp_listener_stop(push, NULL) == 0);
}

static void with_counters(void)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	allowed_marks_add(1);
	check(rp_counter_read(allowed_marks_counter(), &reading) == 0 && reading.value >= 1);
}

static void with_a_child(void)
{
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		with_a_file("child.nettrace", 0);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t serial = 0;
	char bytes[64];

	check(argc >= 2);
	if (argc > 2) {
		if (allow(argv[1]) != 0)
			return SKIPPED;
		execv(argv[2], argv + 2);
		return 126;
	}
	if (strcmp(argv[1], "other") == 0)
		return sched_get_priority_max(0) < 0;
	with_a_file("file.nettrace", 0);
	with_a_file("stacks.nettrace", RP_SESSION_STACKS | RP_SESSION_CAUSAL);
	with_a_file("coarse.nettrace", RP_SESSION_COARSE);
	with_a_file("recorder.nettrace", RP_SESSION_OVERWRITE);
	with_listeners();
	with_counters();
	with_a_child();
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, TICK_MS) == 0 || read(STDIN_FILENO, bytes, sizeof(bytes)) > 0) {
		(void)allowed_mark(serial++, "tick");
		allowed_marks_add(1);
		allowed_spread_record(1);
	}
	return 0;
}
