/* SPDX-License-Identifier: MIT */
/*
 * usage: failing_start
 *
 * Each libc call of the library's initialisation fails, one at a time; so may the environment's
 * session and the diagnostics server. The program runs and ends normally. Its events are in the
 * file, or one line reports what is missing.
 */
#include "check.h"
#include "injecting.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

RP_PROVIDER(failing, "Test-Failing");
RP_EVENT(failing, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

#define EVENTS 20u
#define NTH_MAX 2000u
#define MET 10		/* exit status of a program in which the call failed */
#define NOT_MET 11

static char directory[] = "/tmp/rp-failing-XXXXXX";
static char trace[64], said[64];

/* Use the library between its constructor and its destructor. */
static int run_once(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Failing", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.output_path = "/dev/null",
	};
	struct rp_session *session;
	bool met;
	int ret;

	met = inject_disarm();
	alarm(PATIENCE_S);
	for (uint64_t i = 0; i + 1 < EVENTS; i++)
		check(failing_mark(i) == 0);
	/* A resource may be missing since the library was loaded; the start then reports that. */
	ret = rp_session_start(&options, &session);
	check(ret == 0 || (met && ret == -ENOMEM));
	/* An event for both sessions. */
	check(failing_mark(0) == 0);
	if (ret == 0) {
		check(rp_session_stop(session, &stats) == 0);
		check(stats.lost == 0);
	}
	return met ? MET : NOT_MET;
}

static int run_program(enum inject_kind kind, unsigned int nth)
{
	char program[] = "/proc/self/exe", once[] = "once", *arguments[] = { program, once, NULL };
	posix_spawn_file_actions_t actions;
	char inject[64];
	pid_t child;
	int status;

	snprintf(inject, sizeof(inject), "%s:%u", inject_name(kind), nth);
	check(setenv("INJECT", inject, 1) == 0);
	check(posix_spawn_file_actions_init(&actions) == 0);
	check(posix_spawn_file_actions_addopen(&actions, 2, said, O_WRONLY | O_CREAT | O_TRUNC,
					       0600) == 0);
	check(posix_spawn(&child, program, &actions, NULL, arguments, environ) == 0);
	check(posix_spawn_file_actions_destroy(&actions) == 0);
	check(waitpid(child, &status, 0) == child);
	if (!WIFEXITED(status))
		fprintf(stderr, "ended with wait status 0x%x\n", (unsigned int)status);
	check(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Return: whether the library printed a line. Any other output fails the test. */
static bool was_said(void)
{
	FILE *file = fopen(said, "re");
	char line[1024] = "", more[16];

	check(file);
	(void)!fgets(line, sizeof(line), file);
	if (line[0] && strncmp(line, "ringpipe: ", 10) != 0)
		fprintf(stderr, "said: %s", line);
	check(!line[0] || strncmp(line, "ringpipe: ", 10) == 0);
	check(!fgets(more, sizeof(more), file));
	fclose(file);
	return line[0] != '\0';
}

static bool run_failing(enum inject_kind kind, unsigned int nth)
{
	int status = run_program(kind, nth);
	uint64_t events = 0, lost = 0;
	bool is_reported;

	check(status == MET || status == NOT_MET);
	is_reported = was_said();
	check(status == MET || !is_reported);
	if (!is_reported) {
		count_trace(trace, "Test-Failing", &events, &lost);
		/* Without memory for a provider, its events are off. */
		check(events == EVENTS || (status == MET && kind == INJECT_memory && events == 0));
		check(lost == 0);
	}
	(void)unlink(trace);
	/* The directory must be empty: the program leaves no file in it, above all no socket. */
	check(unlink(said) == 0);
	check(rmdir(directory) == 0 && mkdir(directory, 0700) == 0);
	return status == MET;
}

static unsigned int fail_each(enum inject_kind kind)
{
	unsigned int nth = 1;

	do {
		printf("%s, call %u\n", inject_name(kind), nth);
		fflush(stdout);
	} while (run_failing(kind, nth++) && nth < NTH_MAX);
	check(nth < NTH_MAX);
	return nth - 2;
}

int main(int argc, char **argv)
{
	unsigned int failures = 0;

	(void)argv;
	if (argc == 2)
		return run_once();
	alarm(5 * PATIENCE_S);
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	snprintf(said, sizeof(said), "%s/said", directory);
	check(setenv("TMPDIR", directory, 1) == 0);
	check(setenv("RINGPIPE_OUTPUT", trace, 1) == 0);
	check(setenv("RINGPIPE_CONFIG", "Test-Failing", 1) == 0);
	check(unsetenv("RINGPIPE_DIAGNOSTICS") == 0);
	for (unsigned int kind = 0; kind < INJECT_KIND_COUNT; kind++) {
		if (kind != INJECT_memory || !INJECT_THREADS_NEED_MEMORY)
			failures += fail_each(kind);
	}
	check(rmdir(directory) == 0);
	printf("# figure: %u failures of %u kinds of call\n", failures, INJECT_KIND_COUNT);
	return 0;
}
