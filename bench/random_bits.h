/* SPDX-License-Identifier: MIT */
/* The same random numbers in each run. */
#ifndef RP_BENCH_RANDOM_BITS_H
#define RP_BENCH_RANDOM_BITS_H

#include <stdint.h>

/* splitmix64, from 0 */
static uint64_t random_bits(void)
{
	static uint64_t state;
	uint64_t bits = state += 0x9e3779b97f4a7c15u;

	bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
	bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
	return bits ^ bits >> 31;
}

#endif
