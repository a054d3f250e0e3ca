/* SPDX-License-Identifier: MIT */
#ifndef NETTRACE_VERSION_H
#define NETTRACE_VERSION_H

#include <stdint.h>
#include <stdlib.h>

/* The version of the format that a host writes: the tests run with each. */
static inline uint32_t nettrace_version(void)
{
	const char *text = getenv("TEST_NETTRACE_VERSION");

	return text ? (uint32_t)atoi(text) : 0;
}

#endif
