/* SPDX-License-Identifier: MIT */
/*
 * The functions of <threads.h> that may wait, and thrd_create(). In glibc, a mtx_t is a
 * pthread_mutex_t, a cnd_t is a pthread_cond_t, and a thread of C11 ends with its result as the
 * pointer of a thread of POSIX. The functions of libc do not call those of POSIX by name, so the
 * wrappers of POSIX do not see these calls.
 */
#include <errno.h>
#include <pthread.h>
#include <threads.h>

#include "modules/inbox/lock_events.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "one type with two names");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "one type with two names");

static int result_of(int error)
{
	switch (error) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	default:
		return thrd_error;
	}
}

INBOX_EXPORT int mtx_lock(mtx_t *mutex)
{
	return result_of(rp_inbox_mutex_lock((pthread_mutex_t *)mutex,
					     &(struct inbox_deadline){ .time = NULL },
					     __builtin_return_address(0)));
}

INBOX_EXPORT int mtx_timedlock(mtx_t *mutex, const struct timespec *time)
{
	return result_of(rp_inbox_mutex_lock((pthread_mutex_t *)mutex,
					     &(struct inbox_deadline){ .time = time },
					     __builtin_return_address(0)));
}

INBOX_EXPORT int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
	return result_of(rp_inbox_condition_wait((pthread_cond_t *)condition,
						 (pthread_mutex_t *)mutex,
						 &(struct inbox_deadline){ .time = NULL },
						 __builtin_return_address(0)));
}

INBOX_EXPORT int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *time)
{
	return result_of(rp_inbox_condition_wait((pthread_cond_t *)condition,
						 (pthread_mutex_t *)mutex,
						 &(struct inbox_deadline){ .time = time },
						 __builtin_return_address(0)));
}

INBOX_EXPORT int cnd_signal(cnd_t *condition)
{
	return result_of(pthread_cond_signal((pthread_cond_t *)condition));
}

INBOX_EXPORT int cnd_broadcast(cnd_t *condition)
{
	return result_of(pthread_cond_broadcast((pthread_cond_t *)condition));
}

INBOX_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument)
{
	return result_of(rp_inbox_create_c11(thread, routine, argument,
					     __builtin_return_address(0)));
}
