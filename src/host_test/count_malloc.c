/* SPDX-License-Identifier: MIT */
/*
 * Counts the calls of malloc(3). The definitions are weak, so a host with its own malloc keeps it;
 * the suite then skips the check that needs the count.
 */
#include "host_test/suite.h"

#include <stdlib.h>

__thread unsigned long rp_malloc_calls __attribute__((tls_model("initial-exec")));

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

__attribute__((weak)) void *malloc(size_t size)
{
	rp_malloc_calls++;
	return __libc_malloc(size);
}

__attribute__((weak)) void *calloc(size_t count, size_t size)
{
	rp_malloc_calls++;
	return __libc_calloc(count, size);
}

__attribute__((weak)) void *realloc(void *memory, size_t size)
{
	rp_malloc_calls++;
	return __libc_realloc(memory, size);
}
#endif
