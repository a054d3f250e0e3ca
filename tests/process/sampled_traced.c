/* SPDX-License-Identifier: MIT */
/*
 * A tracer such as strace or ringpipe-dump stops a thread when it gets a signal, which is then no
 * longer pending, and lets the thread receive it later. If that is the sampler's signal, and the
 * session has ended meanwhile, the process goes on.
 */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <ringpipe/listener.h>

static atomic_uint burner, steps;
static int to_tracer[2], to_sampled[2];

static void *burn(void *data)
{
	atomic_store(&burner, (unsigned int)gettid());
	for (;;)
		atomic_fetch_add(&steps, 1);
	return data;
}

static void send(int fd, const void *data, size_t bytes)
{
	check(write(fd, data, bytes) == (ssize_t)bytes);
}

static void receive(int fd, void *ret_data, size_t bytes)
{
	check(read(fd, ret_data, bytes) == (ssize_t)bytes);
}

/* Return: whether a file below /proc/self/task/`id` contains the text. */
static bool has_text(const char *id, const char *name, const char *text)
{
	char path[300], found[512] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", id, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	(void)!fread(found, 1, sizeof(found) - 1, file);
	fclose(file);
	return strstr(found, text) != NULL;
}

/* Whether the sampler's thread waits for the next session, without a time limit. */
static bool is_sampler_idle(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	bool is_idle = false;

	check(tasks);
	while ((entry = readdir(tasks)) != NULL) {
		/* futex(2) with its fourth argument, the time limit, 0. */
		unsigned long long limit = 1;
		char path[300], line[256] = "";
		FILE *file;

		if (!has_text(entry->d_name, "comm", "ringpipe-sample"))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", entry->d_name);
		file = fopen(path, "re");
		check(file);
		if (fgets(line, sizeof(line), file) &&
		    sscanf(line, "%*d %*x %*x %*x %llx", &limit) == 1)
			is_idle = limit == 0;
		fclose(file);
	}
	closedir(tasks);
	return is_idle;
}

static void run_sampled(void)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_listener *listener;
	unsigned int id, before;
	pthread_t thread;
	char step;

	check(pthread_create(&thread, NULL, burn, NULL) == 0);
	wait_until((id = atomic_load(&burner)) != 0);
	listener = listen_to("Microsoft-DotNETCore-SampleProfiler");
	do
		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
	while (event.thread != id);
	send(to_tracer[1], &id, sizeof(id));
	receive(to_sampled[0], &step, 1);
	check(rp_listener_stop(listener, NULL) == 0);
	wait_until(is_sampler_idle());
	send(to_tracer[1], "", 1);
	receive(to_sampled[0], &step, 1);
	before = atomic_load(&steps);
	wait_until(atomic_load(&steps) != before);
	_exit(0);
}

/* Return: the signal at which the thread is stopped. */
static int wait_for_signal(pid_t thread)
{
	for (;;) {
		int status, number;

		check(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status));
		number = WSTOPSIG(status);
		/* Other stops have an event above. */
		if (status >> 16 == 0 && number >= SIGRTMIN)
			return number;
		check(ptrace(PTRACE_CONT, thread, 0, status >> 16 ? 0 : number) == 0);
	}
}

int main(void)
{
	unsigned int thread;
	int status, number;
	pid_t sampled;
	char step;

	check(pipe(to_tracer) == 0 && pipe(to_sampled) == 0);
	sampled = fork();
	check(sampled >= 0);
	if (sampled == 0)
		run_sampled();
	receive(to_tracer[0], &thread, sizeof(thread));
	if (ptrace(PTRACE_SEIZE, (pid_t)thread, 0, 0) != 0) {
		fprintf(stderr, "ptrace(2): %s\n", strerror(errno));
		kill(sampled, SIGKILL);
		return SKIPPED;
	}
	number = wait_for_signal((pid_t)thread);
	send(to_sampled[1], "", 1);
	receive(to_tracer[0], &step, 1);
	check(ptrace(PTRACE_DETACH, (pid_t)thread, 0, number) == 0);
	send(to_sampled[1], "", 1);
	check(waitpid(sampled, &status, 0) == sampled);
	check(status == 0);
	return 0;
}
