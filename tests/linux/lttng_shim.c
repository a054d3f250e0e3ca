/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into lttng_host: the thread that polls LTTng's state sleeps until the host requests
 * another check, and the length of the intended sleep is recorded.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

int lttng_shim_look(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned int sleeps, wakes;	/* it sleeps while there are more sleeps than wakes */
static int wanted_ms;

static void wait_until_it_sleeps(void)
{
	while (sleeps == wakes)
		pthread_cond_wait(&changed, &lock);
}

static void sleep_until_woken(const struct timespec *time)
{
	pthread_mutex_lock(&lock);
	wanted_ms = (int)(time->tv_sec * 1000 + time->tv_nsec / 1000000);
	sleeps++;
	pthread_cond_broadcast(&changed);
	while (sleeps != wakes)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* Replaces libc's function for the whole process. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest)
{
	int (*next)(clockid_t, int, const struct timespec *, struct timespec *);
	Dl_info caller;

	if (dladdr(__builtin_return_address(0), &caller) &&
	    strstr(caller.dli_fname, "libringpipe-lttng.so")) {
		sleep_until_woken(time);
		return 0;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "clock_nanosleep");
	return next(clock, flags, time, rest);
}

/* Makes one check, from sleep to sleep. Return: the milliseconds of that sleep. */
int lttng_shim_look(void)
{
	pthread_mutex_lock(&lock);
	wait_until_it_sleeps();
	wakes++;
	pthread_cond_broadcast(&changed);
	wait_until_it_sleeps();
	pthread_mutex_unlock(&lock);
	return wanted_ms;
}
