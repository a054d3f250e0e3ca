/* SPDX-License-Identifier: MIT */
/* Threads: their creation, start, name and end. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <ringpipe/event.h>

#include "modules/inbox/inbox.h"

RP_PROVIDER(inbox_threads, "ringpipe-threads");
RP_EVENT(inbox_threads, created, 1, RP_LEVEL_INFORMATIONAL, 0, RP_POINTER(routine));
RP_EVENT_EX(inbox_threads, started, (RP_ID(2), RP_FLAGS(RP_EVENT_NO_STACK)), RP_POINTER(routine),
	    RP_U32(creator));
RP_EVENT(inbox_threads, named, 3, RP_LEVEL_INFORMATIONAL, 0, RP_POINTER(handle), RP_STRING(name));
RP_EVENT_EX(inbox_threads, ended, (RP_ID(4), RP_FLAGS(RP_EVENT_NO_STACK)), RP_POINTER(routine));

typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes,
			    void *(*routine)(void *), void *argument);
typedef int setname_function(pthread_t thread, const char *name);
typedef int prctl_function(int option, ...);

/* The arguments of run_thread(), in memory that the new thread frees. */
struct inbox_thread_start {
	void *(*routine)(void *);
	int (*c11_routine)(void *);	/* of thrd_create(3); NULL: `routine` is the one to call */
	void *argument;
	pid_t creator;
	bool is_of_engine;
};

static create_function *next_create;
static setname_function *next_setname;
static prctl_function *next_prctl;

/* The `end` of a thread that returns, calls pthread_exit(3) or is cancelled. */
static void end_thread(void *routine)
{
	if (!rp_inbox_thread.is_of_engine)
		inbox_threads_ended(routine);
}

static void *address_of(const struct inbox_thread_start *start)
{
	return start->c11_routine ? (void *)start->c11_routine : (void *)start->routine;
}

static void *run_thread(void *data)
{
	const struct inbox_thread_start start = *(struct inbox_thread_start *)data;
	void *result;

	rp_inbox_thread.is_of_engine = start.is_of_engine;
	free(data);
	if (!start.is_of_engine)
		inbox_threads_started(address_of(&start), (uint32_t)start.creator);
	pthread_cleanup_push(end_thread, address_of(&start));
	/* glibc keeps the result of a thread of C11 as a pointer. */
	result = start.c11_routine ? (void *)(intptr_t)start.c11_routine(start.argument) :
				     start.routine(start.argument);
	pthread_cleanup_pop(1);
	return result;
}

static int create_without_event(pthread_t *thread, const pthread_attr_t *attributes,
				const struct inbox_thread_start *wanted)
{
	struct inbox_thread_start *start = malloc(sizeof(*start));
	int ret;

	/* The thread matters more than its events, but one of C11 cannot start without them. */
	if (!start)
		return wanted->c11_routine ? ENOMEM :
		       next_create(thread, attributes, wanted->routine, wanted->argument);
	*start = *wanted;
	start->creator = rp_inbox_thread_id();
	ret = next_create(thread, attributes, run_thread, start);
	if (ret != 0)
		free(start);
	return ret;
}

/*
 * Each thread starts in run_thread(), also while no session wants the events, since a session may
 * want the thread's end.
 */
static int create(pthread_t *thread, const pthread_attr_t *attributes,
		  struct inbox_thread_start start, const void *caller)
{
	int ret;

	start.is_of_engine = rp_inbox_thread.is_of_engine || rp_inbox_is_engine(caller);
	if (!next_create)
		next_create = rp_inbox_next("pthread_create");
	ret = create_without_event(thread, attributes, &start);
	/* `*thread` may not exist any more: it may be in memory that the new thread frees. */
	if (ret == 0 && !start.is_of_engine)
		inbox_threads_created(address_of(&start));
	return ret;
}

INBOX_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
				void *(*routine)(void *), void *argument)
{
	const struct inbox_thread_start start = { .routine = routine, .argument = argument };

	return create(thread, attributes, start, __builtin_return_address(0));
}

int rp_inbox_create_c11(pthread_t *thread, int (*routine)(void *), void *argument,
			const void *caller)
{
	const struct inbox_thread_start start = { .c11_routine = routine, .argument = argument };

	return create(thread, NULL, start, caller);
}

static bool may_report_name(void)
{
	return inbox_threads_named_enabled() && !rp_inbox_thread.is_of_engine &&
	       !rp_inbox_is_vfork_child();
}

INBOX_EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	int ret;

	if (!next_setname)
		next_setname = rp_inbox_next("pthread_setname_np");
	ret = next_setname(thread, name);
	if (ret == 0 && may_report_name() && !rp_inbox_is_engine(__builtin_return_address(0)))
		inbox_threads_named((const void *)thread, name);
	return ret;
}

/* As in libc, prctl(2) passes on four arguments, of which the caller may have set fewer. */
INBOX_EXPORT int prctl(int option, ...)
{
	unsigned long arguments[4];
	va_list list;
	int ret;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, unsigned long);
	va_end(list);
	if (!next_prctl)
		next_prctl = rp_inbox_next("prctl");
	ret = next_prctl(option, arguments[0], arguments[1], arguments[2], arguments[3]);
	if (option == PR_SET_NAME && ret == 0 && may_report_name()) {
		const char *given = (const char *)arguments[0];
		char name[16] = "";

		/* The kernel reads at most 15 bytes, so the program's name may have no NUL. */
		memcpy(name, given, strnlen(given, sizeof(name) - 1));
		inbox_threads_named((const void *)pthread_self(), name);
	}
	return ret;
}

void rp_inbox_threads_init(void)
{
	next_create = rp_inbox_next("pthread_create");
	next_setname = rp_inbox_next("pthread_setname_np");
	next_prctl = rp_inbox_next("prctl");
}
