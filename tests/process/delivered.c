/* SPDX-License-Identifier: MIT */
/*
 * usage: delivered FD THREADS
 *
 * Streams events of several threads to an inherited socket, and executes the commands that it reads
 * from standard input. After each command it prints one line:
 *
 *	start	threads write as fast as they can, into rings that are too small for that
 *	pause	the threads have ended			offered
 *	stats	the stats of the running session	delivered lost error
 *	stop	the session has ended			delivered lost error
 */
#include "check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

RP_PROVIDER(delivered, "Test-Delivered");
RP_EVENT(delivered, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(thread), RP_U64(serial),
	 RP_BLOB(filling));

#define THREADS_MAX 8u

static bool ends;	/* atomic */
static pthread_t threads[THREADS_MAX];
static uint64_t offered[THREADS_MAX];
static size_t count;

/* A session that ended is offered nothing. The write during which it ends may or may not count. */
static void *write_events(void *data)
{
	static const char filling[3000];
	size_t thread = (size_t)data;

	while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
		uint64_t serial = offered[thread];

		if (!delivered_mark_enabled())
			continue;
		(void)delivered_mark(thread, serial, filling,
				     serial % 40 ? serial % 60 : sizeof(filling));
		offered[thread]++;
	}
	return NULL;
}

static void start_threads(void)
{
	__atomic_store_n(&ends, false, __ATOMIC_RELEASE);
	for (size_t i = 0; i < count; i++)
		check(pthread_create(&threads[i], NULL, write_events, (void *)i) == 0);
	puts("started");
}

static void pause_threads(void)
{
	uint64_t sum = 0;

	__atomic_store_n(&ends, true, __ATOMIC_RELEASE);
	for (size_t i = 0; i < count; i++) {
		check(pthread_join(threads[i], NULL) == 0);
		sum += offered[i];
	}
	printf("%" PRIu64 "\n", sum);
}

static void print_stats(const struct rp_session_stats *stats)
{
	printf("%" PRIu64 " %" PRIu64 " %d\n", stats->delivered, stats->lost, -stats->error);
}

int main(int argc, char **argv)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Delivered", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	char line[16];

	check(argc == 3);
	alarm(5 * PATIENCE_S);
	setvbuf(stdout, NULL, _IOLBF, 0);
	options.output_fd = atoi(argv[1]);
	count = (size_t)atoi(argv[2]);
	check(count <= THREADS_MAX);
	check(rp_session_start(&options, &session) == 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "start\n") == 0) {
			start_threads();
		} else if (strcmp(line, "pause\n") == 0) {
			pause_threads();
		} else if (strcmp(line, "stats\n") == 0) {
			check(rp_session_get_stats(session, &stats) == 0);
			print_stats(&stats);
		} else {
			(void)rp_session_stop(session, &stats);
			print_stats(&stats);
		}
	}
	return 0;
}
