/* SPDX-License-Identifier: MIT */
/*
 * A histogram's buckets: 64 for each power of two from 2^-63 up, so that the middle of a bucket is
 * within 1/128 of each value in it. Bucket 0 counts smaller values, and the last bucket counts
 * larger values.
 */
#ifndef RP_COUNTER_BUCKETS_H
#define RP_COUNTER_BUCKETS_H

#include <stdint.h>
#include <string.h>

#include "counter/cells.h"

#define RP_BUCKET_BITS 6u
#define RP_BUCKETS_OFFSET 512u	/* in each row, after the header */
#define RP_BUCKET_COUNT ((RP_CELL_ROW_BYTES - RP_BUCKETS_OFFSET) / (uint32_t)sizeof(uint64_t))
/* Exponent 2^-63 and the upper mantissa bits of a double; bucket 1 begins there. */
#define RP_BUCKET_BASE ((1023ull - 63) << RP_BUCKET_BITS)

static inline uint64_t rp_double_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double rp_double_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* The bucket of a number that is not negative, given by its bits. */
static inline uint32_t rp_bucket_of(uint64_t bits)
{
	uint64_t top = bits >> (52 - RP_BUCKET_BITS);

	if (top < RP_BUCKET_BASE)
		return 0;
	top -= RP_BUCKET_BASE - 1;
	return top < RP_BUCKET_COUNT ? (uint32_t)top : RP_BUCKET_COUNT - 1;
}

/* The middle of a bucket. */
static inline double rp_bucket_value(uint32_t bucket)
{
	uint64_t top = bucket - 1 + RP_BUCKET_BASE;

	if (bucket == 0)
		return 0;
	return (rp_double_of(top << (52 - RP_BUCKET_BITS)) +
		rp_double_of((top + 1) << (52 - RP_BUCKET_BITS))) / 2;
}

#endif
