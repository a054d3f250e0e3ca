/* SPDX-License-Identifier: MIT */
/*
 * What was learnt about instructions: 1 << RP_LEARNT_BITS sets of RP_LEARNT_WAYS entries, so that
 * those of one stack hardly ever take each other's place for good. An entry is written and read
 * word by word, by any thread; `key` is the instruction's tag mixed with the other words, so that
 * an entry of two writers is none.
 */
#ifndef RP_UNWIND_LEARNT_H
#define RP_UNWIND_LEARNT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"

#define RP_LEARNT_BITS 10u
#define RP_LEARNT_WAYS 4u

enum rp_plain_kind {
	RP_PLAIN_NONE,		/* no rules: follow the frame pointer */
	RP_PLAIN_PLAIN,
	RP_PLAIN_SIGNAL,	/* the kernel's frame of a signal */
	RP_PLAIN_END,		/* the outermost function */
	RP_PLAIN_HARD,		/* find the rules each time */
};

/* The usual rules, small. Slots are words from the frame's address; 0: the register is kept. */
struct rp_plain {
	int32_t frame_offset;
	uint8_t frame_register;
	uint8_t kind;
	int16_t return_slot;
	int16_t rbx_slot, rbp_slot;
	int16_t r_slots[4];		/* r12 to r15 */
	uint32_t spare;
};

struct rp_learnt {
	uint64_t key;
	uint64_t words[3];
};

_Static_assert(sizeof(struct rp_plain) == sizeof(((struct rp_learnt *)0)->words),
	       "a row fills an entry");

extern struct rp_learnt rp_learnt[1u << RP_LEARNT_BITS][RP_LEARNT_WAYS];

static inline struct rp_learnt *rp_learnt_set(uint64_t tag)
{
	return rp_learnt[(tag * 0x9e3779b97f4a7c15ull) >> (64 - RP_LEARNT_BITS)];
}

static inline uint64_t rp_learnt_mix(uint64_t tag, const uint64_t words[3])
{
	return tag ^ words[0] ^ (words[1] << 21 | words[1] >> 43) ^
	       (words[2] << 42 | words[2] >> 22);
}

/* Whether the entry is the tag's, with what it says. */
static inline bool rp_learnt_read(const struct rp_learnt *entry, uint64_t tag,
				  uint64_t ret_words[3])
{
	uint64_t key = rp_load_relaxed(&entry->key);

	for (int i = 0; i < 3; i++)
		ret_words[i] = rp_load_relaxed(&entry->words[i]);
	return key != 0 && key == rp_learnt_mix(tag, ret_words);
}

/* Context of both: any, signal handlers included. */
static inline bool rp_learnt_get(uint64_t tag, struct rp_plain *ret_plain)
{
	const struct rp_learnt *set = rp_learnt_set(tag);
	uint64_t words[3];

	for (unsigned int way = 0; way < RP_LEARNT_WAYS; way++) {
		if (rp_learnt_read(&set[way], tag, words)) {
			memcpy(ret_plain, words, sizeof(words));
			return true;
		}
	}
	return false;
}

void rp_learnt_put(uint64_t tag, const struct rp_plain *plain);

#endif
