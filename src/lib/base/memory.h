/* SPDX-License-Identifier: MIT */
/*
 * Memory in pages: double-mapped rings, and tables that a forked child does not inherit. The
 * functions that unmap keep address ranges for later mappings (RANGES in memory.c).
 */
#ifndef RP_BASE_MEMORY_H
#define RP_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Map `header_bytes` of private memory, and then the same `size` bytes twice, so that an access
 * beyond the end continues at the beginning. Both sizes are multiples of the page size. A forked
 * child does not inherit the mapping. If `fd` is not -1, map the bytes of that file as shared
 * memory instead.
 * Return: 0 or -errno (-ENOMEM: address space, limit or memory).
 */
int rp_memory_map_ring(int fd, size_t header_bytes, size_t size, void **ret_memory);
void rp_memory_unmap_ring(void *memory, size_t header_bytes, size_t size);

/*
 * Map `size` bytes of zeroed memory without huge pages: untouched pages take no memory. A forked
 * child does not inherit the mapping. Return: 0 or -errno of mmap(2).
 */
int rp_memory_map_once(size_t size, void **ret_memory);
void rp_memory_unmap(void *memory, size_t size);

/* Map pages that are zero, and zero again in a forked child, before any fork handler runs. */
int rp_memory_map_wiped(size_t size, void **ret_memory);

/*
 * Unmap address ranges that are not in use for 10 seconds. `now_ns`: CLOCK_MONOTONIC. Return: the
 * time until the next call, in nanoseconds; 0: no range is left.
 */
uint64_t rp_memory_reap(uint64_t now_ns);

/* Call them before a fork, and after it in both processes. The child has the same free ranges. */
void rp_memory_fork_prepare(void);
void rp_memory_fork_done(void);

/*
 * Grow a zero-filled heap array so that it has an item `index`. For a new array, `items` is NULL
 * and *count is 0.
 * Return: the new array, with *count set; NULL: no memory, and the old array is unchanged.
 */
void *rp_memory_grow(void *items, size_t *count, size_t index, size_t item_bytes);

#endif
