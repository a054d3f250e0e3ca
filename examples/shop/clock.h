/* SPDX-License-Identifier: MIT */
#ifndef SHOP_CLOCK_H
#define SHOP_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t shop_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void shop_sleep_ns(uint64_t ns)
{
	struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	while (nanosleep(&time, &time) < 0)
		;
}

#endif
