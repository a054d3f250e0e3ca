/* SPDX-License-Identifier: MIT */
/* Heap arrays that grow, and searches in sorted arrays. */
#ifndef RP_BASE_ARRAY_H
#define RP_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define RP_ARRAY_FIRST_BYTES 512u

/*
 * Reserve space for `extra` items, at least one, after the `count` items of an array. The capacity
 * doubles. For a new array, `items` is NULL and both numbers are 0.
 *
 * Return: the array, with *capacity set; NULL: no memory, and the old array is unchanged.
 */
static inline void *rp_array_reserve(void *items, size_t count, size_t *capacity, size_t extra,
				     size_t item_bytes)
{
	size_t grown = *capacity ? *capacity : RP_ARRAY_FIRST_BYTES / item_bytes + 4;
	void *array;

	if (extra <= *capacity - count)
		return items;
	if (extra > SIZE_MAX / 4 - count)
		return NULL;
	while (grown - count < extra)
		grown *= 2;
	array = reallocarray(items, grown, item_bytes);
	if (array)
		*capacity = grown;
	return array;
}

/*
 * Find the first index for which the expression `is_before` is false. The expression contains the
 * index by the name `index`. It is true for all indexes below the result, and false for all others.
 *
 * Return: the index; `count` if the expression is always true.
 */
#define RP_PARTITION_POINT(index, count, is_before)			\
	__extension__({							\
		size_t low_ = 0, high_ = (count);			\
									\
		while (low_ < high_) {					\
			const size_t index = low_ + (high_ - low_) / 2;	\
									\
			if (is_before)					\
				low_ = index + 1;			\
			else						\
				high_ = index;				\
		}							\
		low_;							\
	})

/* Return: the key at the beginning of an item. */
static inline uint64_t rp_array_key(const void *items, size_t index, size_t item_bytes)
{
	uint64_t key;

	memcpy(&key, (const char *)items + index * item_bytes, sizeof(key));
	return key;
}

/*
 * Find the first item whose key is not below `key`. Each item begins with its key, a uint64_t, and
 * the keys are in ascending order. Return: its index; `count` if all keys are below.
 */
static inline size_t rp_array_find(const void *items, size_t count, size_t item_bytes,
				   uint64_t key)
{
	return RP_PARTITION_POINT(i, count, rp_array_key(items, i, item_bytes) < key);
}

#endif
