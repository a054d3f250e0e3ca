/* SPDX-License-Identifier: MIT */
/*
 * usage: failing
 *
 * Each libc call of a session fails, one at a time and in the order of the calls, until a session
 * completes without the failure. Whichever call fails: the API reports the error or works without
 * the call, offered = delivered + lost, the file is complete, no resource leaks, and the next
 * session delivers all of its events.
 */
#include "check.h"
#include "counting.h"
#include "injecting.h"

#include <errno.h>
#include <stdbool.h>

RP_PROVIDER(failing, "Test-Failing");
RP_EVENT(failing, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(filling));
RP_PROVIDER(counted, "Test-Counted");
RP_COUNTER(counted, sum, NULL, NULL);

#define EVENTS 100u
#define NTH_MAX 2000u

static char directory[] = "/tmp/rp-failing-XXXXXX";
static char trace[64];

/* The result of a session. */
struct outcome {
	int error;			/* returned by its start */
	int end;			/* returned by its stop */
	uint64_t offered;
	bool unsure;			/* the last event was written while the session ended */
	uint64_t taken;			/* events that the listener received */
	struct rp_session_stats stats;
};

/* Every tenth event uses the fallback. There is one writer, and a cleared bit is not set again. */
static void write_while_enabled(struct outcome *outcome)
{
	static const char filling[5000];

	for (uint64_t i = 0; i < EVENTS && failing_mark_enabled(); i++) {
		(void)failing_mark(i, filling, i % 10 ? i : sizeof(filling));
		outcome->offered++;
		outcome->unsure = !failing_mark_enabled();
	}
}

static void run_to_file(struct outcome *outcome, uint32_t flags)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Failing", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
		.flags = flags, .output_path = trace,
	};
	struct rp_session *session = NULL;

	outcome->error = rp_session_start(&options, &session);
	check((outcome->error == 0) == (session != NULL));
	if (!session)
		return;
	write_while_enabled(outcome);
	outcome->end = rp_session_stop(session, &outcome->stats);
}

static void run_file(struct outcome *outcome)
{
	run_to_file(outcome, RP_SESSION_STACKS | RP_SESSION_NO_RUNDOWN);
}

/* A session with function names, which the module looks up. */
static void run_names(struct outcome *outcome)
{
	run_to_file(outcome, RP_SESSION_STACKS);
}

static void take_event(const struct rp_listener_event *event, void *data)
{
	*(uint64_t *)data += strcmp(event->provider, "Test-Failing") == 0;
}

static void run_listener(struct outcome *outcome)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Failing", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
	};
	struct rp_listener *listener = NULL;

	outcome->error = rp_listener_start(&options, take_event, &outcome->taken, &listener);
	check((outcome->error == 0) == (listener != NULL));
	if (!listener)
		return;
	write_while_enabled(outcome);
	check(rp_listener_drain(listener) == 0);
	outcome->end = rp_listener_stop(listener, &outcome->stats);
}

/* A session with samples, counters, mappings and library events: all with a thread or a table. */
static void run_all(struct outcome *outcome)
{
	struct rp_session_provider wanted[] = {
		{ .size = sizeof(*wanted), .name = "Test-Failing", .level = 5 },
		{ .size = sizeof(*wanted), .name = "Microsoft-DotNETCore-SampleProfiler",
		  .level = 5 },
		{ .size = sizeof(*wanted), .name = "Test-Counted", .level = 5,
		  .filter_data = "EventCounterIntervalSec=1" },
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = wanted, .provider_count = 3,
		.output_path = trace,
	};
	struct rp_session *session = NULL;

	outcome->error = rp_session_start(&options, &session);
	check((outcome->error == 0) == (session != NULL));
	if (!session)
		return;
	counted_sum_add(1);
	write_while_enabled(outcome);
	outcome->end = rp_session_stop(session, &outcome->stats);
}

static const struct scenario {
	const char *name;
	void (*run)(struct outcome *outcome);
	bool has_file, is_exact;
	/* libc ends the process if it cannot allocate libelf's thread-local storage. */
	bool needs_memory;
} scenarios[] = {
	{ "file", run_file, true, true, false },
	{ "names", run_names, true, true, true },
	{ "listener", run_listener, false, true, INJECT_THREADS_NEED_MEMORY },
	{ "all", run_all, true, false, INJECT_THREADS_NEED_MEMORY },
};

static void check_counts(const struct scenario *scenario, const struct outcome *outcome)
{
	uint64_t sum = outcome->stats.delivered + outcome->stats.lost, events, lost;

	check(outcome->end == outcome->stats.error);
	if (scenario->is_exact)
		check(sum == outcome->offered || (outcome->unsure && sum + 1 == outcome->offered));
	if (scenario->is_exact && !scenario->has_file)
		check(outcome->taken == outcome->stats.delivered);
	if (!scenario->has_file || outcome->end != 0)
		return;
	count_trace(trace, "Test-Failing", &events, &lost);
	check(lost == outcome->stats.lost);
	if (scenario->is_exact)
		check(events == outcome->stats.delivered);
}

/* Without a failure, nothing is lost. */
static void run_whole(const struct scenario *scenario)
{
	struct outcome outcome = { .stats.size = sizeof(outcome.stats) };

	scenario->run(&outcome);
	check(outcome.error == 0 && outcome.end == 0);
	check(outcome.offered == EVENTS && outcome.stats.lost == 0);
	check_counts(scenario, &outcome);
}

/* Return: whether the scenario made the call. */
static bool run_failing(const struct scenario *scenario, enum inject_kind kind, unsigned int nth)
{
	struct outcome outcome = { .stats.size = sizeof(outcome.stats) };
	bool failed;

	inject_arm(kind, nth, false);
	scenario->run(&outcome);
	failed = inject_disarm();
	check(outcome.error == 0 || (failed && outcome.error == -inject_error(kind)));
	if (outcome.error == 0)
		check_counts(scenario, &outcome);
	return failed;
}

static unsigned int fail_each(const struct scenario *scenario, enum inject_kind kind)
{
	struct held before = count_held();
	unsigned int nth = 1;
	bool failed;

	do {
		printf("%s: %s, call %u\n", scenario->name, inject_name(kind), nth);
		fflush(stdout);
		failed = run_failing(scenario, kind, nth);
		run_whole(scenario);
		wait_until(holds_no_more(&before));
		nth++;
	} while (failed && nth < NTH_MAX);
	check(nth < NTH_MAX);
	return nth - 2;
}

int main(void)
{
	unsigned int failures = 0;

	alarm(5 * PATIENCE_S);
	check(mkdtemp(directory));
	snprintf(trace, sizeof(trace), "%s/trace", directory);
	for (unsigned int i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		/* The first run creates the threads that remain. */
		run_whole(&scenarios[i]);
		for (unsigned int kind = 0; kind < INJECT_KIND_COUNT; kind++) {
			if (kind != INJECT_memory || !scenarios[i].needs_memory)
				failures += fail_each(&scenarios[i], kind);
		}
	}
	check(unlink(trace) == 0);
	check(rmdir(directory) == 0);
	printf("# figure: %u failures of %u kinds of call\n", failures, INJECT_KIND_COUNT);
	return 0;
}
