/* SPDX-License-Identifier: MIT */
#include "unwind/fast_walk.h"

#include "unwind/cache.h"

/* The registers of a frame that the walk knows. */
struct fast_frame {
	uint64_t instruction, stack, pointer;
};

enum fast_step {
	FAST_NEXT,
	FAST_LAST,
	FAST_IMPOSSIBLE,
};

/* Read a word of the stack. Return: false outside the window. */
__attribute__((no_sanitize("address", "thread")))
static inline bool load(const struct rp_window *window, uint64_t address, uint64_t *ret_word)
{
	if (address % 8 != 0 || address < window->low || address >= window->high)
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	return true;
}

/* Enter the caller, whose stack pointer is `stack`. Its address is in the word at `from`. */
static inline enum fast_step
enter(const struct rp_window *window, struct fast_frame *at, uint64_t stack, uint64_t from,
      uint64_t pointer)
{
	if (stack <= at->stack || !load(window, from, &at->instruction))
		return FAST_IMPOSSIBLE;
	at->stack = stack;
	at->pointer = pointer;
	return at->instruction ? FAST_NEXT : FAST_LAST;
}

/*
 * The members of struct rp_plain, from the words of an entry. Shifts keep the words in registers,
 * whereas a copy to the struct costs a store and a load for each frame.
 */
#define FAST_BITS(member) \
	((int64_t)(words[offsetof(struct rp_plain, member) / 8] << \
		   (64 - offsetof(struct rp_plain, member) % 8 * 8 - \
		    sizeof(((struct rp_plain *)0)->member) * 8)) >> \
	 (64 - sizeof(((struct rp_plain *)0)->member) * 8))

static inline enum fast_step
step_plain(const struct rp_window *window, struct fast_frame *at, const uint64_t words[3])
{
	const int64_t base = FAST_BITS(frame_register), slot = FAST_BITS(rbp_slot);
	uint64_t stack = (uint64_t)FAST_BITS(frame_offset), pointer = at->pointer;

	if (base == RP_REG_RSP)
		stack += at->stack;
	else if (base == RP_REG_RBP)
		stack += at->pointer;
	else
		return FAST_IMPOSSIBLE;
	if (slot && !load(window, stack + (uint64_t)(slot * 8), &pointer))
		return FAST_IMPOSSIBLE;
	return enter(window, at, stack, stack + (uint64_t)(FAST_BITS(return_slot) * 8), pointer);
}

/* Code without rules, for example of a compiler at run time, may have a frame pointer. */
static inline enum fast_step
step_frame_pointer(const struct rp_window *window, struct fast_frame *at)
{
	uint64_t pointer;

	return load(window, at->pointer, &pointer) ?
	       enter(window, at, at->pointer + 16, at->pointer + 8, pointer) : FAST_IMPOSSIBLE;
}

static inline enum fast_step
step(const struct rp_window *window, uint32_t generation, struct fast_frame *at)
{
	uint64_t words[3];
	int64_t kind;

	if (!rp_unwind_cache_words(rp_unwind_cache_tag(at->instruction - 1, generation), words))
		return FAST_IMPOSSIBLE;
	kind = FAST_BITS(kind);
	if (__builtin_expect(kind == RP_PLAIN_PLAIN, 1))
		return step_plain(window, at, words);
	if (kind == RP_PLAIN_END)
		return FAST_LAST;
	return kind == RP_PLAIN_NONE ? step_frame_pointer(window, at) : FAST_IMPOSSIBLE;
}

unsigned int rp_fast_walk(const void *frame, const struct rp_window *window, uint32_t generation,
			  uint64_t *ret_frames, unsigned int max)
{
	struct fast_frame at = { .pointer = (uint64_t)(uintptr_t)frame };
	enum fast_step next = step_frame_pointer(window, &at);
	unsigned int count = 0;

	while (next == FAST_NEXT && count < max) {
		ret_frames[count++] = at.instruction;
		next = step(window, generation, &at);
	}
	return next == FAST_IMPOSSIBLE && count < max ? 0 : count;
}
