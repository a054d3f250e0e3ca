/* SPDX-License-Identifier: MIT */
/* Condition variables: each wait, with its duration and the thread that ended it. */
#include <errno.h>
#include <pthread.h>

#include "modules/inbox/lock_events.h"
#include "modules/inbox/lock_wakers.h"

static struct {
	int (*wait)(pthread_cond_t *condition, pthread_mutex_t *mutex);
	int (*timedwait)(pthread_cond_t *condition, pthread_mutex_t *mutex,
			 const struct timespec *time);
	int (*clockwait)(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
			 const struct timespec *time);
	int (*signal)(pthread_cond_t *condition);
	int (*broadcast)(pthread_cond_t *condition);
} next;

void rp_inbox_conditions_init(void)
{
	static const char version[] = "GLIBC_2.3.2";

	next.timedwait = rp_inbox_next_version("pthread_cond_timedwait", version);
	next.clockwait = rp_inbox_find_next("pthread_cond_clockwait");
	next.signal = rp_inbox_next_version("pthread_cond_signal", version);
	next.broadcast = rp_inbox_next_version("pthread_cond_broadcast", version);
	next.wait = rp_inbox_next_version("pthread_cond_wait", version);
}

static int wait_next(pthread_cond_t *condition, pthread_mutex_t *mutex,
		     const struct inbox_deadline *deadline)
{
	if (INBOX_UNLIKELY(!next.wait))
		rp_inbox_conditions_init();
	if (!deadline->time)
		return next.wait(condition, mutex);
	return deadline->has_clock ?
	       next.clockwait(condition, mutex, deadline->clock, deadline->time) :
	       next.timedwait(condition, mutex, deadline->time);
}

/* The thread may be cancelled in the wait; then this cleanup runs and no event is written. */
static void forget_waker(pthread_cond_t *const *condition)
{
	rp_inbox_waker_forget(*condition);
}

static __attribute__((noinline)) int wait_with_event(pthread_cond_t *condition,
						     pthread_mutex_t *mutex,
						     const struct inbox_deadline *deadline)
{
	pthread_cond_t *const expected __attribute__((cleanup(forget_waker))) = condition;
	const int saved_errno = errno;
	uint64_t start;
	int ret;

	rp_inbox_waker_expect(expected);
	start = rp_inbox_now_ns();
	ret = wait_next(condition, mutex, deadline);
	/* The slot of the waker does not belong to the condition, which may not exist any more. */
	inbox_locks_condition_waited(condition, rp_inbox_now_ns() - start,
				     ret == 0 ? (uint32_t)rp_inbox_waker_of(condition) : 0, ret);
	errno = saved_errno;
	return ret;
}

int rp_inbox_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
			    const struct inbox_deadline *deadline, const void *caller)
{
	return inbox_locks_condition_waited_enabled() && rp_inbox_is_program(caller) ?
	       wait_with_event(condition, mutex, deadline) :
	       wait_next(condition, mutex, deadline);
}

INBOX_EXPORT int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	return rp_inbox_condition_wait(condition, mutex, &(struct inbox_deadline){ .time = NULL },
				       __builtin_return_address(0));
}

INBOX_EXPORT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
					const struct timespec *time)
{
	return rp_inbox_condition_wait(condition, mutex, &(struct inbox_deadline){ .time = time },
				       __builtin_return_address(0));
}

INBOX_EXPORT int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
					clockid_t clock, const struct timespec *time)
{
	const struct inbox_deadline deadline = { .time = time, .has_clock = true, .clock = clock };

	return rp_inbox_condition_wait(condition, mutex, &deadline, __builtin_return_address(0));
}

INBOX_EXPORT int pthread_cond_signal(pthread_cond_t *condition)
{
	if (INBOX_UNLIKELY(inbox_locks_condition_waited_enabled()))
		rp_inbox_waker_announce(condition);
	if (INBOX_UNLIKELY(!next.signal))
		rp_inbox_conditions_init();
	return next.signal(condition);
}

INBOX_EXPORT int pthread_cond_broadcast(pthread_cond_t *condition)
{
	if (INBOX_UNLIKELY(inbox_locks_condition_waited_enabled()))
		rp_inbox_waker_announce(condition);
	if (INBOX_UNLIKELY(!next.broadcast))
		rp_inbox_conditions_init();
	return next.broadcast(condition);
}
