/* SPDX-License-Identifier: MIT */
/* Sessions and servers that the library's constructor starts, and their files. */
#include "loader.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uchar.h>
#include <unistd.h>

#include "stress.h"

#define CONFIG "RINGPIPE_CONFIG="
#define PIECE_BYTES (64u << 10)

/* In the order of the variables in the environment. */
const struct loader_environment loader_environments[] = {
	{ "file", { CONFIG LOADER_ALL }, true },
	{ "roll", { CONFIG LOADER_ALL, "RINGPIPE_ROLL_MB=8" }, true },
	{ "recorder", { CONFIG LOADER_ALL, "RINGPIPE_RECORDER=1", "RINGPIPE_BUFFER_MB=8" }, true },
	{ "triggers", { CONFIG LOADER_ALL, "RINGPIPE_RECORDER=1", "RINGPIPE_BUFFER_MB=8",
			"RINGPIPE_TRIGGERS=" LOADER_PROVIDERS "-1:called" }, true },
	{ "snapshot-signal", { CONFIG LOADER_ALL, "RINGPIPE_RECORDER=1", "RINGPIPE_BUFFER_MB=8",
			       "RINGPIPE_SNAPSHOT_SIGNAL=SIGUSR2" }, true },
	{ "block", { CONFIG LOADER_ALL, "RINGPIPE_BLOCK_MS=100" }, true },
	{ "recovery", { CONFIG LOADER_ALL, "RINGPIPE_RECOVER=1", "RINGPIPE_BUFFER_MB=2" }, true },
	{ "coarse", { CONFIG LOADER_ALL, "RINGPIPE_COARSE=1" }, true },
	{ "stacks", { CONFIG LOADER_ALL, "RINGPIPE_STACKS=1" }, true },
	{ "counters", { CONFIG LOADER_COUNTERS }, true },
	{ "meters", { CONFIG LOADER_METERS }, true },
	{ "samples", { CONFIG LOADER_SAMPLES, "RINGPIPE_STACKS=1" }, true },
	{ "threads", { CONFIG LOADER_THREADS, "RINGPIPE_STACKS=1" }, true },
	{ "dotnet", { "DOTNET_EnableEventPipe=1", "DOTNET_EventPipeConfig=" LOADER_ALL }, true },
	{ "static-keys", { CONFIG LOADER_ALL, "RINGPIPE_STATIC_KEYS=1" }, true },
	{ "tracers", { "RINGPIPE_TRACERS_MS=10" }, false },
	/* If LTTng or user_events are missing, the library reports that and continues. */
	{ "lttng", { "RINGPIPE_LTTNG=1" }, false },
	{ "user-events", { "RINGPIPE_USER_EVENTS=1" }, false },
};

const size_t loader_environment_count =
	sizeof(loader_environments) / sizeof(loader_environments[0]);

void loader_environment_set(const struct loader_environment *environment)
{
	for (size_t i = 0; i < LOADER_VARIABLES && environment->variables[i]; i++)
		putenv((char *)environment->variables[i]);
	setenv("RINGPIPE_OUTPUT", stress_path("environment-{pid}.nettrace"), 1);
	setenv("DOTNET_EventPipeOutputPath", stress_path("environment-{pid}.nettrace"), 1);
	setenv("RINGPIPE_SNAPSHOTS", stress_path("snapshot-{pid}.nettrace"), 1);
}

static bool file_has(const char *path, const void *bytes, size_t size)
{
	static char piece[PIECE_BYTES];
	FILE *file = fopen(path, "r");
	size_t kept = 0, got;
	bool found = false;

	while (file && !found && (got = fread(piece + kept, 1, PIECE_BYTES - kept, file)) > 0) {
		found = memmem(piece, kept + got, bytes, size) != NULL;
		got += kept;
		kept = got < size ? got : size;
		memmove(piece, piece + got - kept, kept);
	}
	if (file)
		fclose(file);
	return found;
}

/* Whether the file has a provider of the libraries, as UTF-16 like nettrace. */
static bool has_provider(const char *path)
{
	static const char16_t name[] = u"" LOADER_PROVIDERS;

	return file_has(path, name, sizeof(name) - sizeof(name[0]));
}

/* Whether LTTng's trace of the process has a payload of the libraries. */
static bool trace_has_events(const char *trace, pid_t process)
{
	static const char text[] = LOADER_TEXT;
	char pattern[PATH_MAX];
	glob_t paths = { 0 };
	bool found = false;

	snprintf(pattern, sizeof(pattern), "%s/ust/pid/*-%d-*/*_[0-9]*", trace, (int)process);
	(void)glob(pattern, 0, NULL, &paths);
	for (size_t i = 0; i < paths.gl_pathc && !found; i++)
		found = file_has(paths.gl_pathv[i], text, sizeof(text));
	globfree(&paths);
	return found;
}

bool loader_trace_check(const char *trace, pid_t process, double patience_s)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	double begun = stress_seconds();

	while (!trace_has_events(trace, process)) {
		if (!stress_check(stress_seconds() - begun < patience_s,
				  "no event of process %d reached LTTng", (int)process))
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

bool loader_environment_check(const struct loader_environment *environment)
{
	static const char *const patterns[] = { "environment-*", "snapshot-*" };
	bool found = false;

	for (size_t i = 0; i < 2; i++) {
		glob_t paths = { 0 };

		(void)glob(stress_path(patterns[i]), 0, NULL, &paths);
		for (size_t j = 0; j < paths.gl_pathc; j++) {
			found |= i == 0 && has_provider(paths.gl_pathv[j]);
			unlink(paths.gl_pathv[j]);
		}
		globfree(&paths);
	}
	return stress_check(found == environment->writes, "%s: events of the libraries %s",
			    environment->name, found ? "in a file" : "in no file");
}
