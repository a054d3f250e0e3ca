/* SPDX-License-Identifier: MIT */
/*
 * A library for LD_PRELOAD. If FAIL_MEMORY=N is set, the Nth call of malloc(3) or calloc(3) after
 * the program was loaded fails, and with FAIL_REALLOC set, realloc(3) counts as well. The failure
 * creates the file FAIL_MARK.
 */
#include "failing_malloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_realloc(void *memory, size_t bytes);

static long left;			/* calls until the failure; 0 or less: none */
static bool counts_realloc;
static const char *mark;

__attribute__((constructor)) static void arm(void)
{
	const char *number = getenv("FAIL_MEMORY");

	mark = getenv("FAIL_MARK");
	counts_realloc = getenv("FAIL_REALLOC") != NULL;
	__atomic_store_n(&left, number ? atol(number) : 0, __ATOMIC_SEQ_CST);
}

static bool fails(void)
{
	int fd;

	if (__atomic_load_n(&left, __ATOMIC_SEQ_CST) <= 0 ||
	    __atomic_fetch_sub(&left, 1, __ATOMIC_SEQ_CST) != 1)
		return false;
	fd = mark ? open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0644) : -1;
	if (fd >= 0)
		close(fd);
	errno = ENOMEM;
	return true;
}

void *realloc(void *memory, size_t bytes)
{
	return counts_realloc && fails() ? NULL : __libc_realloc(memory, bytes);
}
