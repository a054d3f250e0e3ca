/* SPDX-License-Identifier: MIT */
/*
 * Overloads a session: threads write as fast as they can. Every event has its thread's index and a
 * serial number of that thread, and the books count it whatever the result of its write.
 *
 *	overload_host EVENTS FILE	into a session of its own of 1 MB
 *	overload_host EVENTS		once another process's session is on
 *
 * Each thread writes at least EVENTS events. It stops at its first loss after that, so that there
 * are losses, or at a hundred times as many. The program then prints the books as JSON and waits
 * for the end of its standard input.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "../nettrace_version.h"

#define THREADS 4

RP_PROVIDER(overload, "Overload-Host");
RP_EVENT(overload, burst, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U32(writer), RP_U64(serial),
	 RP_STRING(text));

struct writer {
	pthread_t thread;
	uint32_t index;
	uint64_t least;
	uint64_t offered;
	uint64_t refused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int sessions;

static void on_state(struct rp_provider *provider, const struct rp_provider_state *state,
		     void *data)
{
	(void)provider, (void)data;
	pthread_mutex_lock(&lock);
	sessions += state->source_enabled ? 1 : -1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void *write_events(void *data)
{
	struct writer *writer = data;
	int ret = 0;

	while (writer->offered < writer->least ||
	       (!writer->refused && writer->offered < 100 * writer->least)) {
		ret = overload_burst(writer->index, writer->offered, "a text of ordinary length");
		writer->offered++;
		writer->refused += ret != 0;
	}
	return NULL;
}

static int run_writers(struct writer *writers, uint64_t least)
{
	for (uint32_t i = 0; i < THREADS; i++) {
		writers[i].index = i;
		writers[i].least = least;
		if (pthread_create(&writers[i].thread, NULL, write_events, &writers[i]) != 0)
			return -1;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(writers[i].thread, NULL);
	return 0;
}

static void print_books(const struct writer *writers, const struct rp_session_stats *stats)
{
	printf("{\"writers\":[");
	for (int i = 0; i < THREADS; i++)
		printf("%s{\"offered\":%llu,\"refused\":%llu}", i ? "," : "",
		       (unsigned long long)writers[i].offered,
		       (unsigned long long)writers[i].refused);
	printf("]");
	if (stats)
		printf(",\"delivered\":%llu,\"lost\":%llu", (unsigned long long)stats->delivered,
		       (unsigned long long)stats->lost);
	printf("}\n");
	fflush(stdout);
}

static int overload_own(struct writer *writers, uint64_t least, const char *path)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .level = 5, .name = "Overload-Host", .keywords = ~0ull,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.buffer_bytes = RP_SESSION_BUFFER_MIN, .output_path = path,
		.format = nettrace_version(),
	};
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session;
	int ret;

	ret = rp_session_start(&options, &session);
	if (ret == 0) {
		run_writers(writers, least);
		ret = rp_session_stop(session, &stats);
	}
	if (ret < 0) {
		fprintf(stderr, "overload_host: %s: %s\n", path, strerror(-ret));
		return 1;
	}
	print_books(writers, &stats);
	return 0;
}

static int overload_others(struct writer *writers, uint64_t least)
{
	char byte;

	rp_provider_set_callback(overload_provider(), on_state, NULL);
	printf("%d\n", getpid());
	fflush(stdout);
	pthread_mutex_lock(&lock);
	while (!sessions)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	if (run_writers(writers, least) < 0)
		return 1;
	print_books(writers, NULL);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	static struct writer writers[THREADS];
	uint64_t least = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;

	if (argc < 2 || argc > 3 || !least) {
		fprintf(stderr, "usage: overload_host EVENTS [FILE]\n");
		return 2;
	}
	return argc == 3 ? overload_own(writers, least, argv[2]) : overload_others(writers, least);
}
