/* SPDX-License-Identifier: MIT */
#include "unwind/cache.h"

#include "unwind/cfi.h"
#include "unwind/fast_walk.h"

struct rp_unwind_cache rp_unwind_cache[1u << RP_UNWIND_CACHE_BITS][RP_UNWIND_CACHE_WAYS];
struct rp_unwind_cache rp_recent_rules[RP_RECENT_RULES];

/*
 * The entry to write for `tag`: its own entry, else an empty one, else each entry of the set
 * alternately.
 */
static struct rp_unwind_cache *entry_for(uint64_t tag)
{
	static uint32_t turn;
	struct rp_unwind_cache *set = rp_unwind_cache_set(tag);
	uint64_t words[3];
	uint32_t next;

	for (unsigned int way = 0; way < RP_UNWIND_CACHE_WAYS; way++) {
		if (rp_load_relaxed(&set[way].key) == 0 || rp_unwind_cache_read(&set[way], tag,
										words))
			return &set[way];
	}
	next = rp_load_relaxed(&turn);
	rp_store_relaxed(&turn, next + 1);
	return &set[next % RP_UNWIND_CACHE_WAYS];
}

void rp_unwind_cache_put(uint64_t tag, const struct rp_plain *plain)
{
	uint64_t words[3];

	memcpy(words, plain, sizeof(words));
	rp_unwind_cache_write(entry_for(tag), tag, words);
}

/* Convert a rule to a slot of struct rp_plain. Return: false if a slot cannot express the rule. */
static bool slot_of(const struct rp_cfi_rule *rule, int16_t *ret_slot)
{
	*ret_slot = 0;
	if (rule->kind == RP_CFI_SAME)
		return true;
	if (rule->kind != RP_CFI_AT || rule->value % 8 != 0 || rule->value == 0 ||
	    rule->value / 8 < INT16_MIN || rule->value / 8 > INT16_MAX)
		return false;
	*ret_slot = (int16_t)(rule->value / 8);
	return true;
}

void rp_plain_make(const struct rp_cfi_row *row, struct rp_plain *ret_plain)
{
	const struct rp_cfi_rule *rules = row->rules;
	bool fits = !row->frame_is_expression && rules[RP_REG_RSP].kind == RP_CFI_SAME;

	memset(ret_plain, 0, sizeof(*ret_plain));
	if (row->is_signal) {
		ret_plain->kind = RP_PLAIN_SIGNAL;
		return;
	}
	if (rules[RP_REG_RIP].kind == RP_CFI_UNDEFINED) {
		ret_plain->kind = RP_PLAIN_END;
		return;
	}
	fits = fits && slot_of(&rules[RP_REG_RIP], &ret_plain->return_slot) &&
	       ret_plain->return_slot != 0 &&
	       slot_of(&rules[RP_REG_RBX], &ret_plain->rbx_slot) &&
	       slot_of(&rules[RP_REG_RBP], &ret_plain->rbp_slot);
	for (unsigned int i = 0; i < 4; i++)
		fits = fits && slot_of(&rules[RP_REG_R12 + i], &ret_plain->r_slots[i]);
	ret_plain->frame_register = row->frame_register;
	ret_plain->frame_offset = row->frame_offset;
	ret_plain->kind = fits ? RP_PLAIN_PLAIN : RP_PLAIN_HARD;
}
