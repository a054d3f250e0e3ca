/* SPDX-License-Identifier: MIT */
/*
 * The main thread of a process has called pthread_exit(). Once only the library's threads are left,
 * a signal with the default action ends the process. Before that, the library takes no signal from
 * a thread of the host.
 *
 * Each promise runs in a separate process, which the parent observes through /proc. This source
 * makes three programs: PLAIN; POLLED, which serves its clients itself; and KEYED, which has static
 * keys.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "incomplete_list.h"

#define PATIENCE_S 60
#define LOOKS 3			/* checks after which the library surely ignores a signal */
#define ORDER_FD 100		/* the parent's descriptors have lower numbers */
#define REPORT_FD 101
#define TAKEN 42		/* exit status of a host that handled its signal itself */

/* The programs of this source; PROGRAM selects one. */
#define PLAIN 0
#define POLLED 1
#define KEYED 2
#ifndef PROGRAM
#define PROGRAM PLAIN
#endif

#if PROGRAM == POLLED		/* the program serves clients, not a thread of the library */
RP_DIAGNOSTICS(RP_DIAGNOSTICS_POLL);
#endif

RP_PROVIDER(last, "Test-Last-Signals");
RP_EVENT(last, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(number));
RP_COUNTER(last, calls, "calls", NULL);
#if PROGRAM == KEYED
#undef RP_STATIC_KEYS
#define RP_STATIC_KEYS 1
RP_EVENT(last, keyed, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U32(number));
#endif

static void check(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "# %s: %s\n", what, strerror(errno));
	_exit(1);
}

/* The host process. */

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	check(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0, "pthread_sigmask");
}

static void start_session(void)
{
	const struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "*", .keywords = ~0ull,
		.level = RP_LEVEL_VERBOSE,
	};
	const struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.buffer_bytes = 1 << 20,
		.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC),
	};
	struct rp_session *session;

	check(rp_session_start(&options, &session) == 0, "rp_session_start");
	(void)last_mark(1);
}

static void count(const struct rp_listener_event *event, void *data)
{
	(void)event;
	(void)data;
}

static struct rp_listener *listener;

static void start_listener(void)
{
	const struct rp_session_provider provider = {
		.size = sizeof(provider), .name = "*", .keywords = ~0ull,
		.level = RP_LEVEL_VERBOSE,
	};
	const struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
		.buffer_bytes = 1 << 20,
	};

	check(rp_listener_start(&options, count, NULL, &listener) == 0, "rp_listener_start");
}

static void watch_tracers(void)
{
	check(rp_tracers_watch(1000) == 0, "rp_tracers_watch");
}

static void do_nothing(void)
{
}

static void use_counter(void)
{
	last_calls_add(1);
}

static void prepare(enum rp_prepare_what what)
{
	const struct rp_prepare_options options = { .size = sizeof(options), .what = what };

	check(rp_prepare(&options) == 0, "rp_prepare");
}

static void prepare_counters(void)
{
	use_counter();
	prepare(RP_PREPARE_COUNTERS);
}

static void prepare_samples(void)
{
	prepare(RP_PREPARE_SAMPLES);
}

static void choose_snapshot_signal(void)
{
	check(rp_snapshot_on_signal(SIGUSR2, "/dev/null") == 0, "rp_snapshot_on_signal");
}

static void on_signal(int number)
{
	(void)number;
	_exit(99);	/* called on a thread of the library */
}

static void install_handler(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	check(sigaction(SIGTERM, &action, NULL) == 0, "sigaction");
}

static void await_order(void)
{
	char order;

	check(read(ORDER_FD, &order, 1) == 1, "the parent's order");
}

/* The thread calls sigwait() after the signal has arrived, so that the signal is pending first. */
static void *take_by_sigwait(void *data)
{
	sigset_t set;
	int number;

	(void)data;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	await_order();
	check(sigwait(&set, &number) == 0 && number == SIGTERM, "sigwait");
	_exit(TAKEN);
}

static void *take_by_signalfd(void *data)
{
	struct signalfd_siginfo info;
	sigset_t set;
	int fd;

	(void)data;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	await_order();
	check(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGTERM,
	      "signalfd");
	_exit(TAKEN);
}

static void spawn(void *(*run)(void *))
{
	pthread_t thread;

	block_all();
	check(pthread_create(&thread, NULL, run, NULL) == 0, "pthread_create");
}

static void leave_sigwait(void)
{
	spawn(take_by_sigwait);
}

/*
 * Its name ends as those of LTTng-UST's threads do, which block every signal. The thread names
 * itself, because pthread_create() leaves all signals blocked until the thread runs.
 */
static void *take_with_name(void *data)
{
	check(pthread_setname_np(pthread_self(), "take-ust") == 0, "pthread_setname_np");
	check(sem_post(data) == 0, "sem_post");
	return take_by_sigwait(NULL);
}

static void leave_named_sigwait(void)
{
	static sem_t named;
	pthread_t thread;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	check(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "pthread_sigmask");
	check(sem_init(&named, 0, 0) == 0, "sem_init");
	check(pthread_create(&thread, NULL, take_with_name, &named) == 0, "pthread_create");
	check(sem_wait(&named) == 0, "sem_wait");
}

static void leave_signalfd(void)
{
	spawn(take_by_signalfd);
}

static void end_listener(void)
{
	check(rp_listener_stop(listener, NULL) == 0, "rp_listener_stop");
}

static void leave_sigwait_unlisted(void)
{
	start_listener();
	incomplete_list_begin(end_listener);
	leave_sigwait();
}

/* The program serves its clients, of which there are none, once. */
static void dispatch(void)
{
	check(rp_diagnostics_fd() >= 0, "rp_diagnostics_fd");
	check(rp_diagnostics_dispatch() == 0, "rp_diagnostics_dispatch");
}

/* The promises. */

enum how { ITSELF, FORKED, FORKED_BY_THREAD };

struct promise {
	const char *name;
	void (*prepare)(void);
	const char *environment;
	int signal;		/* sent first; 0: none, the process ends without a signal */
	int status;		/* as from waitpid(2); -1: the signal has no effect */
	bool has_thread;	/* a thread of the host handles the signal */
	enum how how;		/* FORKED…: the promise is about a child of that thread */
	int program;		/* the program that runs the promise */
};

#define NO_DIAGNOSTICS "RINGPIPE_DIAGNOSTICS=0"
#define WITH_LTTNG "RINGPIPE_LTTNG=1"	/* if its module was built */

/* A child may inherit the lock of its allocator from a thread that was allocating. */
#if defined(__SANITIZE_ADDRESS__)
#define CAN_FORK false
#else
#define CAN_FORK true
#endif

static const struct promise promises[] = {
	{ "SIGTERM ends a process with the diagnostics thread",
	  do_nothing, NULL, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "SIGINT ends a process with the diagnostics thread",
	  do_nothing, NULL, SIGINT, SIGINT, false, ITSELF, PLAIN },
	{ "a real-time signal ends it",
	  do_nothing, NULL, 40, 40, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process with the drain thread",
	  start_session, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process with both",
	  start_session, NULL, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process with a push listener",
	  start_listener, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process that watches tracers",
	  watch_tracers, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "a handler never runs on a thread of the library",
	  install_handler, NULL, SIGTERM, -1, false, ITSELF, PLAIN },
	{ "sigwait takes its signal",
	  leave_sigwait, NULL, SIGTERM, TAKEN << 8, true, ITSELF, PLAIN },
	{ "signalfd takes its signal",
	  leave_signalfd, NULL, SIGTERM, TAKEN << 8, true, ITSELF, PLAIN },
	{ "sigwait takes its signal although a list of threads lacked its thread",
	  leave_sigwait_unlisted, NULL, SIGTERM, TAKEN << 8, true, ITSELF, PLAIN },
	{ "SIGTERM ends a process with LTTng's threads",
	  do_nothing, WITH_LTTNG, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process with LTTng's threads and the drain thread",
	  start_session, WITH_LTTNG, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "sigwait takes its signal next to LTTng's threads",
	  leave_sigwait, WITH_LTTNG, SIGTERM, TAKEN << 8, true, ITSELF, PLAIN },
	{ "sigwait takes its signal in a thread with a name like LTTng's",
	  leave_named_sigwait, NULL, SIGTERM, TAKEN << 8, true, ITSELF, PLAIN },
	{ "a process without other threads ends by itself",
	  do_nothing, NO_DIAGNOSTICS, 0, 0, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process with the counters' thread alone",
	  prepare_counters, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process with the sampler's thread alone",
	  prepare_samples, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "SIGTERM ends a process that chose another signal for snapshots",
	  choose_snapshot_signal, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, PLAIN },
	{ "a process with a counter that no client reads ends by itself",
	  use_counter, NO_DIAGNOSTICS, 0, 0, false, ITSELF, PLAIN },
	{ "SIGTERM ends a child with the diagnostics thread",
	  do_nothing, NULL, SIGTERM, SIGTERM, false, FORKED, PLAIN },
	{ "SIGTERM ends a child with the drain thread",
	  start_session, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, FORKED, PLAIN },
	{ "SIGTERM ends a child with the counters' thread alone",
	  prepare_counters, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, FORKED, PLAIN },
	{ "SIGTERM ends a child that another thread forked",
	  do_nothing, NULL, SIGTERM, SIGTERM, false, FORKED_BY_THREAD, PLAIN },
	{ "a handler never runs on a thread of the library in a child",
	  install_handler, NULL, SIGTERM, -1, false, FORKED, PLAIN },
	{ "sigwait takes its signal in a child",
	  leave_sigwait, NULL, SIGTERM, TAKEN << 8, true, FORKED, PLAIN },
	{ "a child without other threads ends by itself",
	  do_nothing, NO_DIAGNOSTICS, 0, 0, false, FORKED, PLAIN },
	{ "a child that another thread forked ends by itself",
	  do_nothing, NO_DIAGNOSTICS, 0, 0, false, FORKED_BY_THREAD, PLAIN },
	{ "a process that polls ends by itself",
	  do_nothing, NULL, 0, 0, false, ITSELF, POLLED },
	{ "a process that polled once ends by itself",
	  dispatch, NULL, 0, 0, false, ITSELF, POLLED },
	{ "SIGTERM ends a process that polls, with the drain thread",
	  start_session, NULL, SIGTERM, SIGTERM, false, ITSELF, POLLED },
	{ "SIGTERM ends a process that polls, with the counters' thread",
	  prepare_counters, NULL, SIGTERM, SIGTERM, false, ITSELF, POLLED },
	{ "a child of a process that polls ends by itself",
	  dispatch, NULL, 0, 0, false, FORKED, POLLED },
	{ "SIGTERM ends a child that polls, with the drain thread",
	  start_session, NULL, SIGTERM, SIGTERM, false, FORKED, POLLED },
	{ "sigwait takes its signal in a process that polls",
	  leave_sigwait, NULL, SIGTERM, TAKEN << 8, true, ITSELF, POLLED },
	{ "SIGTERM ends a process with static keys alone",
	  do_nothing, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, KEYED },
	{ "SIGTERM ends a process with static keys and a session",
	  start_session, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, ITSELF, KEYED },
	{ "SIGTERM ends a child with static keys alone",
	  do_nothing, NO_DIAGNOSTICS, SIGTERM, SIGTERM, false, FORKED, KEYED },
	{ "a handler never runs on the thread of static keys",
	  install_handler, NO_DIAGNOSTICS, SIGTERM, -1, false, ITSELF, KEYED },
};

/* End the main thread of the process under test. */
static void leave(const struct promise *promise)
{
	pid_t pid = getpid();

	promise->prepare();
	check(write(REPORT_FD, &pid, sizeof(pid)) == sizeof(pid), "a report");
	pthread_exit(NULL);
}

/* End the parent, so that the test observes the child. */
static void leave_in_child(const struct promise *promise)
{
	pid_t child = fork();

	check(child >= 0, "fork");
	if (child > 0)
		_exit(0);
	leave(promise);
}

struct forker {
	const struct promise *promise;
	pthread_t main;
};

/* Fork after the main thread has ended and the library has created its checking thread. */
static void *fork_from_thread(void *data)
{
	const struct forker *forker = data;

	check(pthread_join(forker->main, NULL) == 0, "pthread_join");
	leave_in_child(forker->promise);
	return NULL;
}

static void be_host(const struct promise *promise)
{
	static struct forker forker;
	pthread_t thread;

	if (promise->how == ITSELF)
		leave(promise);
	if (promise->how == FORKED)
		leave_in_child(promise);
	forker = (struct forker){ promise, pthread_self() };
	check(pthread_create(&thread, NULL, fork_from_thread, &forker) == 0, "pthread_create");
	pthread_exit(NULL);
}

/* The parent process. */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Wait until the main thread or the process has ended. */
static bool await_main_end(pid_t pid)
{
	double begun = seconds();
	char path[64], state = '?';

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'Z' && seconds() - begun < PATIENCE_S) {
		FILE *file = fopen(path, "r");

		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = '?';
		if (file)
			fclose(file);
	}
	return state == 'Z';
}

/* Return the value of a row of /proc/PID/task/TID/status; -1: there is no such row. */
static long long row_of(pid_t pid, long tid, const char *row, int base)
{
	char path[64], line[256];
	long long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%ld/status", (int)pid, tid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, row, strlen(row)) == 0)
			value = strtoll(line + strlen(row), NULL, base);
	}
	if (file)
		fclose(file);
	return value;
}

/* Return how often the checking thread has slept; 0: there is no such thread. */
static long long looks_of(pid_t pid)
{
	char command[160], text[64] = "";
	FILE *output;

	snprintf(command, sizeof(command),
		 "grep -l ringpipe-ending /proc/%d/task/*/comm 2>/dev/null | cut -d/ -f5",
		 (int)pid);
	output = popen(command, "r");
	if (!output || !fgets(text, sizeof(text), output))
		text[0] = '\0';
	if (output)
		pclose(output);
	return text[0] ? row_of(pid, strtol(text, NULL, 10), "voluntary_ctxt_switches:", 10) : 0;
}

/* Wait until the process has ended, or until the library has ignored a pending signal. */
static int await_end(pid_t pid, const struct promise *promise, int order)
{
	double begun = seconds();
	long long first = 0, now;
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		const struct timespec pause = { .tv_nsec = 5000000 };

		if (seconds() - begun > PATIENCE_S)
			return -2;
		nanosleep(&pause, NULL);
		if (promise->status != -1 && !promise->has_thread)
			continue;
		now = looks_of(pid);
		first = first ? first : now;
		if (now < first + LOOKS)
			continue;
		if (!promise->has_thread)
			return -1;
		if (order >= 0 && write(order, ".", 1) != 1)
			return -2;
		order = -1;
	}
	return status;
}

static bool keep(const struct promise *promise, char **arguments)
{
	char number[16], program[PATH_MAX] = "";
	int report[2], order[2], status;
	pid_t pid, reported;

	if (pipe2(report, O_CLOEXEC) != 0 || pipe2(order, O_CLOEXEC) != 0)
		return false;
	pid = fork();
	if (pid == 0) {
		snprintf(number, sizeof(number), "%d", (int)(promise - promises));
		setenv("LAST_SIGNALS", number, 1);
		if (promise->environment)
			putenv((char *)promise->environment);
		dup2(order[0], ORDER_FD);
		dup2(report[1], REPORT_FD);
		/* Read the link's target, because valgrind replaces the link itself. */
		if (readlink("/proc/self/exe", program, sizeof(program) - 1) > 0)
			execv(program, arguments);
		_exit(127);
	}
	close(report[1]);
	close(order[0]);
	if (read(report[0], &reported, sizeof(reported)) == sizeof(reported)) {
		if (reported != pid)
			waitpid(pid, NULL, 0);
		pid = reported;
		if (await_main_end(pid) && promise->signal)
			kill(pid, promise->signal);
	}
	status = await_end(pid, promise, order[1]);
	if (status < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(report[0]);
	close(order[1]);
	if (status != promise->status)
		printf("# status 0x%x, not 0x%x\n", (unsigned int)status,
		       (unsigned int)promise->status);
	return status == promise->status;
}

/* Check the program's own copy of the library, which has no diagnostics. */
static bool has_other_threads(void)
{
	struct stat tasks;

	return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3;
}

int main(int argc, char **argv)
{
	const size_t total = sizeof(promises) / sizeof(promises[0]);
	unsigned int count = 0;
	const char *number = getenv("LAST_SIGNALS");
	int failures = 0;

	(void)argc;
#if PROGRAM == KEYED
	(void)last_keyed(1);
#endif
	if (number)
		be_host(&promises[atoi(number)]);
	if (PROGRAM == KEYED && !has_other_threads()) {
		printf("1..0 # SKIP the library changes no code here and has no thread for it\n");
		return 0;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	printf("TAP version 13\n");
	for (size_t i = 0; i < total; i++) {
		bool kept;

		if (promises[i].program != PROGRAM)
			continue;
		if (promises[i].how != ITSELF && !CAN_FORK) {
			printf("ok %u - %s # SKIP a child beside AddressSanitizer\n", ++count,
			       promises[i].name);
			continue;
		}
		fflush(stdout);
		kept = keep(&promises[i], argv);
		failures += !kept;
		printf("%s %u - %s\n", kept ? "ok" : "not ok", ++count, promises[i].name);
	}
	printf("1..%u\n", count);
	return failures != 0;
}
