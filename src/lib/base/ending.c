/* SPDX-License-Identifier: MIT */
#include "base/ending.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/task_signals.h"
#include "base/thread.h"

#define LOOK_NS 100000000
#define OWN_MAX 64		/* more threads than the library and LTTng-UST have */
/* SIGKILL, SIGSTOP, and the two that glibc keeps for itself, as in the masks of /proc. */
#define UNBLOCKABLE (1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 1ull << 31 | 1ull << 32)

static pthread_key_t key;
static bool has_key;
static struct rp_thread_once watcher = RP_THREAD_ONCE_INIT;

/* Read the beginning of a file of a thread. */
static bool read_of_thread(uint32_t id, const char *name, char *ret_text, size_t size)
{
	char path[64];
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%" PRIu32 "/%s", id, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, ret_text, size - 1);
		close(fd);
	}
	ret_text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* Return: whether the main thread has ended. It is then a zombie until the process ends. */
static bool main_has_ended(void)
{
	const char *state;
	char text[256];

	if (!read_of_thread((uint32_t)getpid(), "stat", text, sizeof(text)))
		return false;
	/* "PID (name) STATE": the name may contain any characters. */
	state = strrchr(text, ')');
	return state && state[1] && (state[2] == 'Z' || state[2] == 'X');
}

/*
 * Return: whether a thread is one of LTTng-UST's, which come with the module for LTTng. They block
 * all signals and take none, and LTTng-UST appends "-ust" to their names. A thread of the host that
 * waits for its signals may have such a name by chance, so both conditions must hold.
 */
static bool is_of_lttng(uint32_t id)
{
	char name[32];
	uint64_t blocked;
	size_t length;

	if (!read_of_thread(id, "comm", name, sizeof(name)))
		return false;
	length = strlen(name) - 1;	/* without the newline */
	return length >= 4 && memcmp(name + length - 4, "-ust", 4) == 0 &&
	       rp_task_blocked_signals(id, &blocked) &&
	       (blocked | UNBLOCKABLE) == UINT64_MAX;
}

/*
 * Count the library's threads, except the main one. Return: -1 if a thread of the host exists, or
 * may exist: if a thread ends while the kernel lists the threads, the list can lack others.
 */
static int count_own_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	uint32_t ids[OWN_MAX];
	struct dirent *entry;
	char name[32];
	int count = 0;

	if (!tasks)
		return -1;
	while (count >= 0 && (entry = readdir(tasks))) {
		uint32_t id = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (id == 0 || id == (uint32_t)getpid())
			continue;
		if (count < OWN_MAX && (rp_thread_is_running(id) || is_of_lttng(id)))
			ids[count++] = id;
		else
			count = -1;
	}
	closedir(tasks);
	for (int i = 0; i < count; i++) {
		if (!read_of_thread(ids[i], "comm", name, sizeof(name)))
			return -1;
	}
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
