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
	{ "drop", run_session, 0, NULL, NULL },
	{ "recorder", run_recorder, RP_SESSION_OVERWRITE, NULL, NULL },
	{ "snapshot-signal", run_snapshot_signal, RP_SESSION_OVERWRITE, NULL, NULL },
	{ "block", run_blocking, 0, NULL, NULL },
	{ "recovery", run_recoverable, 0, NULL, NULL },
	{ "roll", run_rolling, 0, NULL, NULL },
	{ "pipe", run_pipe, RP_SESSION_NO_RUNDOWN, NULL, NULL },
	{ "causal", run_session, RP_SESSION_CAUSAL, NULL, NULL },
	{ "coarse", run_session, RP_SESSION_COARSE, NULL, NULL },
	{ "stacks", run_session, RP_SESSION_STACKS, NULL, NULL },
	{ "counters", run_session, 0, LOADER_COUNTERS, NULL },
	{ "meters", run_session, 0, LOADER_METERS, NULL },
	{ "samples", run_session, RP_SESSION_STACKS, LOADER_SAMPLES, NULL },
	{ "threads", run_session, RP_SESSION_STACKS, LOADER_THREADS, NULL },
	{ "pull-listener", run_pull_listener, 0, NULL, NULL },
	{ "push-listener", run_push_listener, 0, NULL, NULL },
	{ "tracers", run_tracers, 0, NULL, NULL },
	{ "lttng", run_lttng, 0, NULL, NULL },
	{ "dynamic", run_dynamic, 0, NULL, NULL },
	{ "static-keys", run_session, 0, NULL, "RINGPIPE_STATIC_KEYS=1" },
/* After a fork, ThreadSanitizer has no threads, and a lock of AddressSanitizer may be held. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	{ "fork", run_fork, RP_SESSION_NO_RUNDOWN, NULL, NULL },
#endif
	{ "collect", loader_collect, 0, NULL, NULL },
	{ "collect-stacks", loader_collect, RP_SESSION_STACKS, NULL, NULL },
	{ "collect-counters", loader_collect, 0, LOADER_COUNTERS, NULL },
	{ "collect-samples", loader_collect, RP_SESSION_STACKS, LOADER_SAMPLES, NULL },
};

const size_t loader_kind_count = sizeof(loader_kinds) / sizeof(loader_kinds[0]);
