/* SPDX-License-Identifier: MIT */
/*
 * Read-write locks: each wait for another thread, with its duration. A wait for a writer has the
 * writer's id. A wait for readers has the id of the thread that last unlocked the lock.
 */
#include <errno.h>
#include <pthread.h>

#include "modules/inbox/lock_events.h"
#include "modules/inbox/lock_wakers.h"

typedef int rwlock_function(pthread_rwlock_t *rwlock);
typedef int timed_function(pthread_rwlock_t *rwlock, const struct timespec *time);
typedef int clock_function(pthread_rwlock_t *rwlock, clockid_t clock, const struct timespec *time);

/* The functions of one kind of lock. */
struct rwlock_functions {
	rwlock_function *lock, *trylock;
	timed_function *timedlock;
	clock_function *clocklock;
};

static rwlock_function rdlock_first, wrlock_first, tryrdlock_first, trywrlock_first, unlock_first;

/*
 * The functions of readers, and of writers. Those that are set here find all of them when they are
 * called, so that a wrapper need not test for that.
 */
static struct rwlock_functions next[2] = {
	{ .lock = rdlock_first, .trylock = tryrdlock_first },
	{ .lock = wrlock_first, .trylock = trywrlock_first },
};
static rwlock_function *next_unlock = unlock_first;

void rp_inbox_rwlocks_init(void)
{
	static const char *const names[2][4] = {
		{ "pthread_rwlock_rdlock", "pthread_rwlock_timedrdlock",
		  "pthread_rwlock_clockrdlock", "pthread_rwlock_tryrdlock" },
		{ "pthread_rwlock_wrlock", "pthread_rwlock_timedwrlock",
		  "pthread_rwlock_clockwrlock", "pthread_rwlock_trywrlock" },
	};

	next_unlock = rp_inbox_next("pthread_rwlock_unlock");
	for (int i = 0; i < 2; i++) {
		next[i].clocklock = rp_inbox_find_next(names[i][2]);
		next[i].timedlock = rp_inbox_next(names[i][1]);
		next[i].trylock = rp_inbox_next(names[i][3]);
		next[i].lock = rp_inbox_next(names[i][0]);
	}
}

#define DEFINE_FIRST(name, next_function) \
	static int name(pthread_rwlock_t *rwlock) \
	{ \
		rp_inbox_rwlocks_init(); \
		return next_function(rwlock); \
	}

DEFINE_FIRST(rdlock_first, next[false].lock)
DEFINE_FIRST(wrlock_first, next[true].lock)
DEFINE_FIRST(tryrdlock_first, next[false].trylock)
DEFINE_FIRST(trywrlock_first, next[true].trylock)
DEFINE_FIRST(unlock_first, next_unlock)

static int lock_next(pthread_rwlock_t *rwlock, bool is_write,
		     const struct inbox_deadline *deadline)
{
	const struct rwlock_functions *functions = &next[is_write];

	if (!deadline->time)
		return functions->lock(rwlock);
	return deadline->has_clock ?
	       functions->clocklock(rwlock, deadline->clock, deadline->time) :
	       functions->timedlock(rwlock, deadline->time);
}

static __attribute__((noinline)) int wait_for(pthread_rwlock_t *rwlock, bool is_write,
					      const struct inbox_deadline *deadline,
					      const void *caller)
{
	const int saved_errno = errno;
	uint64_t start;
	uint32_t owner;
	int ret;

	if (!rp_inbox_is_program(caller))
		return lock_next(rwlock, is_write, deadline);
	owner = (uint32_t)__atomic_load_n(&rwlock->__data.__cur_writer, __ATOMIC_RELAXED);
	rp_inbox_waker_expect(rwlock);
	start = rp_inbox_now_ns();
	ret = lock_next(rwlock, is_write, deadline);
	inbox_locks_rwlock_contended(rwlock, rp_inbox_now_ns() - start, owner,
				     ret == 0 ? (uint32_t)rp_inbox_waker_of(rwlock) : 0, is_write,
				     ret);
	rp_inbox_waker_forget(rwlock);
	errno = saved_errno;
	return ret;
}

static __attribute__((noinline)) int wait_without_deadline(pthread_rwlock_t *rwlock, bool is_write,
							   const void *caller)
{
	return wait_for(rwlock, is_write, &(struct inbox_deadline){ .time = NULL }, caller);
}

/*
 * Lock without a deadline, as the wrapper whose body this is. The functions that try return EBUSY
 * where the others would wait or find a deadlock.
 */
#define LOCK(rwlock, is_write) do { \
	int result_; \
	if (__builtin_expect(!inbox_locks_rwlock_contended_enabled(), 1)) \
		return next[is_write].lock(rwlock); \
	result_ = next[is_write].trylock(rwlock); \
	return __builtin_expect(result_ != EBUSY, 1) ? result_ : \
	       wait_without_deadline(rwlock, is_write, INBOX_CALLER()); \
} while (0)

static int lock_until(pthread_rwlock_t *rwlock, bool is_write,
		      const struct inbox_deadline *deadline, const void *caller)
{
	int result;

	if (INBOX_UNLIKELY(!next[is_write].timedlock))
		rp_inbox_rwlocks_init();
	if (!inbox_locks_rwlock_contended_enabled() || !rp_inbox_is_valid(deadline))
		return lock_next(rwlock, is_write, deadline);
	result = next[is_write].trylock(rwlock);
	return result != EBUSY ? result : wait_for(rwlock, is_write, deadline, caller);
}

INBOX_EXPORT_ALIGNED int pthread_rwlock_rdlock(pthread_rwlock_t *rwlock)
{
	LOCK(rwlock, false);
}

INBOX_EXPORT_ALIGNED int pthread_rwlock_wrlock(pthread_rwlock_t *rwlock)
{
	LOCK(rwlock, true);
}

INBOX_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *rwlock, const struct timespec *time)
{
	return lock_until(rwlock, false, &(struct inbox_deadline){ .time = time },
			  __builtin_return_address(0));
}

INBOX_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *rwlock, const struct timespec *time)
{
	return lock_until(rwlock, true, &(struct inbox_deadline){ .time = time },
			  __builtin_return_address(0));
}

INBOX_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *rwlock, clockid_t clock,
					    const struct timespec *time)
{
	const struct inbox_deadline deadline = { .time = time, .has_clock = true, .clock = clock };

	return lock_until(rwlock, false, &deadline, __builtin_return_address(0));
}

INBOX_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *rwlock, clockid_t clock,
					    const struct timespec *time)
{
	const struct inbox_deadline deadline = { .time = time, .has_clock = true, .clock = clock };

	return lock_until(rwlock, true, &deadline, __builtin_return_address(0));
}

static __attribute__((noinline)) int unlock_with_waker(pthread_rwlock_t *rwlock)
{
	rp_inbox_waker_store(rp_inbox_waker_slot(rwlock), rwlock);
	return next_unlock(rwlock);
}

INBOX_EXPORT_ALIGNED int pthread_rwlock_unlock(pthread_rwlock_t *rwlock)
{
	if (inbox_locks_rwlock_contended_enabled() && rp_inbox_waker_is_expected(rwlock))
		return unlock_with_waker(rwlock);
	return next_unlock(rwlock);
}
