/* SPDX-License-Identifier: MIT */
/*
 * Threads load and unload libraries with events, while sessions of the kernel's user_events start
 * and end, from outside, and other sessions from the API. ringpipe may not wait for the loader's
 * lock while it holds a lock that constructors take; tests/stress/loader.c has the other kinds.
 */
#include "user_events.h"

#include <dlfcn.h>
#include <pthread.h>

#include "../../stress/loader.h"

#define LOADERS 8u
#define SESSIONS 8u
#define ROUNDS (2 * LOADERS)	/* of the libraries, in each session */

static const char *const *libraries;
static unsigned int library_count;
static uint64_t rounds;
static bool over;

void loading_set_libraries(const char *const *paths, unsigned int count)
{
	libraries = paths;
	library_count = count;
}

static void *load_and_unload(void *data)
{
	for (uintptr_t i = (uintptr_t)data; !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
		void *library = dlopen(libraries[i % library_count], RTLD_NOW | RTLD_LOCAL);
		uint64_t (*call)(void);

		check(library);
		*(void **)&call = dlsym(library, "library_call");
		call();
		dlclose(library);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *start_and_stop(void *data)
{
	struct rp_session_provider provider = { .size = sizeof(provider), .name = "*" };
	struct rp_session_options options = RP_SESSION_OPTIONS_INIT;

	(void)data;
	options.providers = &provider;
	options.provider_count = 1;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		struct rp_session *session;

		options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		check(rp_session_start(&options, &session) == 0);
		check(rp_session_stop(session, NULL) == 0);
	}
	return NULL;
}

static uint64_t rounds_done(void)
{
	return __atomic_load_n(&rounds, __ATOMIC_RELAXED);
}

/* Reads the tracepoint of one session through ftrace, so that events of all threads arrive. */
static unsigned int lines_of(const char *tracepoint)
{
	FILE *trace = fopen(TRACING "/trace", "r");
	unsigned int lines = 0;
	char line[4096];

	check(trace);
	while (fgets(line, sizeof(line), trace))
		lines += strstr(line, tracepoint) != NULL;
	fclose(trace);
	return lines;
}

void libraries_come_and_go_while_sessions_start_and_end(void)
{
	const struct wish wish = { .provider = LOADER_PROVIDERS "-1", .keywords = UINT64_MAX,
				   .level = 5, .tracepoint = "loading" };
	pthread_t loading[LOADERS], starting;

	check(library_count > 0);
	for (uintptr_t i = 0; i < LOADERS; i++)
		check(pthread_create(&loading[i], NULL, load_and_unload, (void *)i) == 0);
	check(pthread_create(&starting, NULL, start_and_stop, NULL) == 0);
	for (unsigned int i = 0; i < SESSIONS; i++) {
		int session = start(&wish);
		uint64_t until = rounds_done() + ROUNDS;

		clear_trace();
		switch_tracepoint("loading", true);
		wait_until(rounds_done() >= until && lines_of("loading: ") > 0);
		switch_tracepoint("loading", false);
		until = rounds_done() + ROUNDS;
		wait_until(rounds_done() >= until);
		end(session, "loading");
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < LOADERS; i++)
		pthread_join(loading[i], NULL);
	pthread_join(starting, NULL);
	check(!kernel_complained());
}
