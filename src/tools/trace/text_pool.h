/* SPDX-License-Identifier: MIT */
/* Texts that are stored once each, so that equal texts have equal pointers. */
#ifndef RP_TOOL_TEXT_POOL_H
#define RP_TOOL_TEXT_POOL_H

#include <stddef.h>

/* Initialise it with zeros. */
struct rp_text_pool {
	char **slots;			/* a hash table; at most half of the slots are in use */
	size_t capacity;		/* a power of two, or 0 */
	size_t count;
};

/* Return: the pool's copy, valid until rp_text_pool_fini(); NULL: no memory. */
const char *rp_text_pool_add(struct rp_text_pool *pool, const char *text);
void rp_text_pool_fini(struct rp_text_pool *pool);

#endif
