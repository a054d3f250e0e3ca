/* SPDX-License-Identifier: MIT */
/*
 * Memory that the host may supply (rp_host.allocate). Each block remembers the host that supplied
 * it, so hosts may be registered and unregistered while blocks exist. Only rp_heap_free() frees a
 * block.
 */
#ifndef RP_BASE_HEAP_H
#define RP_BASE_HEAP_H

#include <stddef.h>

/* As malloc(3), calloc(3), realloc(3) and free(3). Context: any thread, not a signal handler. */
void *rp_heap_alloc(size_t bytes);
void *rp_heap_zalloc(size_t count, size_t item_bytes);
void *rp_heap_resize(void *memory, size_t bytes);
void rp_heap_free(void *memory);

#endif
