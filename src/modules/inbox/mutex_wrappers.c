/* SPDX-License-Identifier: MIT */
/* Mutexes: each wait for another thread, with its duration and the owner. */
#include <errno.h>
#include <pthread.h>

#include "modules/inbox/lock_events.h"

static int lock_first(pthread_mutex_t *mutex);
static int trylock_first(pthread_mutex_t *mutex);

/* The first two find all of them when they are called, so that a wrapper need not test for that. */
static struct {
	int (*lock)(pthread_mutex_t *mutex);
	int (*trylock)(pthread_mutex_t *mutex);
	int (*timedlock)(pthread_mutex_t *mutex, const struct timespec *time);
	int (*clocklock)(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *time);
} next = { .lock = lock_first, .trylock = trylock_first };

void rp_inbox_mutexes_init(void)
{
	next.trylock = rp_inbox_next("pthread_mutex_trylock");
	next.clocklock = rp_inbox_find_next("pthread_mutex_clocklock");
	next.timedlock = rp_inbox_next("pthread_mutex_timedlock");
	next.lock = rp_inbox_next("pthread_mutex_lock");
}

static int lock_first(pthread_mutex_t *mutex)
{
	rp_inbox_mutexes_init();
	return next.lock(mutex);
}

static int trylock_first(pthread_mutex_t *mutex)
{
	rp_inbox_mutexes_init();
	return next.trylock(mutex);
}

static int lock_next(pthread_mutex_t *mutex, const struct inbox_deadline *deadline)
{
	if (!deadline->time)
		return next.lock(mutex);
	return deadline->has_clock ? next.clocklock(mutex, deadline->clock, deadline->time) :
				     next.timedlock(mutex, deadline->time);
}

/* Wait for a mutex that another thread has, or that the caller has. */
static __attribute__((noinline)) int wait_for(pthread_mutex_t *mutex,
					      const struct inbox_deadline *deadline,
					      const void *caller)
{
	const int saved_errno = errno;
	uint64_t start;
	uint32_t owner;
	int ret;

	if (!rp_inbox_is_program(caller))
		return lock_next(mutex, deadline);
	/* The owner may have unlocked the mutex meanwhile; then it is 0, or the next owner. */
	owner = (uint32_t)__atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED);
	start = rp_inbox_now_ns();
	ret = lock_next(mutex, deadline);
	inbox_locks_mutex_contended(mutex, rp_inbox_now_ns() - start, owner, ret);
	errno = saved_errno;
	return ret;
}

/*
 * Lock the mutex without waiting, if a session wants the event. pthread_mutex_trylock(3) returns
 * what the other functions would, except EBUSY where they would wait or find that the caller has
 * the mutex.
 * Return: whether `ret_result` is the result; otherwise call wait_for().
 */
static inline bool lock_without_wait(pthread_mutex_t *mutex, int *ret_result)
{
	*ret_result = next.trylock(mutex);
	return __builtin_expect(*ret_result != EBUSY, 1);
}

static __attribute__((noinline)) int wait_without_deadline(pthread_mutex_t *mutex,
							   const void *caller)
{
	return wait_for(mutex, &(struct inbox_deadline){ .time = NULL }, caller);
}

/* The usual path needs no stack frame, because the other functions are not inlined. */
INBOX_EXPORT_ALIGNED int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int result;

	if (__builtin_expect(!inbox_locks_mutex_contended_enabled(), 1))
		return next.lock(mutex);
	return lock_without_wait(mutex, &result) ? result :
	       wait_without_deadline(mutex, INBOX_CALLER());
}

int rp_inbox_mutex_lock(pthread_mutex_t *mutex, const struct inbox_deadline *deadline,
			const void *caller)
{
	int result;

	if (INBOX_UNLIKELY(!next.timedlock))
		rp_inbox_mutexes_init();
	if (!inbox_locks_mutex_contended_enabled() || !rp_inbox_is_valid(deadline))
		return lock_next(mutex, deadline);
	return lock_without_wait(mutex, &result) ? result : wait_for(mutex, deadline, caller);
}

INBOX_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
	return rp_inbox_mutex_lock(mutex, &(struct inbox_deadline){ .time = time },
				   __builtin_return_address(0));
}

INBOX_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
					 const struct timespec *time)
{
	const struct inbox_deadline deadline = { .time = time, .has_clock = true, .clock = clock };

	return rp_inbox_mutex_lock(mutex, &deadline, __builtin_return_address(0));
}
