/* SPDX-License-Identifier: MIT */
/*
 * The common case of rp_unwind_callers(): all rules are cached, and each frame's address depends
 * only on the stack pointer or the frame pointer. The walk restores no other register.
 */
#ifndef RP_UNWIND_FAST_WALK_H
#define RP_UNWIND_FAST_WALK_H

#include "unwind/cache.h"
#include "unwind/unwind.h"

#define RP_RECENT_RULES (16u << 10)	/* of 64 threads, with 4 KB of stack each */

extern struct rp_unwind_cache rp_recent_rules[RP_RECENT_RULES];

/* The registers of a frame that the walk knows. */
struct rp_fast_frame {
	uint64_t instruction, stack, pointer;
};

enum rp_fast_step {
	RP_FAST_NEXT,
	RP_FAST_LAST,
	RP_FAST_IMPOSSIBLE,
};

/* Read a word of the stack. Return: false outside the window. */
__attribute__((no_sanitize("address", "thread")))
static inline bool
rp_fast_load(const struct rp_window *window, uint64_t address, uint64_t *ret_word)
{
	if (address % 8 != 0 || address < window->low || address >= window->high)
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	return true;
}

/* Enter the caller, whose stack pointer is `stack`. Its address is in the word at `from`. */
static inline enum rp_fast_step
rp_fast_enter(const struct rp_window *window, struct rp_fast_frame *at, uint64_t stack,
	      uint64_t from, uint64_t pointer)
{
	if (stack <= at->stack || !rp_fast_load(window, from, &at->instruction))
		return RP_FAST_IMPOSSIBLE;
	at->stack = stack;
	at->pointer = pointer;
	return at->instruction ? RP_FAST_NEXT : RP_FAST_LAST;
}

/*
 * The members of struct rp_plain, from the words of an entry. Shifts keep the words in registers,
 * whereas a copy to the struct costs a store and a load for each frame.
 */
#define RP_FAST_BITS(member) \
	((int64_t)(words[offsetof(struct rp_plain, member) / 8] << \
		   (64 - offsetof(struct rp_plain, member) % 8 * 8 - \
		    sizeof(((struct rp_plain *)0)->member) * 8)) >> \
	 (64 - sizeof(((struct rp_plain *)0)->member) * 8))

static inline enum rp_fast_step
rp_fast_step_plain(const struct rp_window *window, struct rp_fast_frame *at,
		   const uint64_t words[3])
{
	const int64_t base = RP_FAST_BITS(frame_register), slot = RP_FAST_BITS(rbp_slot);
	uint64_t stack = (uint64_t)RP_FAST_BITS(frame_offset), pointer = at->pointer;

	if (base == RP_REG_RSP)
		stack += at->stack;
	else if (base == RP_REG_RBP)
		stack += at->pointer;
	else
		return RP_FAST_IMPOSSIBLE;
	if (slot && !rp_fast_load(window, stack + (uint64_t)(slot * 8), &pointer))
		return RP_FAST_IMPOSSIBLE;
	return rp_fast_enter(window, at, stack, stack + (uint64_t)(RP_FAST_BITS(return_slot) * 8),
			     pointer);
}

static inline enum rp_fast_step
rp_fast_step_realigned(const struct rp_window *window, struct rp_fast_frame *at,
		       const uint64_t words[3])
{
	const int64_t slot = RP_FAST_BITS(rbp_slot);
	uint64_t stack, pointer = at->pointer;

	if (RP_FAST_BITS(frame_register) != RP_REG_RBP ||
	    !rp_fast_load(window, at->pointer + (uint64_t)RP_FAST_BITS(frame_offset), &stack) ||
	    (slot && !rp_fast_load(window, at->pointer + RP_REALIGNED_BASE + (uint64_t)(slot * 8),
				   &pointer)))
		return RP_FAST_IMPOSSIBLE;
	return rp_fast_enter(window, at, stack, stack + (uint64_t)(RP_FAST_BITS(return_slot) * 8),
			     pointer);
}

/* Code without rules, for example of a compiler at run time, may have a frame pointer. */
static inline enum rp_fast_step
rp_fast_step_frame_pointer(const struct rp_window *window, struct rp_fast_frame *at)
{
	uint64_t pointer;

	if (!rp_fast_load(window, at->pointer, &pointer))
		return RP_FAST_IMPOSSIBLE;
	return rp_fast_enter(window, at, at->pointer + 16, at->pointer + 8, pointer);
}

/*
 * The rules of recent frames, by the frame's stack pointer. The functions at the outer end of a
 * stack rarely change, so the entry usually has the rule that the frame needs. The processor
 * predicts that, and continues with the next frame before it has read the return address.
 */
static inline bool
rp_fast_find_rule(const struct rp_fast_frame *at, uint64_t tag, uint64_t ret_words[3])
{
	struct rp_unwind_cache *recent = &rp_recent_rules[at->stack / 16 % RP_RECENT_RULES];

	if (__builtin_expect(rp_unwind_cache_read(recent, tag, ret_words), 1))
		return true;
	if (!rp_unwind_cache_words(tag, ret_words))
		return false;
	rp_unwind_cache_write(recent, tag, ret_words);
	return true;
}

static inline enum rp_fast_step
rp_fast_step(const struct rp_window *window, uint32_t generation, struct rp_fast_frame *at)
{
	const uint64_t tag = rp_unwind_cache_tag(at->instruction - 1, generation);
	uint64_t words[3];
	int64_t kind;

	if (!rp_fast_find_rule(at, tag, words))
		return RP_FAST_IMPOSSIBLE;
	kind = RP_FAST_BITS(kind);
	if (__builtin_expect(kind == RP_PLAIN_PLAIN, 1))
		return rp_fast_step_plain(window, at, words);
	if (kind == RP_PLAIN_END)
		return RP_FAST_LAST;
	if (kind == RP_PLAIN_REALIGNED)
		return rp_fast_step_realigned(window, at, words);
	return kind == RP_PLAIN_NONE ? rp_fast_step_frame_pointer(window, at) : RP_FAST_IMPOSSIBLE;
}

/*
 * As rp_unwind_callers(). `window` is the part of the thread's stack that begins with the frame.
 * `generation` is that of the loaded objects.
 *
 * Return: the number of addresses; 0: the walk needs more than the common case, and the caller must
 * repeat it with all registers.
 */
static inline unsigned int
rp_fast_walk(struct rp_window window, uint32_t generation, uint64_t *ret_frames, unsigned int max)
{
	struct rp_fast_frame at = { .pointer = window.low };
	enum rp_fast_step next = rp_fast_step_frame_pointer(&window, &at);
	unsigned int count = 0;

	while (next == RP_FAST_NEXT && count < max) {
		ret_frames[count++] = at.instruction;
		next = rp_fast_step(&window, generation, &at);
	}
	return next == RP_FAST_IMPOSSIBLE && count < max ? 0 : count;
}

#endif
