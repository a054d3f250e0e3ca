/* SPDX-License-Identifier: MIT */
/*
 * The cache of unwind rules, by instruction address. It has 1 << RP_UNWIND_CACHE_BITS sets of
 * RP_UNWIND_CACHE_WAYS entries, so that the instructions of one stack rarely keep evicting each
 * other. Any thread may read or write an entry, one word at a time and without a lock. `key` is the
 * tag XORed with the other words, so an entry that two writers overwrote in part matches no tag.
 */
#ifndef RP_UNWIND_CACHE_H
#define RP_UNWIND_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"

#define RP_UNWIND_CACHE_BITS 10u
#define RP_UNWIND_CACHE_WAYS 4u

enum rp_plain_kind {
	RP_PLAIN_NONE,		/* no rules: follow the frame pointer */
	RP_PLAIN_PLAIN,
	RP_PLAIN_REALIGNED,	/* the function realigned its stack and saved the frame's address */
	RP_PLAIN_SIGNAL,	/* the signal frame that the kernel made */
	RP_PLAIN_END,		/* the outermost function */
	RP_PLAIN_HARD,		/* not cacheable: look up the rules each time */
};

/*
 * The common rules in compact form. A slot is a distance in words from the frame's address; 0: the
 * callee did not change the register.
 *
 * RP_PLAIN_REALIGNED: the frame's address is the word at frame_register + frame_offset. The
 * registers were saved after the realignment, so their slots are distances from frame_register +
 * RP_REALIGNED_BASE, which is above the saved frame pointer.
 */
#define RP_REALIGNED_BASE 16u

struct rp_plain {
	int32_t frame_offset;
	uint8_t frame_register;
	uint8_t kind;
	int16_t return_slot;
	int16_t rbx_slot, rbp_slot;
	int16_t r_slots[4];		/* r12 to r15 */
	uint32_t spare;
};

struct rp_unwind_cache {
	uint64_t key;
	uint64_t words[3];
};

_Static_assert(sizeof(struct rp_plain) == sizeof(((struct rp_unwind_cache *)0)->words),
	       "a row fills an entry");

extern struct rp_unwind_cache rp_unwind_cache[1u << RP_UNWIND_CACHE_BITS][RP_UNWIND_CACHE_WAYS];

/* Addresses have 47 bits. The generation above them distinguishes libraries at the same address. */
static inline uint64_t rp_unwind_cache_tag(uint64_t address, uint32_t generation)
{
	return address ^ (uint64_t)generation << 48;
}

static inline struct rp_unwind_cache *rp_unwind_cache_set(uint64_t tag)
{
	return rp_unwind_cache[(tag * 0x9e3779b97f4a7c15ull) >> (64 - RP_UNWIND_CACHE_BITS)];
}

static inline uint64_t rp_unwind_cache_mix(uint64_t tag, const uint64_t words[3])
{
	return tag ^ words[0] ^ (words[1] << 21 | words[1] >> 43) ^
	       (words[2] << 42 | words[2] >> 22);
}

/* Read an entry. Return: whether the entry belongs to `tag`. */
static inline bool rp_unwind_cache_read(const struct rp_unwind_cache *entry, uint64_t tag,
					uint64_t ret_words[3])
{
	uint64_t key = rp_load_relaxed(&entry->key);

	ret_words[0] = rp_load_relaxed(&entry->words[0]);
	ret_words[1] = rp_load_relaxed(&entry->words[1]);
	ret_words[2] = rp_load_relaxed(&entry->words[2]);
	return key != 0 && key == rp_unwind_cache_mix(tag, ret_words);
}

static inline void rp_unwind_cache_write(struct rp_unwind_cache *entry, uint64_t tag,
					 const uint64_t words[3])
{
	rp_store_relaxed(&entry->words[0], words[0]);
	rp_store_relaxed(&entry->words[1], words[1]);
	rp_store_relaxed(&entry->words[2], words[2]);
	rp_store_relaxed(&entry->key, rp_unwind_cache_mix(tag, words));
}

/*
 * Get a rule, as the words of a struct rp_plain or as the struct. Context of these functions and of
 * rp_unwind_cache_put(): any, signal handlers included. Return: whether the cache has the rule.
 */
static inline bool rp_unwind_cache_words(uint64_t tag, uint64_t ret_words[3])
{
	const struct rp_unwind_cache *set = rp_unwind_cache_set(tag);

	for (unsigned int way = 0; way < RP_UNWIND_CACHE_WAYS; way++) {
		if (rp_unwind_cache_read(&set[way], tag, ret_words))
			return true;
	}
	return false;
}

static inline bool rp_unwind_cache_get(uint64_t tag, struct rp_plain *ret_plain)
{
	uint64_t words[3];

	if (!rp_unwind_cache_words(tag, words))
		return false;
	memcpy(ret_plain, words, sizeof(words));
	return true;
}

void rp_unwind_cache_put(uint64_t tag, const struct rp_plain *plain);

struct rp_cfi_row;
struct rp_object_text;

/*
 * Convert a row of `object` to its compact form; RP_PLAIN_HARD if that form cannot express the row.
 */
void rp_plain_make(const struct rp_object_text *object, const struct rp_cfi_row *row,
		   struct rp_plain *ret_plain);

#endif
