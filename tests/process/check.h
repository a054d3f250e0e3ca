/* SPDX-License-Identifier: MIT */
/* Shared parts of the programs: a check that ends the process, waits, and reading a trace. */
#ifndef PROCESS_CHECK_H
#define PROCESS_CHECK_H

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "../nettrace_version.h"

#define PATIENCE_S 60
#define SKIPPED 77

#define check(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: process %d: not true: %s\n", __FILE__, __LINE__, \
				(int)getpid(), #condition); \
			_exit(1); \
		} \
	} while (0)

#define wait_until(condition) \
	do { \
		time_t limit_ = time(NULL) + PATIENCE_S; \
		while (!(condition)) { \
			check(time(NULL) <= limit_ && #condition); \
			poll(NULL, 0, 1); \
		} \
	} while (0)

static inline struct rp_session *session_to(const char *path, const char *provider,
					    size_t buffer_bytes)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = provider, .keywords = UINT64_MAX, .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = path, .buffer_bytes = buffer_bytes, .format = nettrace_version(),
	};
	struct rp_session *session;

	check(rp_session_start(&options, &session) == 0);
	return session;
}

static inline struct rp_listener *listen_to_provider(const struct rp_session_provider *wanted)
{
	struct rp_session_options options = {
		.size = sizeof(options), .providers = wanted, .provider_count = 1,
		.buffer_bytes = RP_SESSION_BUFFER_MIN,
	};
	struct rp_listener *listener;

	check(rp_listener_start(&options, NULL, NULL, &listener) == 0);
	return listener;
}

static inline struct rp_listener *listen_to(const char *provider)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = provider, .keywords = UINT64_MAX, .level = 5,
	};

	return listen_to_provider(&wanted);
}

/* Count the events of one provider in a complete trace, and the losses that the trace reports. */
static inline void count_trace(const char *path, const char *provider, uint64_t *ret_events,
			       uint64_t *ret_lost)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	int ret;

	*ret_events = 0;
	check(rp_reader_open(path, &reader) == 0);
	while ((ret = rp_reader_next(reader, &event)) == 1)
		*ret_events += strcmp(event.type->provider, provider) == 0;
	if (ret != 0)
		fprintf(stderr, "%s: %s\n", path, rp_reader_error(reader));
	check(ret == 0);
	rp_reader_get_stats(reader, &stats);
	check(stats.ended == 1);
	*ret_lost = stats.lost;
	rp_reader_close(reader);
}

#endif
