/* SPDX-License-Identifier: MIT */
/* The path of a trace in a directory of each test, for .init and .fini of a suite. */
#ifndef TRACE_PATH_H
#define TRACE_PATH_H

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[] = "/tmp/rp-unit-XXXXXX";
static char path[64];

static void make_directory(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/trace", directory);
}

static void remove_directory(void)
{
	(void)unlink(path);
	cr_assert_eq(rmdir(directory), 0);
}

#endif
