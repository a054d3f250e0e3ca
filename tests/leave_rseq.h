/* SPDX-License-Identifier: MIT */
/* A thread whose writes take the fallback. */
#ifndef TESTS_LEAVE_RSEQ_H
#define TESTS_LEAVE_RSEQ_H

#include <errno.h>
#include <stdint.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Unregister the calling thread's rseq area, as if no C library had registered one. Do nothing in a
 * thread without one. Return: 0; -errno of rseq(2).
 */
static inline int leave_rseq(void)
{
	struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);

	if (__rseq_size == 0 || (int32_t)area->cpu_id < 0)
		return 0;
	/* glibc 2.36 registered 32 bytes, although __rseq_size is less. */
	return syscall(SYS_rseq, area, 32, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0 ? 0 : -errno;
}

#endif
