/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/bounded_read.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/process_memory.h"

#define LIMIT_NS 250000000
#define STUCK_MAX 64u		/* threads that wait, of as many processes */

/* A read. The thread that finishes last frees it. */
struct bounded_read {
	pid_t process;
	uint64_t address;
	size_t size;
	bool has_begun, is_done, is_whole;
	bool is_left;			/* its caller has gone on */
	uint8_t bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done;		/* by CLOCK_MONOTONIC */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t stuck[STUCK_MAX];		/* processes whose reads were left; 0: a free place */

static void init_condition(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&done, &attributes);
	pthread_condattr_destroy(&attributes);
}

/* Return: the place of the process, or a free one for 0; NULL: none. The caller has the lock. */
static pid_t *find_stuck(pid_t process)
{
	for (size_t i = 0; i < STUCK_MAX; i++) {
		if (stuck[i] == process)
			return &stuck[i];
	}
	return NULL;
}

static void *run(void *user)
{
	struct bounded_read *job = user;
	bool is_whole, is_left;

	pthread_mutex_lock(&lock);
	job->has_begun = true;
	pthread_cond_signal(&done);
	pthread_mutex_unlock(&lock);
	is_whole = rp_process_memory_read(job->process, job->address, job->bytes, job->size);
	pthread_mutex_lock(&lock);
	job->is_whole = is_whole;
	job->is_done = true;
	is_left = job->is_left;
	if (is_left)
		*find_stuck(job->process) = 0;
	pthread_cond_signal(&done);
	pthread_mutex_unlock(&lock);
	if (is_left)
		free(job);
	return NULL;
}

/* The signals of the recorder are for its main thread. Return: 0; an error of pthread_create(3). */
static int start(struct bounded_read *job)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&thread, &attributes, run, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return ret;
}

/* Wait until the read is done or has to be left. Return: whether all bytes were read. */
static bool finish(struct bounded_read *job, void *bytes)
{
	struct timespec limit;
	bool is_whole;

	pthread_mutex_lock(&lock);
	/* A loaded machine may start the thread late. */
	while (!job->has_begun)
		pthread_cond_wait(&done, &lock);
	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_nsec += LIMIT_NS;
	limit.tv_sec += limit.tv_nsec / 1000000000;
	limit.tv_nsec %= 1000000000;
	while (!job->is_done && pthread_cond_timedwait(&done, &lock, &limit) != ETIMEDOUT)
		;
	job->is_left = !job->is_done;
	is_whole = job->is_done && job->is_whole;
	if (job->is_left) {
		*find_stuck(0) = job->process;
		pthread_mutex_unlock(&lock);
		return false;
	}
	pthread_mutex_unlock(&lock);
	if (is_whole)
		memcpy(bytes, job->bytes, job->size);
	free(job);
	return is_whole;
}

bool rp_bounded_read(pid_t process, uint64_t address, void *bytes, size_t size)
{
	struct bounded_read *job;
	bool is_refused;

	pthread_once(&once, init_condition);
	pthread_mutex_lock(&lock);
	is_refused = find_stuck(process) || !find_stuck(0);
	pthread_mutex_unlock(&lock);
	job = is_refused ? NULL : malloc(sizeof(*job) + size);
	if (!job)
		return false;
	*job = (struct bounded_read){ .process = process, .address = address, .size = size };
	if (start(job) != 0) {
		free(job);
		return false;
	}
	return finish(job, bytes);
}
