/* SPDX-License-Identifier: MIT */
/* The tests of the sampler share these functions. */
#ifndef SAMPLE_SUPPORT_H
#define SAMPLE_SUPPORT_H

#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Valgrind runs one thread at a time, and has no timers on thread clocks. */
static inline void need_timers(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	if (preloaded && strstr(preloaded, "vgpreload"))
		cr_skip_test("valgrind has no timers on the clocks of threads");
}

/* Return: the number of real-time signals with a handler. */
static inline unsigned int count_handlers(void)
{
	unsigned int count = 0;

	for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
		struct sigaction action;

		cr_assert_eq(sigaction(number, NULL, &action), 0);
		count += action.sa_flags & SA_SIGINFO || action.sa_handler != SIG_DFL;
	}
	return count;
}

/* Return: the number of POSIX timers of the process; 0 also if the kernel does not list them. */
static inline unsigned int count_timers(void)
{
	FILE *file = fopen("/proc/self/timers", "re");
	unsigned int count = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		count += strncmp(line, "ID:", 3) == 0;
	if (file)
		fclose(file);
	return count;
}

#endif
