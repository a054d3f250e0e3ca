/* SPDX-License-Identifier: MIT */
#include "tools/trace/text_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIRST_CAPACITY 256u

static size_t find_slot(char *const *slots, size_t capacity, const char *text)
{
	const uint64_t hash = rp_hash_text(RP_HASH_BEGIN, text);
	size_t at = (hash ^ hash >> 32) & (capacity - 1);

	while (slots[at] && strcmp(slots[at], text) != 0)
		at = (at + 1) & (capacity - 1);
	return at;
}

static int grow(struct rp_text_pool *pool)
{
	const size_t capacity = pool->capacity ? pool->capacity * 2 : FIRST_CAPACITY;
	char **slots = calloc(capacity, sizeof(*slots));

	if (!slots)
		return -1;
	for (size_t i = 0; i < pool->capacity; i++) {
		if (pool->slots[i])
			slots[find_slot(slots, capacity, pool->slots[i])] = pool->slots[i];
	}
	free(pool->slots);
	pool->slots = slots;
	pool->capacity = capacity;
	return 0;
}

const char *rp_text_pool_add(struct rp_text_pool *pool, const char *text)
{
	size_t at;

	if (pool->count >= pool->capacity / 2 && grow(pool) < 0)
		return NULL;
	at = find_slot(pool->slots, pool->capacity, text);
	if (!pool->slots[at]) {
		pool->slots[at] = strdup(text);
		pool->count += pool->slots[at] != NULL;
	}
	return pool->slots[at];
}

void rp_text_pool_fini(struct rp_text_pool *pool)
{
	for (size_t i = 0; i < pool->capacity; i++)
		free(pool->slots[i]);
	free(pool->slots);
	*pool = (struct rp_text_pool){ 0 };
}
