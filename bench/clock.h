/* SPDX-License-Identifier: MIT */
/* What every benchmark needs: a clock, and the best and the median of many rounds. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the rounds; [0] is the best, [count / 2] the median. */
static inline void sort_rounds(double *rounds, unsigned int count)
{
	qsort(rounds, count, sizeof(*rounds), compare_doubles);
}

/* One figure for run.py: a name, a value, a unit. */
static inline void figure(const char *name, double value, const char *unit)
{
	printf("%s\t%.6g\t%s\n", name, value, unit);
}

/* Sorts the rounds of a row, and prints its best and its median. */
static inline void figure_rounds(const char *row, double *rounds, unsigned int count)
{
	char name[64];

	sort_rounds(rounds, count);
	snprintf(name, sizeof(name), "%s, best", row);
	figure(name, rounds[0], "ns");
	snprintf(name, sizeof(name), "%s, median", row);
	figure(name, rounds[count / 2], "ns");
}

#endif
