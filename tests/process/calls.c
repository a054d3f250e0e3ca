/* SPDX-License-Identifier: MIT */
/*
 * Write events between two system calls that mark the start and the end: write() to descriptors 98
 * and 99, which are not open. calls_test.py checks the calls between these marks. With the argument
 * `control`, the program makes one forbidden call.
 */
#include "check.h"

#include <pthread.h>
#include <stdbool.h>

RP_PROVIDER(calls, "Test-Calls");
RP_EVENT(calls, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_STRING(text));
RP_EVENT(calls, bulk, 2, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(bytes));

static const char bytes[60000];

static bool is_control;

static void write_events(void)
{
	struct rp_activity outer;

	/* A thread's first ids may need a system call, so they are before the mark. */
	rp_activity_begin(&outer);
	rp_activity_end(&outer);
	check(write(98, "begin", 5) == -1);
	for (uint64_t i = 0; i < 1000; i++) {
		(void)calls_mark(i, "text");
		if (i % 100 == 0) {
			rp_activity_begin(&outer);
			(void)calls_bulk(bytes, i == 500 ? sizeof(bytes) + 10000 : 5000);
			rp_activity_end(&outer);
		}
	}
	if (is_control)
		(void)getppid();
	check(write(99, "end", 3) == -1);
}

static void *in_thread(void *data)
{
	(void)data;
	write_events();
	return NULL;
}

int main(int argc, char **argv)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Calls", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .flags = RP_SESSION_STACKS, .providers = &wanted,
		.provider_count = 1, .output_path = "/dev/null", .buffer_bytes = 1 << 20,
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *with_stacks, *session;
	pthread_t thread;

	is_control = argc == 2 && strcmp(argv[1], "control") == 0;
	check(rp_session_start(&options, &with_stacks) == 0);
	session = session_to("/dev/null", "*", 64 << 20);
	write_events();
	check(pthread_create(&thread, NULL, in_thread, NULL) == 0);
	check(pthread_join(thread, NULL) == 0);
	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered + stats.lost == 2 * 1010);
	check(stats.lost_by[RP_LOSS_TOO_BIG] == 2);
	check(rp_session_stop(with_stacks, NULL) == 0);
	return 0;
}
