/* SPDX-License-Identifier: MIT */
/*
 * usage: loader LIBRARY…. Threads load and unload libraries with events and counters, each time
 * with the loader's lock held in constructors and destructors, while everything of ringpipe starts
 * and stops. ringpipe may not wait for the loader's lock while it holds a lock that constructors
 * take.
 *
 * Each kind of work is also the first of its kind in a separate process, since then threads are
 * created and symbols looked up.
 *
 * The library's constructor starts the sessions that the environment requests. In a program that is
 * linked with the library, it runs before the program's threads load anything; in the program
 * LOADER_LATE it runs on one of the threads that load.
 *
 * A process counts as stuck if for PATIENCE_S no library is loaded or no work completes. The test
 * has no other time limit. RINGPIPE_SOAK_SECONDS=N repeats the processes that do everything for N
 * seconds.
 *
 * With LOADER_TRACE=DIRECTORY, a daemon of LTTng records the libraries' events there. The test then
 * runs only what uses LTTng, and requires an event of each process in the trace.
 */
#include "loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "stress.h"

#define PATIENCE_S 60
#define ROUND '.'		/* progress: a library was loaded, used and unloaded */
#define STEP '+'		/* … a part of the work is complete */
#define LOADERS 8u		/* threads that load and unload */
#define WORKERS 3u		/* threads that do all kinds of work */

/*
 * LTTng calls dlopen(3) in a child, which hangs if another thread was in dlopen(3) at the fork: so
 * a process either uses LTTng or forks.
 */
#define ALL_BUT(kind) "all but " kind
#define NOTHING "nothing"	/* except the libraries */

static struct {
	char **paths;
	uint64_t count;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t rounds;		/* a library was loaded, used and unloaded */
	uint64_t fresh;			/* … and had not been loaded before */
	bool over;
} libraries = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* In the child: the pipe for progress. */
static int progress_fd = -1;

static void report(char progress)
{
	(void)!write(progress_fd, &progress, 1);
}

void loader_check(bool holds, const struct loader_kind *kind, const char *what, int error)
{
	if (holds)
		return;
	fprintf(stderr, "# %s: %s: %d (%s)\n", kind->name, what, error,
		strerror(error < 0 ? -error : error));
	_exit(1);
}

const char *loader_path(const struct loader_kind *kind, char path[256])
{
	snprintf(path, 256, "%s-%d-%s.nettrace", stress_path("trace"), (int)gettid(), kind->name);
	return path;
}

static void report_round(bool fresh)
{
	pthread_mutex_lock(&libraries.lock);
	libraries.rounds++;
	libraries.fresh += fresh;
	pthread_cond_broadcast(&libraries.changed);
	pthread_mutex_unlock(&libraries.lock);
	report(ROUND);
}

void loader_wait(uint64_t count)
{
	uint64_t until;

	pthread_mutex_lock(&libraries.lock);
	until = libraries.rounds + count;
	while (libraries.rounds < until)
		pthread_cond_wait(&libraries.changed, &libraries.lock);
	pthread_mutex_unlock(&libraries.lock);
	report(STEP);
}

static void *load_and_unload(void *data)
{
	uint64_t state = (uintptr_t)data;

	while (!__atomic_load_n(&libraries.over, __ATOMIC_RELAXED)) {
		const char *path = libraries.paths[stress_random(&state) % libraries.count];
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		uint64_t (*call)(void);
		bool fresh;

		if (!library) {
			fprintf(stderr, "# %s\n", dlerror());
			_exit(1);
		}
		*(void **)&call = dlsym(library, "library_call");
		fresh = call() == 1;
		dlclose(library);
		report_round(fresh);
	}
	return NULL;
}

static const struct loader_kind *kind_of(const char *name)
{
	for (size_t i = 0; i < loader_kind_count; i++) {
		if (strcmp(loader_kinds[i].name, name) == 0)
			return &loader_kinds[i];
	}
	return NULL;
}

static const char *left_out = "";

/* Does each kind but one, in a different order in each thread. */
static void *do_all(void *data)
{
	size_t order[128], count = 0;
	uint64_t state = (uintptr_t)data + (uint64_t)getpid();

	for (size_t i = 0; i < loader_kind_count; i++) {
		if (strcmp(loader_kinds[i].name, left_out) != 0)
			order[count++] = i;
	}
	for (size_t i = count; i > 0; i--) {
		size_t chosen = stress_random(&state) % i, kind = order[chosen];

		order[chosen] = order[i - 1];
		loader_kinds[kind].run(&loader_kinds[kind]);
		report(STEP);
	}
	return NULL;
}

/* Runs in the child: `name` is a kind's, or ALL_BUT() of one. */
static int be_process(const char *name)
{
	const struct loader_kind *kind = kind_of(name);
	bool nothing = strcmp(name, NOTHING) == 0;
	unsigned int workers = kind || nothing ? 0 : WORKERS;
	pthread_t loading[LOADERS], working[WORKERS];

	progress_fd = STDOUT_FILENO;
	if (workers > 0)
		left_out = name + strlen(ALL_BUT(""));
	(void)stress_path("");
	for (uintptr_t i = 0; i < LOADERS; i++)
		stress_spawn(&loading[i], load_and_unload, (void *)(i + 1));
	loader_wait(nothing ? 10 * LOADERS : LOADERS);
	if (kind)
		kind->run(kind);
	for (uintptr_t i = 0; i < workers; i++)
		stress_spawn(&working[i], do_all, (void *)(i + 1));
	for (unsigned int i = 0; i < workers; i++)
		pthread_join(working[i], NULL);
	__atomic_store_n(&libraries.over, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < LOADERS; i++)
		pthread_join(loading[i], NULL);
	if (libraries.fresh < 2) {
		fprintf(stderr, "# no library was ever unloaded\n");
		return 1;
	}
	return 0;
}

/* The parent. */

static char **arguments;
static uint64_t rounds_seen, processes;
static const char *trace;	/* LOADER_TRACE */

/* Return: the path of the program to execute: LOADER_LATE for no name, else this one. */
static const char *program_of(const char *name)
{
	static char program[PATH_MAX];

	/* Not the link itself, which under valgrind is valgrind's. */
	if (name && readlink("/proc/self/exe", program, sizeof(program) - 1) > 0)
		return program;
	return getenv("LOADER_LATE");
}

static pid_t spawn(const char *name, const char *variable,
		   const struct loader_environment *environment, int *ret_fd)
{
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) != 0)
		exit(1);
	fflush(stdout);
	(void)stress_path("");	/* make the folder for the children's files */
	child = fork();
	if (child == 0) {
		if (variable)
			putenv((char *)variable);
		if (environment)
			loader_environment_set(environment);
		setenv("LOADER_KIND", name ? name : "", 1);
		fcntl(fds[1], F_SETFL, O_NONBLOCK);
		dup2(fds[1], STDOUT_FILENO);
		execv(program_of(name), arguments);
		_exit(127);
	}
	close(fds[1]);
	*ret_fd = fds[0];
	return child;
}

/* Reports the kernel function in which each thread waits. */
static void report_stuck(pid_t process)
{
	char command[128];

	snprintf(command, sizeof(command), "head -v /proc/%d/task/*/comm /proc/%d/task/*/wchan >&2",
		 (int)process, (int)process);
	if (system(command) != 0)
		stress_note("nothing is known of its threads");
}

/* Reads the process's progress until it closes the pipe. Return: false if it is stuck. */
static bool follow(int fd)
{
	struct pollfd pipe = { .fd = fd, .events = POLLIN };
	double round = stress_seconds(), step = round, now;
	char progress[4096];
	ssize_t got;

	for (;;) {
		got = poll(&pipe, 1, 1000) ? read(fd, progress, sizeof(progress)) : -1;
		now = stress_seconds();
		if (got == 0)
			return true;
		for (ssize_t i = 0; i < got; i++) {
			*(progress[i] == ROUND ? &round : &step) = now;
			rounds_seen += progress[i] == ROUND;
		}
		if (!stress_check(now - round < PATIENCE_S, "no library is loaded any more") ||
		    !stress_check(now - step < PATIENCE_S, "what started does not end"))
			return false;
	}
}

/* Return: whether the process ended normally. */
static bool watch(pid_t process, int fd)
{
	bool follows = follow(fd);
	int status;

	if (!follows) {
		report_stuck(process);
		kill(process, SIGKILL);
	}
	waitpid(process, &status, 0);
	if (!follows)
		return false;
	processes++;
	return stress_check(status == 0, "it ended with status 0x%x", (unsigned int)status);
}

static bool run(const char *name, const char *variable,
		const struct loader_environment *environment)
{
	int fd = -1;
	pid_t process = spawn(name, variable, environment, &fd);
	bool ended = watch(process, fd);

	close(fd);
	return ended && (!environment || loader_environment_check(environment)) &&
		(!trace || loader_trace_check(trace, process, PATIENCE_S));
}

static void test_first(const struct loader_kind *kind, const char *variable, unsigned int times)
{
	stress_begin("%s is the first of its kind while libraries are loaded and unloaded",
		     kind->name);
	for (unsigned int i = 0; i < times && run(kind->name, variable, NULL); i++)
		;
	stress_end();
}

static void test_all(unsigned int times)
{
	const char *text = getenv("RINGPIPE_SOAK_SECONDS");
	double seconds = text ? atof(text) : 0, begun = stress_seconds();

	stress_begin("everything starts and stops while libraries are loaded and unloaded");
	for (unsigned int i = 0; i < times || stress_seconds() - begun < seconds; i++) {
		if (!run(ALL_BUT("fork"), NULL, NULL) ||
		    (!trace && !run(ALL_BUT("lttng"), NULL, NULL)))
			break;
	}
	stress_note("%" PRIu64 " processes, %" PRIu64 " times a library", processes, rounds_seen);
	stress_end();
}

/* In both programs, with no other work than the libraries. */
static void test_environment(const struct loader_environment *environment, unsigned int times)
{
	stress_begin("%s, from the environment, is the first of its kind while libraries are "
		     "loaded and unloaded", environment->name);
	for (unsigned int i = 0; i < times; i++) {
		if (!run(NOTHING, NULL, environment) || !run(NULL, NULL, environment))
			break;
	}
	stress_end();
}

static void test_lttng(unsigned int times)
{
	/* Without the variable, the library's constructor would be the first to start LTTng. */
	test_first(kind_of("lttng"), "RINGPIPE_LTTNG=0", 2 * times);
	for (size_t i = 0; i < loader_environment_count; i++) {
		if (strcmp(loader_environments[i].name, "lttng") == 0)
			test_environment(&loader_environments[i], 2 * times);
	}
	test_all(times);
}

static void test_environment_and_all(unsigned int times)
{
	stress_begin("everything starts and stops beside what the environment started");
	for (unsigned int i = 0; i < times * loader_environment_count; i++) {
		const struct loader_environment *environment =
			&loader_environments[i % loader_environment_count];
		bool forks = i % 2 && strcmp(environment->name, "lttng") != 0;

		if (!run(forks ? ALL_BUT("lttng") : ALL_BUT("fork"), NULL, environment))
			break;
	}
	stress_end();
}

int main(int argc, char **argv)
{
	const char *name = getenv("LOADER_KIND");

	if (argc < 2)
		return 2;
	arguments = argv;
	libraries.paths = argv + 1;
	libraries.count = (uint64_t)argc - 1;
	if (name)
		return be_process(name);
	trace = getenv("LOADER_TRACE");
	if (trace) {
		test_lttng(stress_rounds());
		return stress_exit();
	}
	for (size_t i = 0; i < loader_kind_count; i++)
		test_first(&loader_kinds[i], loader_kinds[i].environment, 2 * stress_rounds());
	for (size_t i = 0; i < loader_environment_count; i++)
		test_environment(&loader_environments[i], 2 * stress_rounds());
	test_all(stress_rounds());
	test_environment_and_all(stress_rounds());
	return stress_exit();
}
