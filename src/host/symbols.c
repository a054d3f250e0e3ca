/* SPDX-License-Identifier: MIT */
/*
 * Finds the module: beside the library, else where the loader looks. It stays loaded: nobody can
 * tell when the last thread has left its code.
 */
#include "host/symbols.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A child forked while a thread is in dlopen() can never load anything. */
static struct {
	pthread_mutex_t lock;
	bool held;		/* across a fork */
	rp_symbols_find_callback find;
} module = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *open_beside(void)
{
	char path[PATH_MAX];
	const char *slash;
	Dl_info self;

	if (!dladdr((void *)rp_symbols_load, &self) || !self.dli_fname)
		return NULL;
	slash = strrchr(self.dli_fname, '/');
	if (!slash || (size_t)snprintf(path, sizeof(path), "%.*s/" RP_SYMBOLS_MODULE,
				       (int)(slash - self.dli_fname), self.dli_fname) >=
		      sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static rp_symbols_find_callback load(char *ret_reason, size_t room)
{
	rp_symbols_find_callback find = NULL;
	const char *reason;
	void *handle = open_beside();

	if (!handle)
		handle = dlopen(RP_SYMBOLS_MODULE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (handle)
		*(void **)&find = dlsym(handle, RP_SYMBOLS_FUNCTION);
	if (!find) {
		reason = dlerror();
		snprintf(ret_reason, room, "%s", reason ? reason : RP_SYMBOLS_MODULE);
	}
	return find;
}

rp_symbols_find_callback rp_symbols_load(char *ret_reason, size_t room)
{
	rp_symbols_find_callback find;

	pthread_mutex_lock(&module.lock);
	if (!module.find)
		module.find = load(ret_reason, room);
	find = module.find;
	pthread_mutex_unlock(&module.lock);
	return find;
}

/* Not for ever: who forks in a constructor of a library holds what dlopen() waits for. */
void rp_symbols_fork_prepare(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	module.held = pthread_mutex_timedlock(&module.lock, &until) == 0;
}

void rp_symbols_fork_parent(void)
{
	if (module.held)
		pthread_mutex_unlock(&module.lock);
}

void rp_symbols_fork_child(void)
{
	pthread_mutex_init(&module.lock, NULL);
}
