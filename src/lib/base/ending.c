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

/* Return: whether the main thread has ended. It is then a zombie until the process ends. */
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
	/* "PID (name) STATE": the name may contain any characters. */
	state = strrchr(text, ')');
	return state && state[1] && (state[2] == 'Z' || state[2] == 'X');
}

/* Count the library's threads, except the main one. Return: -1 if a thread of the host exists. */
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

/* Unblock pending signals whose action is the default, so that they act on this thread. */
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

/* This thread ends when it is the last: libc then ends the process, as without the library. */
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

/* The library may be static, and unloaded with the object that contains it. */
__attribute__((destructor)) static void delete_key(void)
{
	if (has_key)
		(void)pthread_key_delete(key);
	has_key = false;
}
