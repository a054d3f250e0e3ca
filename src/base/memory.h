/* SPDX-License-Identifier: MIT */
/* Memory by the page: rings mapped twice, tables a forked child does not see. */
#ifndef RP_BASE_MEMORY_H
#define RP_BASE_MEMORY_H

#include <stddef.h>

/*
 * Maps `head_bytes` of private memory followed by `size` bytes twice in a row, so that what runs
 * over the end goes on at the beginning. Both multiples of the page size. A forked child has none
 * of it. With a descriptor that is not -1, head and data are those bytes of a file, shared.
 * Return: 0 or -errno (-ENOMEM: address space, limit or memory).
 */
int rp_memory_map_ring(int fd, size_t head_bytes, size_t size, void **ret_memory);
void rp_memory_unmap_ring(void *memory, size_t head_bytes, size_t size);

/* Zeroed pages that a forked child finds zeroed again, before any handler of fork runs. */
int rp_memory_map_wiped(size_t size, void **ret_memory);

/*
 * An array on the heap, zero where nobody wrote, made long enough for `index`. The first time
 * `items` is NULL and *count 0.
 * Return: where it is now, *count set; NULL without memory, and it is as it was.
 */
void *rp_memory_grow(void *items, size_t *count, size_t index, size_t item_bytes);

#endif
