/* SPDX-License-Identifier: MIT */
/*
 * Records which system call failed. Functions return -errno. If a seccomp filter is the cause, an
 * operator also needs the name of the call.
 */
#ifndef RP_BASE_FAILURE_H
#define RP_BASE_FAILURE_H

#include <errno.h>
#include <stddef.h>

/* The system call that made this thread's last library call fail; NULL: none. */
extern __thread const char *rp_failed_call __attribute__((tls_model("initial-exec"),
							   visibility("hidden")));

/* Record `call`, a string constant, as the last failed call. Return: -errno. */
static inline int rp_failed(const char *call)
{
	rp_failed_call = call;
	return -errno;
}

/* The same for a function that returns its error, as pthread functions do. Return: -error. */
static inline int rp_failed_with(const char *call, int error)
{
	if (error != 0)
		rp_failed_call = call;
	return -error;
}

/*
 * Return: the name of the last failed call, if `error` alone does not show the cause: a filter
 * refuses the call (EPERM, ENOSYS), /proc is missing (ENOENT), or memory or threads are (EAGAIN,
 * ENOMEM). Otherwise NULL.
 */
static inline const char *rp_failed_call_for(int error)
{
	switch (error) {
	case EPERM:
	case ENOSYS:
	case ENOENT:
	case EAGAIN:
	case ENOMEM:
		return rp_failed_call;
	default:
		return NULL;
	}
}

#endif
