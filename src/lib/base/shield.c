/* SPDX-License-Identifier: MIT */
#include "base/shield.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int signals[] = { SIGPIPE, SIGXFSZ };

struct rp_shield rp_shield_raise(void)
{
	struct rp_shield shield;
	sigset_t ours;

	sigemptyset(&ours);
	for (unsigned int i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaddset(&ours, signals[i]);
	sigemptyset(&shield.pending);
	pthread_sigmask(SIG_BLOCK, &ours, &shield.mask);
	/* Signals that were not blocked cannot have been pending. */
	if (sigismember(&shield.mask, SIGPIPE) || sigismember(&shield.mask, SIGXFSZ))
		(void)sigpending(&shield.pending);
	return shield;
}

/* The kernel returns the thread's pending signal, which is the write's, before the process's. */
static void consume(int number)
{
	static const struct timespec at_once;
	siginfo_t info;
	sigset_t set;
	int taken;

	sigemptyset(&set);
	sigaddset(&set, number);
	do
		taken = sigtimedwait(&set, &info, &at_once);
	while (taken < 0 && errno == EINTR);
	/* The write's signal has this process as its sender. Send any other signal again. */
	if (taken == number && (info.si_code > 0 || info.si_pid != getpid()))
		(void)syscall(SYS_rt_sigqueueinfo, getpid(), number, &info);
}

void rp_shield_lower(const struct rp_shield *shield)
{
	int saved = errno;
	sigset_t pending;

	sigemptyset(&pending);
	(void)sigpending(&pending);
	for (unsigned int i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (sigismember(&pending, signals[i]) &&
		    !sigismember(&shield->pending, signals[i]))
			consume(signals[i]);
	}
	pthread_sigmask(SIG_SETMASK, &shield->mask, NULL);
	errno = saved;
}
