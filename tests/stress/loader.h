/* SPDX-License-Identifier: MIT */
/*
 * Shared by the test of the loader and its kinds of work: threads load and unload libraries with
 * events and counters while everything of ringpipe starts and stops.
 */
#ifndef TESTS_LOADER_H
#define TESTS_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LOADER_PROVIDERS "Loader-Library"	/* the libraries' names begin with it */
#define LOADER_TEXT "from a library that is unloaded soon"	/* in their events */

/* Providers of sessions, as in RINGPIPE_CONFIG. */
#define LOADER_ALL "*"
#define LOADER_COUNTERS LOADER_PROVIDERS "-1::5:EventCounterIntervalSec=1," LOADER_ALL
#define LOADER_METERS "System.Diagnostics.Metrics:2:4:SessionId=loader;Metrics=" LOADER_PROVIDERS \
	"-1;RefreshInterval=1;MaxTimeSeries=100;MaxHistograms=10;ClientId=loader," LOADER_ALL
#define LOADER_SAMPLES "Microsoft-DotNETCore-SampleProfiler," LOADER_ALL
#define LOADER_THREADS "Microsoft-DotNETCore-SampleProfiler::4:AllThreads=1," LOADER_ALL

#define LOADER_VARIABLES 4

/* Commands of the diagnostics protocol: the set, and the id in the lower byte. */
enum loader_command {
	LOADER_DUMP_3 = 0x0103,
	LOADER_STOP_TRACING = 0x0201,
	LOADER_COLLECT_1 = 0x0202,
	LOADER_COLLECT_2 = 0x0203,
	LOADER_COLLECT_3 = 0x0204,
	LOADER_COLLECT_4 = 0x0205,
	LOADER_COLLECT_5 = 0x0206,
	LOADER_COLLECT_6 = 0x0207,
	LOADER_INFO_1 = 0x0400,
	LOADER_RESUME = 0x0401,
	LOADER_GET_ENVIRONMENT = 0x0402,
	LOADER_SET_VARIABLE = 0x0403,
	LOADER_INFO_2 = 0x0404,
	LOADER_ENABLE_PERF_MAP = 0x0405,
	LOADER_DISABLE_PERF_MAP = 0x0406,
	LOADER_INFO_3 = 0x0408,
	LOADER_LIST_ENABLED = 0x5200,	/* with the state of the exporters */
	LOADER_STATS = 0x5201,
	LOADER_DUMP_WITH_FRAMES = 0x5204,
	LOADER_BATCHES = 0x5205,
	LOADER_FLIGHT = 0x5206,
	LOADER_STOP_FLIGHT = 0x5207,
	LOADER_SNAPSHOT = 0x5208,
	LOADER_ROLL = 0x520a,
	LOADER_COLLECT_WITH_OPTIONS = 0x520b,
	LOADER_LIST_EVENTS = 0x520c,
	LOADER_FILTERED_BATCHES = 0x520d,
};

/* An object to start, use and stop. */
struct loader_kind {
	const char *name;
	void (*run)(const struct loader_kind *kind);
	uint32_t flags;			/* of a session */
	const char *providers;		/* as in RINGPIPE_CONFIG */
	const char *environment;	/* "NAME=VALUE", for the process in which it is the first */
	/* A client's request has: */
	enum loader_command command;
	uint32_t option;		/* the number that only this command has */
	uint32_t format;		/* 0: version 4 */
	bool rundown;
};

extern const struct loader_kind loader_kinds[];
extern const size_t loader_kind_count;

/* A process whose environment makes the library's constructor start a session or a server. */
struct loader_environment {
	const char *name;
	const char *variables[LOADER_VARIABLES];	/* "NAME=VALUE" */
	bool writes;			/* a file with the libraries' events */
};

extern const struct loader_environment loader_environments[];
extern const size_t loader_environment_count;

/* Call it in the process that is about to be executed. */
void loader_environment_set(const struct loader_environment *environment);

/* Remove the files of the process. Return: whether they are the expected ones. */
bool loader_environment_check(const struct loader_environment *environment);

/*
 * Wait until LTTng's trace below the directory `trace` has an event that a library wrote in the
 * process. Its consumer writes the last events after the process has ended.
 */
bool loader_trace_check(const char *trace, pid_t process, double patience_s);

/*
 * Send `kind->command` as a client of the diagnostics socket. loader_collect_and_leave() closes the
 * connection instead of sending StopTracing. loader_fly() starts a flight recorder or rolling
 * files.
 */
void loader_collect(const struct loader_kind *kind);
void loader_collect_and_leave(const struct loader_kind *kind);
void loader_collect_batches(const struct loader_kind *kind);
void loader_fly(const struct loader_kind *kind);
void loader_write_perf_map(const struct loader_kind *kind);
void loader_dump(const struct loader_kind *kind);
void loader_ask(const struct loader_kind *kind);

/* Return: a path in the test's directory for this thread's use of the kind. */
const char *loader_path(const struct loader_kind *kind, char path[256]);

/* Wait until the libraries were loaded and unloaded `count` more times. */
void loader_wait(uint64_t count);

/* Check a promise of the kind; end the process if it does not hold. */
void loader_check(bool holds, const struct loader_kind *kind, const char *what, int error);

#endif
