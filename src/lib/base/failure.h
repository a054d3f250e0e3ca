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

#endif
