/* SPDX-License-Identifier: MIT */
/* FNV-1a, 64 bits. A hash starts with RP_HASH_BEGIN, and each call continues it. */
#ifndef RP_BASE_HASH_H
#define RP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RP_HASH_BEGIN 0xcbf29ce484222325ull

static inline uint64_t rp_hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	while (size--)
		hash = (hash ^ *at++) * 0x100000001b3ull;
	return hash;
}

/* Hash the text with its NUL; NULL counts as the empty text. */
static inline uint64_t rp_hash_text(uint64_t hash, const char *text)
{
	return rp_hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

#endif
