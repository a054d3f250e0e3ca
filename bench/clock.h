/* SPDX-License-Identifier: MIT */
/* Common to all benchmarks: a clock, and the best and the median of many rounds. */
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

/* Reads the clock `count` times: the floor of an event. Return: the sum of the readings. */
static inline uint64_t read_rdtsc(unsigned int count)
{
	uint64_t sum = 0;

#if defined(__x86_64__)
	for (unsigned int i = 0; i < count; i++)
		sum += __builtin_ia32_rdtsc();
#else
	(void)count;
#endif
	return sum;
}

static inline uint64_t read_clock_gettime(unsigned int count)
{
	struct timespec now;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < count; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += (uint64_t)now.tv_nsec;
	}
	return sum;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the rounds; [0] is then the best, [count / 2] the median. */
static inline void sort_rounds(double *rounds, unsigned int count)
{
	qsort(rounds, count, sizeof(*rounds), compare_doubles);
}

/* One figure for run.py: a name, a value, a unit. */
static inline void figure(const char *name, double value, const char *unit)
{
	printf("%s\t%.6g\t%s\n", name, value, unit);
}

/* All rounds of a row, in order: rounds with the same number in two rows are a pair. */
static inline void figure_rounds(const char *row, const double *rounds, unsigned int count)
{
	printf("%s\t", row);
	for (unsigned int i = 0; i < count; i++)
		printf("%s%.6g", i ? "," : "", rounds[i]);
	printf("\tns\n");
}

/* One point of a curve. */
static inline void figure_point(const char *curve, double x, double y, const char *unit)
{
	printf("%s\t%.6g:%.6g\t%s\n", curve, x, y, unit);
}

/* The usual number, or fewer if BENCH_ROUNDS is set: 3 suffice to test the benchmark itself. */
static inline unsigned int bench_rounds(unsigned int usual)
{
	const char *text = getenv("BENCH_ROUNDS");
	unsigned int most = text ? (unsigned int)atoi(text) : usual;

	return most < usual ? most : usual;
}

#endif
