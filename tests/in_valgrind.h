/* SPDX-License-Identifier: MIT */
#ifndef TESTS_IN_VALGRIND_H
#define TESTS_IN_VALGRIND_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Return: whether valgrind runs this process. */
static inline bool runs_in_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

#endif
