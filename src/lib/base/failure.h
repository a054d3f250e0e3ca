/* SPDX-License-Identifier: MIT */
/*
 * Which system call failed. Functions return -errno; where a filter of system calls is the cause,
 * an operator needs the name of the call as well.
 */
#ifndef RP_BASE_FAILURE_H
#define RP_BASE_FAILURE_H

#include <errno.h>
#include <stddef.h>

/* The call at which the thread's last call of the library failed; NULL: none did. */
extern __thread const char *rp_failed_call __attribute__((tls_model("initial-exec"),
							   visibility("hidden")));

/* Record `call`, a string constant, as the last that failed. Return: -errno. */
static inline int rp_failed(const char *call)
{
	rp_failed_call = call;
	return -errno;
}

/* The same for a function that returns its error, as those of pthreads do. Return: -error. */
static inline int rp_failed_with(const char *call, int error)
{
	if (error != 0)
		rp_failed_call = call;
	return -error;
}

#endif
