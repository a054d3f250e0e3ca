/* SPDX-License-Identifier: MIT */
/* Forked children start without sessions, and a fork does not disturb the parent. */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <ringpipe/host.h>
#include <ringpipe/prepare.h>
#include <ringpipe/trigger.h>

RP_PROVIDER(forked, "Test-Forked");
RP_EVENT(forked, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));
RP_PROVIDER(counted, "Test-Counted");
RP_COUNTER(counted, sum, NULL, NULL);

#define FORKS 200

#define CHILD_DELAY_MS 100	/* as in ringpipe.c */

static char directory[] = "/tmp/rp-fork-XXXXXX";
static char parents_trace[64];

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);

/* A child deliberately does not free the memory of its parent's sessions. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

/* An alarm ends a child that hangs, and this check then fails. */
static void expect_child(pid_t child)
{
	int status;

	check(child > 0);
	check(waitpid(child, &status, 0) == child);
	if (status != 0)
		fprintf(stderr, "child %d ended with wait status 0x%x\n", (int)child,
			(unsigned int)status);
	check(status == 0);
}

static bool has_socket(pid_t pid)
{
	DIR *entries = opendir(directory);
	struct dirent *entry;
	char begin[64];
	bool found = false;

	check(entries);
	snprintf(begin, sizeof(begin), "dotnet-diagnostic-%d-", (int)pid);
	while ((entry = readdir(entries)))
		found = found || strncmp(entry->d_name, begin, strlen(begin)) == 0;
	closedir(entries);
	return found;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/*
 * Remove the child's socket. A child that has called neither exec nor _exit within CHILD_DELAY_MS
 * may have a socket; a child that ended earlier must not. Return: whether there was no socket.
 */
static bool left_no_socket(pid_t child, int64_t forked_ns)
{
	bool in_time = now_ns() - forked_ns < CHILD_DELAY_MS * 1000000ll, none = true;
	DIR *entries = opendir(directory);
	struct dirent *entry;
	char begin[64];

	check(entries);
	snprintf(begin, sizeof(begin), "dotnet-diagnostic-%d-", (int)child);
	while ((entry = readdir(entries))) {
		if (strncmp(entry->d_name, begin, strlen(begin)) != 0)
			continue;
		check(!in_time);
		check(unlinkat(dirfd(entries), entry->d_name, 0) == 0);
		none = false;
	}
	closedir(entries);
	return none;
}

static int no_session(const struct rp_enabled *enabled, void *data)
{
	(void)data;
	return enabled->session_id != 0;
}

/* Run a session in the child, from its start to a complete trace. */
static void run_own_session(uint64_t events)
{
	uint64_t read, lost;
	char path[64];

	snprintf(path, sizeof(path), "%s/child-%d", directory, (int)getpid());
	{
		struct rp_session *session = session_to(path, "Test-Forked", 0);

		for (uint64_t i = 0; i < events; i++)
			check(forked_mark(i) == 0);
		check(rp_session_stop(session, NULL) == 0);
	}
	count_trace(path, "Test-Forked", &read, &lost);
	check(read == events && lost == 0);
	check(unlink(path) == 0);
}

static void child_starts_clean(struct rp_session *inherited, struct rp_listener *listener)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;

	alarm(PATIENCE_S);
	check(!forked_mark_enabled());
	check(forked_mark(0xbad) == 0);
	check(rp_enabled_list(no_session, NULL) == 0);
	run_own_session(1000);
	check(rp_session_stop(inherited, &stats) >= -4095);
	check(rp_listener_stop(listener, NULL) >= -4095);
	run_own_session(10);
	wait_until(has_socket(getpid()));
	check(has_socket(getppid()));
	exit(0);
}

static void count_events(const struct rp_listener_event *event, void *data)
{
	*(uint64_t *)data += strcmp(event->provider, "Test-Forked") == 0;
}

static struct rp_listener *push_listener(uint64_t *events)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Forked", .level = 5,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &wanted, .provider_count = 1,
	};
	struct rp_listener *listener;

	check(rp_listener_start(&options, count_events, events, &listener) == 0);
	return listener;
}

static void child_is_clean_and_parent_complete(void)
{
	struct rp_session *session = session_to(parents_trace, "Test-Forked", 0);
	uint64_t heard = 0, read, lost, written = 0;
	struct rp_listener *listener = push_listener(&heard);

	for (int i = 0; i < 5; i++) {
		pid_t child;

		for (int j = 0; j < 100; j++)
			check(forked_mark(written++) == 0);
		child = fork();
		if (child == 0)
			child_starts_clean(session, listener);
		check(forked_mark(written++) == 0);
		expect_child(child);
		check(!has_socket(child));
		check(forked_mark_enabled());
	}
	check(rp_listener_drain(listener) == 0);
	check(rp_listener_stop(listener, NULL) == 0);
	check(heard == written);
	check(rp_session_stop(session, NULL) == 0);
	count_trace(parents_trace, "Test-Forked", &read, &lost);
	check(read == written && lost == 0);
}

/* Writers, and a thread that starts and stops sessions, run during all forks. */
static bool over;
static uint64_t offered, refused;

static void *keep_writing(void *data)
{
	uint64_t serial = 0;

	(void)data;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		if (forked_mark(serial++) != 0)
			__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
		if (serial % 64 == 0)
			poll(NULL, 0, 1);
	}
	__atomic_fetch_add(&offered, serial, __ATOMIC_RELAXED);
	return NULL;
}

static void *keep_switching(void *data)
{
	(void)data;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		struct rp_session_stats stats = RP_SESSION_STATS_INIT;
		struct rp_session *session = session_to("/dev/null", "*", RP_SESSION_BUFFER_MIN);
		struct rp_provider *provider;

		check(rp_provider_create("Test-Passing", NULL, NULL, &provider) == 0);
		check(rp_provider_destroy(provider) == 0);
		check(rp_session_stop(session, &stats) == 0);
	}
	return NULL;
}

static void forks_while_all_is_busy_do_not_hang(void)
{
	struct rp_session_stats stats = RP_SESSION_STATS_INIT;
	struct rp_session *session = session_to(parents_trace, "Test-Forked", 0);
	pthread_t threads[3];
	uint64_t read, lost;

	check(pthread_create(&threads[0], NULL, keep_writing, NULL) == 0);
	check(pthread_create(&threads[1], NULL, keep_writing, NULL) == 0);
	check(pthread_create(&threads[2], NULL, keep_switching, NULL) == 0);
	for (int i = 0; i < FORKS; i++) {
		int64_t forked_ns = now_ns();
		pid_t child = fork();

		if (child == 0) {
			alarm(PATIENCE_S);
			check(!forked_mark_enabled());
			check(forked_mark(1) == 0);
			if (i % 10 == 0)
				run_own_session(100);
			if (i % 10 == 5)
				(void)rp_session_stop(session, NULL);
			if (i % 2)
				_exit(0);
			exit(0);
		}
		expect_child(child);
		(void)left_no_socket(child, forked_ns);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		check(pthread_join(threads[i], NULL) == 0);
	check(rp_session_stop(session, &stats) == 0);
	check(stats.delivered + stats.lost == offered);
	count_trace(parents_trace, "Test-Forked", &read, &lost);
	check(read == stats.delivered && lost == stats.lost);
}

/* Call every function that holds an internal lock for a moment. */
static void *keep_asking(void *data)
{
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		struct rp_trigger_stats stats = RP_TRIGGER_STATS_INIT;

		rp_host_set_environment_callback(NULL, NULL);
		check(rp_triggers_get_stats(data, &stats) == 0);
	}
	return NULL;
}

static void child_waits_for_no_lock_of_a_thread_it_has_not(void)
{
	const struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "Test-Forked",
	};
	const struct rp_session_options options = {
		.size = sizeof(options), .flags = RP_SESSION_OVERWRITE, .providers = &provider,
		.provider_count = 1, .buffer_bytes = RP_SESSION_OVERWRITE_MIN,
		.output_fd = -1,
	};
	const struct rp_trigger_options wanted = {
		.size = sizeof(wanted), .triggers = "Test-Forked:mark", .path = "/dev/null",
	};
	struct rp_trigger_stats stats = RP_TRIGGER_STATS_INIT;
	struct rp_session *session;
	struct rp_triggers *triggers;
	pthread_t thread;

	check(rp_session_start(&options, &session) == 0);
	check(rp_triggers_start(session, &wanted, &triggers) == 0);
	__atomic_store_n(&over, false, __ATOMIC_RELAXED);
	check(pthread_create(&thread, NULL, keep_asking, triggers) == 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();

		if (child == 0) {
			alarm(PATIENCE_S);
			rp_host_set_environment_callback(NULL, NULL);
			check(rp_triggers_get_stats(triggers, &stats) == 0);
			check(rp_triggers_stop(triggers, NULL) == 0);
			_exit(0);
		}
		expect_child(child);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	check(pthread_join(thread, NULL) == 0);
	check(rp_triggers_stop(triggers, NULL) == 0);
	check(rp_session_stop(session, NULL) == 0);
}

static struct rp_listener *listen_to_counters(void)
{
	struct rp_session_provider wanted = {
		.size = sizeof(wanted), .name = "Test-Counted", .level = 4,
		.filter_data = "EventCounterIntervalSec=0.01",
	};

	return listen_to_provider(&wanted);
}

/*
 * Read counter events, at least one, until their sum is `expected`. In the payload, the increment
 * follows the name, the display name (equal to the name) and the scale.
 */
static void expect_increments(struct rp_listener *listener, double expected)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	time_t limit = time(NULL) + PATIENCE_S;
	double sum = 0, increment;

	do {
		check(time(NULL) <= limit);
		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
		check(strcmp(event.name, "EventCounters") == 0);
		memcpy(&increment, (const char *)event.payload + 2 * sizeof("sum") +
		       sizeof(""), sizeof(increment));
		sum += increment;
	} while (sum < expected);
	check(sum == expected);
}

static double counted(void)
{
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;

	check(rp_counter_read(counted_sum_counter(), &reading) == 0);
	return reading.value;
}

/* A child's counters start at the parent's values; the parent's readers do not see its changes. */
static void counters_go_on_in_the_child_apart_from_the_parents(void)
{
	struct rp_listener *listener = listen_to_counters(), *own;
	pid_t child;

	expect_increments(listener, 0);
	counted_sum_add(5);
	child = fork();
	if (child == 0) {
		alarm(PATIENCE_S);
		check(counted() == 5);
		own = listen_to_counters();
		expect_increments(own, 0);
		counted_sum_add(100);
		expect_increments(own, 100);
		check(counted() == 105);
		check(rp_listener_stop(own, NULL) == 0);
		exit(0);	/* the child may have lived long enough to have a socket */
	}
	expect_child(child);
	counted_sum_add(2);
	expect_increments(listener, 7);
	check(counted() == 7);
	check(rp_listener_stop(listener, NULL) == 0);
}

static void child_that_execs_leaves_no_socket(void)
{
	char name[] = "true";
	char *arguments[] = { name, NULL };
	time_t limit = time(NULL) + PATIENCE_S;
	pid_t spawned;
	int clean = 0;

	while (clean < 20 && time(NULL) <= limit) {
		int64_t forked_ns = now_ns();
		pid_t child = fork();

		check(child >= 0);
		if (child == 0) {
			execl("/bin/true", "true", NULL);
			_exit(127);
		}
		expect_child(child);
		clean += left_no_socket(child, forked_ns);
	}
	check(clean > 0);
	check(posix_spawn(&spawned, "/bin/true", NULL, NULL, arguments, environ) == 0);
	expect_child(spawned);
	check(!has_socket(spawned));
	check(has_socket(getpid()));
}

static void grandchildren_are_clean_too(void)
{
	struct rp_session *session = session_to(parents_trace, "Test-Forked", 0);
	pid_t child = fork();
	uint64_t read, lost;

	if (child == 0) {
		struct rp_session *own = session_to("/dev/null", "Test-Forked", 0);
		pid_t grandchild = fork();

		alarm(PATIENCE_S);
		if (grandchild == 0) {
			alarm(PATIENCE_S);
			check(!forked_mark_enabled());
			(void)rp_session_stop(own, NULL);
			(void)rp_session_stop(session, NULL);
			run_own_session(10);
			exit(0);
		}
		check(forked_mark_enabled());
		expect_child(grandchild);
		check(rp_session_stop(own, NULL) == 0);
		exit(0);
	}
	expect_child(child);
	check(forked_mark(1) == 0);
	check(rp_session_stop(session, NULL) == 0);
	count_trace(parents_trace, "Test-Forked", &read, &lost);
	check(read == 1 && lost == 0);
}

/* The library reads TMPDIR when it is loaded, so the program starts itself again with it set. */
static int run_again(char **argv)
{
	char again[] = "again";
	char *arguments[] = { argv[0], again, directory, NULL };
	pid_t child;
	int status;

	check(mkdtemp(directory));
	check(setenv("TMPDIR", directory, 1) == 0);
	child = fork();
	check(child >= 0);
	if (child == 0) {
		execv("/proc/self/exe", arguments);
		_exit(127);
	}
	check(waitpid(child, &status, 0) == child);
	check(rmdir(directory) == 0);
	return status != 0;
}

static int prepare_child(void)
{
	struct rp_prepare_options options = RP_PREPARE_OPTIONS_INIT;

	alarm(PATIENCE_S);
	options.what = RP_PREPARE_SESSIONS | RP_PREPARE_COUNTERS;
	return rp_prepare(&options);
}

static void *prepare_in_thread(void *data)
{
	check(prepare_child() == 0);
	check(has_socket(getpid()));
	return data;
}

/* Its children start while the ports of this process are not open yet. */
static void prepare_with_children_and_threads(void)
{
	pid_t child = fork();
	pthread_t threads[4];

	if (child == 0) {
		(void)prepare_in_thread(NULL);
		exit(0);
	}
	for (int i = 0; i < 4; i++)
		check(pthread_create(&threads[i], NULL, prepare_in_thread, NULL) == 0);
	(void)prepare_in_thread(NULL);
	for (int i = 0; i < 4; i++)
		check(pthread_join(threads[i], NULL) == 0);
	(void)prepare_in_thread(NULL);
	expect_child(child);
	exit(0);
}

static void prepare_as_daemon(void)
{
	for (int fd = STDERR_FILENO + 1; fd < 256; fd++)
		(void)close(fd);
	(void)prepare_in_thread(NULL);
	exit(0);
}

/* The fork copies the state of this process, whose thread has not opened the ports yet. */
static void prepare_without_descriptors(void)
{
	struct rlimit none = { 0 };
	pid_t child;

	check(getrlimit(RLIMIT_NOFILE, &none) == 0);
	none.rlim_cur = 0;
	check(setrlimit(RLIMIT_NOFILE, &none) == 0);
	child = fork();
	if (child == 0) {
		(void)prepare_child();
		_exit(0);
	}
	expect_child(child);
	exit(0);
}

static void child_has_its_socket_once_it_is_prepared(void)
{
	void (*const programs[])(void) = {
		prepare_with_children_and_threads, prepare_as_daemon, prepare_without_descriptors,
	};

	check(prepare_child() == 0);
	alarm(0);
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		pid_t child = fork();

		if (child == 0) {
			alarm(PATIENCE_S);
			programs[i]();
		}
		expect_child(child);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return run_again(argv);
	check(strlen(argv[2]) == strlen(directory));
	memcpy(directory, argv[2], strlen(directory));
	snprintf(parents_trace, sizeof(parents_trace), "%s/trace", directory);
	wait_until(has_socket(getpid()));
	child_is_clean_and_parent_complete();
	forks_while_all_is_busy_do_not_hang();
	child_waits_for_no_lock_of_a_thread_it_has_not();
	grandchildren_are_clean_too();
	counters_go_on_in_the_child_apart_from_the_parents();
	child_that_execs_leaves_no_socket();
	child_has_its_socket_once_it_is_prepared();
	check(unlink(parents_trace) == 0);
	return 0;
}
