/* SPDX-License-Identifier: MIT */
/* Memory by the page: rings mapped twice, tables a forked child does not see. */
#ifndef RP_BASE_MEMORY_H
#define RP_BASE_MEMORY_H

#include <stddef.h>

/*
 * Maps `header_bytes` of private memory, and then the same `size` bytes twice, so that an access
 * beyond the end continues at the beginning. Both are multiples of the page size. A forked child
 * does not inherit the mapping. If `fd` is not -1, the file's bytes are mapped and shared instead.
 * Return: 0 or -errno (-ENOMEM: address space, limit or memory).
 */
int rp_memory_map_ring(int fd, size_t header_bytes, size_t size, void **ret_memory);
void rp_memory_unmap_ring(void *memory, size_t header_bytes, size_t size);

/*
 * Maps `size` bytes of zeroed memory, in pages of the smallest kind: untouched pages take
 * no memory. A forked child has none of it. Return: 0 or -errno of mmap.
 */
int rp_memory_map_once(size_t size, void **ret_memory);
void rp_memory_unmap(void *memory, size_t size);

/* Zeroed pages that a forked child finds zeroed again, before any handler of fork runs. */
int rp_memory_map_wiped(size_t size, void **ret_memory);

/*
 * Grows a heap array, zero-filled, so that it has an item `index`. For a new array, `items` is NULL
 * and *count is 0.
 * Return: where it is now, *count set; NULL without memory, and it is as it was.
 */
void *rp_memory_grow(void *items, size_t *count, size_t index, size_t item_bytes);

#endif
