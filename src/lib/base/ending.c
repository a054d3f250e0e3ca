/* SPDX-License-Identifier: MIT */
#include "base/ending.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

#define LOOK_NS 100000000

static pthread_key_t key;
static bool has_key;
static struct rp_thread_once watcher = RP_THREAD_ONCE_INIT;

/* Whether the main thread has ended: it is a zombie until the process ends. */
static bool main_has_ended(void)
{
	char path[64], text[256];
	const char *state;
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (got <= 0)
		return false;
	text[got] = '\0';
	/* "PID (name) STATE": a name may hold anything. */
	state = strrchr(text, ')');
	return state && state[1] && (state[2] == 'Z' || state[2] == 'X');
}

/* How many threads there are besides the main one; -1: one of them is the host's. */
static int count_own_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	if (!tasks)
		return -1;
	while (count >= 0 && (entry = readdir(tasks))) {
		uint32_t id = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (id == 0 || id == (uint32_t)getpid())
			continue;
		count = rp_thread_is_running(id) ? count + 1 : -1;
	}
	closedir(tasks);
	return count;
}

/* Lets pending signals take effect, on this thread, whose action is the default. */
static void let_signals_act(void)
{
	sigset_t pending, one;
	struct sigaction action;

	sigpending(&pending);
	for (int number = 1; number < NSIG; number++) {
		if (sigismember(&pending, number) != 1 || sigaction(number, NULL, &action) != 0 ||
		    action.sa_handler != SIG_DFL)
			continue;
		sigemptyset(&one);
		sigaddset(&one, number);
		pthread_sigmask(SIG_UNBLOCK, &one, NULL);
		pthread_sigmask(SIG_BLOCK, &one, NULL);
	}
}

/* Ends when it is the last thread: libc then ends the process, as without the library. */
static void *watch(void *data)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	int count;

	(void)data;
	do {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		count = main_has_ended() ? count_own_threads() : -1;
		if (count > 1)
			let_signals_act();
	} while (count != 1);
	return NULL;
}

static void on_thread_end(void *data)
{
	(void)data;
	(void)rp_thread_create_once(&watcher, "ringpipe-ending", watch, NULL);
}

void rp_ending_init(void)
{
	has_key = pthread_key_create(&key, on_thread_end) == 0;
	if (has_key)
		(void)pthread_setspecific(key, &key);
}

void rp_ending_fork_child(void)
{
	(void)rp_thread_once_forget(&watcher);
	if (has_key)
		(void)pthread_setspecific(key, &key);
}

/* The static library may be unloaded with the object that it is part of. */
__attribute__((destructor)) static void delete_key(void)
{
	if (has_key)
		(void)pthread_key_delete(key);
	has_key = false;
}
