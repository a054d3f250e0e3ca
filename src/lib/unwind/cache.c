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

/* Convert a distance in bytes to a slot. Return: false if no slot can express it. */
static bool slot_at(int64_t distance, int16_t *ret_slot)
{
	if (distance % 8 != 0 || distance == 0 || distance / 8 < INT16_MIN ||
	    distance / 8 > INT16_MAX)
		return false;
	*ret_slot = (int16_t)(distance / 8);
	return true;
}

/* As slot_at(), for a rule. The kind of `plain` determines the base of the distance. */
static bool slot_of(const struct rp_object_text *object, const struct rp_plain *plain,
		    const struct rp_cfi_rule *rule, int16_t *ret_slot)
{
	int32_t offset;
	uint8_t reg;

	*ret_slot = 0;
	if (rule->kind == RP_CFI_SAME)
		return true;
	if (plain->kind == RP_PLAIN_PLAIN)
		return rule->kind == RP_CFI_AT && slot_at(rule->value, ret_slot);
	return rule->kind == RP_CFI_AT_EXPRESSION &&
	       rp_cfi_is_sum(object, rule->value, false, &reg, &offset) &&
	       reg == plain->frame_register &&
	       slot_at((int64_t)offset - RP_REALIGNED_BASE, ret_slot);
}

/* Return: whether the frame's address has a compact form. */
static bool make_frame(const struct rp_object_text *object, const struct rp_cfi_row *row,
		       struct rp_plain *ret_plain)
{
	ret_plain->kind = row->frame_is_expression ? RP_PLAIN_REALIGNED : RP_PLAIN_PLAIN;
	ret_plain->frame_register = row->frame_register;
	ret_plain->frame_offset = row->frame_offset;
	return !row->frame_is_expression ||
	       rp_cfi_is_sum(object, row->frame_offset, true, &ret_plain->frame_register,
			     &ret_plain->frame_offset);
}

void rp_plain_make(const struct rp_object_text *object, const struct rp_cfi_row *row,
		   struct rp_plain *ret_plain)
{
	const struct rp_cfi_rule *rules = row->rules;
	bool fits;

	memset(ret_plain, 0, sizeof(*ret_plain));
	if (row->is_signal) {
		ret_plain->kind = RP_PLAIN_SIGNAL;
		return;
	}
	if (rules[RP_REG_RIP].kind == RP_CFI_UNDEFINED) {
		ret_plain->kind = RP_PLAIN_END;
		return;
	}
	fits = make_frame(object, row, ret_plain) && rules[RP_REG_RSP].kind == RP_CFI_SAME &&
	       rules[RP_REG_RIP].kind == RP_CFI_AT &&
	       slot_at(rules[RP_REG_RIP].value, &ret_plain->return_slot) &&
	       slot_of(object, ret_plain, &rules[RP_REG_RBX], &ret_plain->rbx_slot) &&
	       slot_of(object, ret_plain, &rules[RP_REG_RBP], &ret_plain->rbp_slot);
	for (unsigned int i = 0; i < 4; i++)
		fits = fits && slot_of(object, ret_plain, &rules[RP_REG_R12 + i],
				       &ret_plain->r_slots[i]);
	if (!fits)
		ret_plain->kind = RP_PLAIN_HARD;
}
