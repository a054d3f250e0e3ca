/* SPDX-License-Identifier: MIT */
/* Starts and stops a session for a benchmark; a failure ends the benchmark. */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/session.h>

static inline struct rp_session *bench_start_in(const char *provider_name, const char *path,
						size_t buffer_bytes, uint32_t flags,
						const char *recover_path)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = provider_name, .level = RP_LEVEL_VERBOSE,
		.keywords = UINT64_MAX,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .flags = flags, .providers = &provider,
		.provider_count = 1, .buffer_bytes = buffer_bytes, .output_path = path,
		.recover_path = recover_path,
		.output_fd = -1,
	};
	struct rp_session *session;
	int ret = rp_session_start(&options, &session);

	if (ret != 0) {
		fprintf(stderr, "cannot start a session to %s: %s\n", path, strerror(-ret));
		exit(1);
	}
	return session;
}

static inline struct rp_session *bench_start(const char *provider_name, const char *path,
					     size_t buffer_bytes, uint32_t flags)
{
	return bench_start_in(provider_name, path, buffer_bytes, flags, NULL);
}

/* Starts a session that writes to a descriptor and owns it. */
static inline struct rp_session *bench_start_to(int fd, const char *provider_name,
						size_t buffer_bytes)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .name = provider_name, .level = RP_LEVEL_VERBOSE,
		.keywords = UINT64_MAX,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.buffer_bytes = buffer_bytes, .output_fd = fd,
	};
	struct rp_session *session;
	int ret = rp_session_start(&options, &session);

	if (ret != 0) {
		fprintf(stderr, "cannot start a session: %s\n", strerror(-ret));
		exit(1);
	}
	return session;
}

/* Binds this thread to one processor, and so to one ring. */
static inline void bench_stay(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Lets this thread run on any processor again. */
static inline void bench_stray(void)
{
	cpu_set_t set;

	memset(&set, 0xff, sizeof(set));
	sched_setaffinity(0, sizeof(set), &set);
}

/*
 * Waits until everything written is delivered or lost, so that the next round finds an empty ring
 * and a sleeping drain thread.
 */
static inline void bench_settle(struct rp_session *session, uint64_t written)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	do {
		usleep(1000);
		rp_session_get_stats(session, &stats);
	} while (stats.delivered + stats.lost < written);
}

/* Return: the resident memory of this process. */
static inline double bench_resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		exit(1);
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

#endif
