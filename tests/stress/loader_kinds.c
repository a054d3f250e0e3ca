/* SPDX-License-Identifier: MIT */
/* Everything of ringpipe that starts a thread, takes a lock or refers to libraries' events. */
#include "loader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "stress.h"

#define ROUNDS 5u		/* of the libraries, while the object exists */
#define BUFFER_BYTES (1u << 20)	/* or the minimum of a flight recorder */
#define BLOCK_MS 100u

static struct rp_session_options options_of(const struct loader_kind *kind,
					    struct rp_session_provider **ret_providers)
{
	struct rp_session_options options = {
		.size = sizeof(options),
		.flags = kind->flags,
		.buffer_bytes = kind->flags & RP_SESSION_OVERWRITE ? RP_SESSION_OVERWRITE_MIN :
				BUFFER_BYTES,
		.output_fd = -1,
	};
	int ret = rp_providers_parse(kind->providers ? kind->providers : LOADER_ALL, ret_providers,
				     &options.provider_count, NULL);

	loader_check(ret == 0, kind, "reading its providers", ret);
	options.providers = *ret_providers;
	return options;
}

static struct rp_session *start(const struct loader_kind *kind, struct rp_session_options *options)
{
	struct rp_session *session = NULL;
	int ret = rp_session_start(options, &session);

	loader_check(ret == 0, kind, "rp_session_start", ret);
	return session;
}

static void stop(const struct loader_kind *kind, struct rp_session *session)
{
	int ret = rp_session_stop(session, NULL);

	loader_check(ret == 0, kind, "rp_session_stop", ret);
}

/* Records a session to a file; `change`, unless NULL, modifies its options. */
static void record(const struct loader_kind *kind, void (*change)(struct rp_session_options *))
{
	struct rp_session_provider *providers;
	struct rp_session_options options = options_of(kind, &providers);
	struct rp_session *session;
	char path[256];

	options.output_path = loader_path(kind, path);
	if (change)
		change(&options);
	session = start(kind, &options);
	loader_wait(ROUNDS);
	stop(kind, session);
	free(providers);
	unlink(path);
}

static void run_session(const struct loader_kind *kind)
{
	record(kind, NULL);
}

static void make_blocking(struct rp_session_options *options)
{
	options->block_ms = BLOCK_MS;
}

static void run_blocking(const struct loader_kind *kind)
{
	record(kind, make_blocking);
}

static void make_recoverable(struct rp_session_options *options)
{
	options->recover_path = stress_path(".");
}

static void run_recoverable(const struct loader_kind *kind)
{
	record(kind, make_recoverable);
}

static void make_rolling(struct rp_session_options *options)
{
	options->roll_bytes = RP_SESSION_ROLL_MIN;
}

static void run_rolling(const struct loader_kind *kind)
{
	record(kind, make_rolling);
}

static void run_pipe(const struct loader_kind *kind)
{
	struct rp_session_provider *providers;
	struct rp_session_options options = options_of(kind, &providers);
	struct rp_session *session;

	options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	session = start(kind, &options);
	loader_wait(ROUNDS);
	stop(kind, session);
	free(providers);
}

/* A flight recorder, its triggers and its snapshots. */
static void run_recorder(const struct loader_kind *kind)
{
	struct rp_session_provider *providers;
	struct rp_session_options options = options_of(kind, &providers);
	struct rp_trigger_options trigger = {
		.size = sizeof(trigger), .triggers = LOADER_PROVIDERS "-1:called", .files = 1,
	};
	struct rp_triggers *triggers = NULL;
	struct rp_session *session;
	char path[256];
	int ret;

	trigger.path = loader_path(kind, path);
	session = start(kind, &options);
	ret = rp_triggers_start(session, &trigger, &triggers);
	loader_check(ret == 0, kind, "rp_triggers_start", ret);
	loader_wait(ROUNDS);
	ret = rp_session_snapshot(session, path, -1, NULL);
	loader_check(ret == 0 || ret == -EBUSY, kind, "rp_session_snapshot", ret);
	loader_wait(ROUNDS);
	ret = rp_triggers_stop(triggers, NULL);
	loader_check(ret == 0, kind, "rp_triggers_stop", ret);
	stop(kind, session);
	free(providers);
	unlink(path);
}

/* A process has one such signal. */
static void run_snapshot_signal(const struct loader_kind *kind)
{
	char path[256];
	int ret = rp_snapshot_on_signal(SIGUSR2, loader_path(kind, path));

	loader_check(ret == 0 || ret == -EBUSY, kind, "rp_snapshot_on_signal", ret);
	/* Another thread's call may not have installed the handler yet. */
	if (ret == 0)
		raise(SIGUSR2);
	run_recorder(kind);
}

static void run_pull_listener(const struct loader_kind *kind)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_session_provider *providers;
	struct rp_session_options options = options_of(kind, &providers);
	struct rp_listener *listener = NULL;
	int ret = rp_listener_start(&options, NULL, NULL, &listener);

	loader_check(ret == 0, kind, "rp_listener_start", ret);
	ret = rp_listener_next(listener, &event, -1);
	loader_check(ret == 1, kind, "rp_listener_next", ret);
	loader_wait(ROUNDS);
	ret = rp_listener_set_providers(listener, options.providers, options.provider_count);
	loader_check(ret == 0, kind, "rp_listener_set_providers", ret);
	ret = rp_listener_stop(listener, NULL);
	loader_check(ret == 0, kind, "rp_listener_stop", ret);
	free(providers);
}

static void count(const struct rp_listener_event *event, void *data)
{
	__atomic_add_fetch((uint64_t *)data, event->payload_bytes, __ATOMIC_RELAXED);
}

static void run_push_listener(const struct loader_kind *kind)
{
	struct rp_session_provider *providers;
	struct rp_session_options options = options_of(kind, &providers);
	struct rp_listener *listener = NULL;
	uint64_t bytes = 0;
	int ret = rp_listener_start(&options, count, &bytes, &listener);

	loader_check(ret == 0, kind, "rp_listener_start", ret);
	loader_wait(ROUNDS);
	ret = rp_listener_stop(listener, NULL);
	loader_check(ret == 0, kind, "rp_listener_stop", ret);
	free(providers);
}

static void run_tracers(const struct loader_kind *kind)
{
	int ret = rp_tracers_watch(10);

	loader_check(ret == 0, kind, "rp_tracers_watch", ret);
	loader_wait(ROUNDS);
}

/* Without LTTng there is no library to load. */
static void run_lttng(const struct loader_kind *kind)
{
	int ret = rp_lttng_start();

	loader_check(ret == 0 || ret == -ENOENT, kind, "rp_lttng_start", ret);
	loader_wait(ROUNDS);
}

static void on_state(struct rp_provider *provider, const struct rp_provider_state *state,
		     void *data)
{
	(void)provider;
	__atomic_store_n((int *)data, state->enabled, __ATOMIC_RELAXED);
}

/* A provider and a counter of the process itself, with a callback, in a session. */
static void run_dynamic(const struct loader_kind *kind)
{
	static const struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 1, .name = "dynamic", .level = RP_LEVEL_INFORMATIONAL,
	};
	struct rp_provider *provider = NULL;
	struct rp_event *event = NULL;
	int enabled = 0;
	int ret = rp_provider_create("Loader-Dynamic", on_state, &enabled, &provider);

	loader_check(ret == 0, kind, "rp_provider_create", ret);
	ret = rp_event_create(provider, &decl, &event);
	loader_check(ret == 0, kind, "rp_event_create", ret);
	record(kind, NULL);
	ret = rp_provider_destroy(provider);
	loader_check(ret == 0, kind, "rp_provider_destroy", ret);
}

/*
 * A child creates threads, even if another thread was in dlopen() at the fork. The child reports no
 * mappings, since glibc's dl_iterate_phdr(3) may hang there.
 */
static void run_fork(const struct loader_kind *kind)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct rp_session_provider *providers;
		struct rp_session_options options = options_of(kind, &providers);

		options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		stop(kind, start(kind, &options));
		/* execl() hides the parent's sessions from the leak check. */
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	loader_check(child > 0 && waitpid(child, &status, 0) == child && status == 0, kind,
		     "a forked child", status);
	loader_wait(ROUNDS);
}

const struct loader_kind loader_kinds[] = {
	{ .name = "drop", .run = run_session },
	{ .name = "recorder", .run = run_recorder, .flags = RP_SESSION_OVERWRITE },
	{ .name = "snapshot-signal", .run = run_snapshot_signal, .flags = RP_SESSION_OVERWRITE },
	{ .name = "block", .run = run_blocking },
	{ .name = "recovery", .run = run_recoverable },
	{ .name = "roll", .run = run_rolling },
	{ .name = "pipe", .run = run_pipe, .flags = RP_SESSION_NO_RUNDOWN },
	{ .name = "causal", .run = run_session, .flags = RP_SESSION_CAUSAL },
	{ .name = "coarse", .run = run_session, .flags = RP_SESSION_COARSE },
	{ .name = "stacks", .run = run_session, .flags = RP_SESSION_STACKS },
	{ .name = "counters", .run = run_session, .providers = LOADER_COUNTERS },
	{ .name = "meters", .run = run_session, .providers = LOADER_METERS },
	{ .name = "samples", .run = run_session, .flags = RP_SESSION_STACKS,
	  .providers = LOADER_SAMPLES },
	{ .name = "threads", .run = run_session, .flags = RP_SESSION_STACKS,
	  .providers = LOADER_THREADS },
	{ .name = "pull-listener", .run = run_pull_listener },
	{ .name = "push-listener", .run = run_push_listener },
	{ .name = "tracers", .run = run_tracers },
	{ .name = "lttng", .run = run_lttng },
	{ .name = "dynamic", .run = run_dynamic },
	{ .name = "static-keys", .run = run_session, .environment = "RINGPIPE_STATIC_KEYS=1" },
/* After a fork, ThreadSanitizer has no threads, and a lock of AddressSanitizer may be held. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	{ .name = "fork", .run = run_fork, .flags = RP_SESSION_NO_RUNDOWN },
#endif
	/* From outside: sessions in a stream. */
	{ .name = "collect-1", .run = loader_collect, .command = LOADER_COLLECT_1 },
	{ .name = "collect-2", .run = loader_collect, .command = LOADER_COLLECT_2,
	  .rundown = true },
	{ .name = "collect-3", .run = loader_collect, .command = LOADER_COLLECT_3 },
	{ .name = "collect-4", .run = loader_collect, .command = LOADER_COLLECT_4 },
	{ .name = "collect-5", .run = loader_collect, .command = LOADER_COLLECT_5 },
	{ .name = "collect-6", .run = loader_collect, .command = LOADER_COLLECT_6 },
	{ .name = "collect-block", .run = loader_collect, .command = LOADER_COLLECT_6,
	  .option = 1 },
	{ .name = "collect-block-ms", .run = loader_collect,
	  .command = LOADER_COLLECT_WITH_OPTIONS, .option = BLOCK_MS },
	{ .name = "collect-coarse", .run = loader_collect, .command = LOADER_COLLECT_WITH_OPTIONS,
	  .flags = RP_SESSION_COARSE },
	{ .name = "collect-v6", .run = loader_collect, .command = LOADER_COLLECT_4, .format = 6,
	  .rundown = true },
	{ .name = "collect-stacks", .run = loader_collect, .command = LOADER_COLLECT_3,
	  .flags = RP_SESSION_STACKS },
	{ .name = "collect-counters", .run = loader_collect, .command = LOADER_COLLECT_3,
	  .providers = LOADER_COUNTERS },
	{ .name = "collect-meters", .run = loader_collect, .command = LOADER_COLLECT_3,
	  .providers = LOADER_METERS },
	{ .name = "collect-samples", .run = loader_collect, .command = LOADER_COLLECT_3,
	  .flags = RP_SESSION_STACKS, .providers = LOADER_SAMPLES },
	{ .name = "collect-threads", .run = loader_collect, .command = LOADER_COLLECT_3,
	  .flags = RP_SESSION_STACKS, .providers = LOADER_THREADS },
	{ .name = "collect-and-leave", .run = loader_collect_and_leave,
	  .command = LOADER_COLLECT_3 },
	{ .name = "batches", .run = loader_collect_batches, .command = LOADER_BATCHES },
	{ .name = "filtered-batches", .run = loader_collect_batches,
	  .command = LOADER_FILTERED_BATCHES },
	/* From outside: sessions that a further command stops. */
	{ .name = "flight", .run = loader_fly, .command = LOADER_FLIGHT, .rundown = true },
	{ .name = "flight-recovery", .run = loader_fly, .command = LOADER_FLIGHT, .option = 1 },
	{ .name = "flight-coarse", .run = loader_fly, .command = LOADER_FLIGHT, .option = 2 },
	{ .name = "flight-v6", .run = loader_fly, .command = LOADER_FLIGHT, .format = 6 },
	{ .name = "flight-stacks", .run = loader_fly, .command = LOADER_FLIGHT,
	  .flags = RP_SESSION_STACKS },
	{ .name = "flight-samples", .run = loader_fly, .command = LOADER_FLIGHT,
	  .flags = RP_SESSION_STACKS, .providers = LOADER_SAMPLES },
	{ .name = "roll-outside", .run = loader_fly, .command = LOADER_ROLL },
	/* From outside: everything but sessions. */
	{ .name = "perf-map", .run = loader_write_perf_map, .option = 3 },
	{ .name = "perf-map-and-jitdump", .run = loader_write_perf_map, .option = 1 },
	{ .name = "dump", .run = loader_dump, .command = LOADER_DUMP_3 },
	{ .name = "dump-with-frames", .run = loader_dump, .command = LOADER_DUMP_WITH_FRAMES },
	{ .name = "info-1", .run = loader_ask, .command = LOADER_INFO_1 },
	{ .name = "info-2", .run = loader_ask, .command = LOADER_INFO_2 },
	{ .name = "info-3", .run = loader_ask, .command = LOADER_INFO_3 },
	{ .name = "resume", .run = loader_ask, .command = LOADER_RESUME },
	{ .name = "environment", .run = loader_ask, .command = LOADER_GET_ENVIRONMENT },
	{ .name = "variable", .run = loader_ask, .command = LOADER_SET_VARIABLE },
	{ .name = "list", .run = loader_ask, .command = LOADER_LIST_ENABLED },
	{ .name = "list-events", .run = loader_ask, .command = LOADER_LIST_EVENTS },
};

const size_t loader_kind_count = sizeof(loader_kinds) / sizeof(loader_kinds[0]);
