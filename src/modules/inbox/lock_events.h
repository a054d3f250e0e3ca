/* SPDX-License-Identifier: MIT */
/* The events of locks, and what the wrappers of locks share. */
#ifndef RP_INBOX_LOCK_EVENTS_H
#define RP_INBOX_LOCK_EVENTS_H

#include <pthread.h>
#include <time.h>

#include <ringpipe/event.h>

#include "modules/inbox/inbox.h"

#define INBOX_KEYWORD_MUTEX 1u
#define INBOX_KEYWORD_RWLOCK 2u
#define INBOX_KEYWORD_CONDITION 4u

/* A thread id of 0 is unknown. `result` is what the function of libc returned. */
RP_PROVIDER(inbox_locks, "ringpipe-locks");
RP_EVENT(inbox_locks, mutex_contended, 1, RP_LEVEL_INFORMATIONAL, INBOX_KEYWORD_MUTEX,
	 RP_POINTER(address), RP_U64(duration_ns), RP_U32(owner), RP_I32(result));
RP_EVENT(inbox_locks, rwlock_contended, 2, RP_LEVEL_INFORMATIONAL, INBOX_KEYWORD_RWLOCK,
	 RP_POINTER(address), RP_U64(duration_ns), RP_U32(owner), RP_U32(waker),
	 RP_U32(is_write), RP_I32(result));
RP_EVENT(inbox_locks, condition_waited, 3, RP_LEVEL_INFORMATIONAL, INBOX_KEYWORD_CONDITION,
	 RP_POINTER(address), RP_U64(duration_ns), RP_U32(waker), RP_I32(result));

/* Until when a thread waits. */
struct inbox_deadline {
	const struct timespec *time;	/* NULL: without a deadline */
	bool has_clock;			/* the function has a parameter for the clock */
	clockid_t clock;
};

/* Return: whether libc accepts the deadline. The functions that only try do not check it. */
static inline bool rp_inbox_is_valid(const struct inbox_deadline *deadline)
{
	if (!deadline->time)
		return true;
	return deadline->time->tv_nsec >= 0 && deadline->time->tv_nsec < 1000000000 &&
	       (!deadline->has_clock || deadline->clock == CLOCK_REALTIME ||
		deadline->clock == CLOCK_MONOTONIC);
}

/*
 * Lock a mutex, or wait for a condition, with the event of a wait.
 * @caller: the return address of the wrapper.
 * Context and Return: as the functions of libc.
 */
int rp_inbox_mutex_lock(pthread_mutex_t *mutex, const struct inbox_deadline *deadline,
			const void *caller);
int rp_inbox_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
			    const struct inbox_deadline *deadline, const void *caller);

/* Return: whether the thread's waits are those of the program. */
static inline bool rp_inbox_is_program(const void *caller)
{
	return !rp_inbox_thread.is_of_engine && !rp_inbox_thread.is_busy &&
	       !rp_inbox_is_engine(caller) && !rp_inbox_is_vfork_child();
}

#endif
