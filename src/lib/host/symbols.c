/* SPDX-License-Identifier: MIT */
/* Loads the module, once. */
#include "host/symbols.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/module.h"

/* The lock is held across fork(2): a child forked during dlopen(3) could not load anything. */
static struct {
	pthread_mutex_t lock;
	bool held;		/* by rp_symbols_fork_prepare() */
	rp_symbols_find_callback find;
} module = { .lock = PTHREAD_MUTEX_INITIALIZER };

rp_symbols_find_callback rp_symbols_load(char *ret_reason, size_t space)
{
	rp_symbols_find_callback find;

	pthread_mutex_lock(&module.lock);
	if (!module.find)
		*(void **)&module.find = rp_module_load(RP_SYMBOLS_MODULE, RP_SYMBOLS_FUNCTION,
							ret_reason, space);
	find = module.find;
	pthread_mutex_unlock(&module.lock);
	return find;
}

/* With a timeout: a thread that forks in a library's constructor blocks the dlopen(3). */
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
	if (module.held)
		pthread_mutex_unlock(&module.lock);
	else
		pthread_mutex_init(&module.lock, NULL);
}
