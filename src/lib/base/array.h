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
 * Find the first item whose key is not below `key`. Each item begins with its key, a uint64_t, and
 * the keys are in ascending order. Return: its index; `count` if all keys are below.
 */
static inline size_t rp_array_find(const void *items, size_t count, size_t item_bytes,
				   uint64_t key)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t at;

		memcpy(&at, (const char *)items + middle * item_bytes, sizeof(at));
		if (at < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif
