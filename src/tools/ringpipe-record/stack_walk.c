/* SPDX-License-Identifier: MIT */
/*
 * Code of a file is walked by the rules of .eh_frame. A rule is found by the address at which this
 * program has mapped the instruction, so all processes share the cache of rules. Code without a
 * file, as compilers generate at run time, is walked by its frame pointers.
 */
#include "tools/ringpipe-record/stack_walk.h"

#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "tools/ringpipe-record/image.h"
#include "unwind/steps.h"

struct stack_copy {
	uint64_t low;			/* the address of its first byte */
	const uint8_t *bytes;
	size_t size;
	bool was_exceeded;		/* a word above it was needed */
};

static bool read_word(const void *data, uint64_t address, uint64_t *ret_word)
{
	struct stack_copy *copy = (void *)data;
	uint64_t offset = address - copy->low;

	if (address < copy->low)
		return false;
	if (offset > copy->size || copy->size - offset < sizeof(*ret_word)) {
		copy->was_exceeded = true;
		return false;
	}
	memcpy(ret_word, copy->bytes + offset, sizeof(*ret_word));
	return true;
}

/* The stack pointer points to the ucontext that the kernel saved. */
static bool step_signal(struct rp_registers *registers, struct stack_copy *copy)
{
	static const uint8_t place[RP_REG_COUNT] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
		REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
	};
	uint64_t at = registers->value[RP_REG_RSP] + offsetof(ucontext_t, uc_mcontext.gregs);
	struct rp_registers saved = { .known = (1u << RP_REG_COUNT) - 1 };

	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++) {
		if (!read_word(copy, at + place[reg] * 8u, &saved.value[reg]))
			return false;
	}
	*registers = saved;
	return registers->value[RP_REG_RIP] != 0;
}

/* Return: where this program has mapped the instruction; 0: the code has no tables. */
static uint64_t local_address(const struct rp_address_space *space, uint64_t address,
			      const struct rp_object_text **ret_text)
{
	const struct rp_mapped *mapped = rp_address_space_find(space, address);
	const struct rp_image *image = mapped ? mapped->image : NULL;
	uint64_t vaddr;

	if (!image || !image->text.header ||
	    !rp_image_vaddr(image, mapped->file_offset + address - mapped->start, &vaddr))
		return 0;
	*ret_text = &image->text;
	return image->text.start + (vaddr - image->text_vaddr);
}

/* Find the rules for an instruction; those that the cache cannot hold are in `ret_row`. */
static void find_rules(const struct rp_object_text *text, uint64_t local,
		       struct rp_cfi_row *ret_row, struct rp_plain *ret_plain)
{
	if (rp_unwind_cache_get(local, ret_plain) && ret_plain->kind != RP_PLAIN_HARD)
		return;
	memset(ret_plain, 0, sizeof(*ret_plain));
	if (rp_cfi_find(text, local, ret_row))
		rp_plain_make(text, ret_row, ret_plain);
	rp_unwind_cache_put(local, ret_plain);
}

static bool step(const struct rp_address_space *space, struct rp_registers *registers,
		 struct stack_copy *copy, enum rp_plain_kind *ret_kind)
{
	uint64_t address = registers->value[RP_REG_RIP] - (*ret_kind != RP_PLAIN_SIGNAL);
	const struct rp_object_text *text;
	uint64_t local = local_address(space, address, &text);
	struct rp_plain plain = { .kind = RP_PLAIN_NONE };
	struct rp_cfi_row row;

	if (local)
		find_rules(text, local, &row, &plain);
	*ret_kind = plain.kind;
	switch (plain.kind) {
	case RP_PLAIN_PLAIN:
		return rp_step_plain(registers, &plain, read_word, copy);
	case RP_PLAIN_REALIGNED:
		return rp_step_realigned(registers, &plain, read_word, copy);
	case RP_PLAIN_SIGNAL:
		return step_signal(registers, copy);
	case RP_PLAIN_END:
		return false;
	case RP_PLAIN_HARD:
		return rp_step_by_row(registers, text, &row, read_word, copy);
	default:
		return rp_step_frame_pointer(registers, read_word, copy);
	}
}

unsigned int rp_stack_walk(const struct rp_address_space *space,
			   const struct rp_registers *registers, const void *stack,
			   size_t stack_bytes, uint64_t *ret_frames, unsigned int max,
			   enum rp_walk_end *ret_end)
{
	struct stack_copy copy = {
		.low = registers->value[RP_REG_RSP], .bytes = stack, .size = stack_bytes,
	};
	struct rp_registers now = *registers;
	/* The address of the first frame, and of one below a signal's, is no return address. */
	enum rp_plain_kind kind = RP_PLAIN_SIGNAL;
	unsigned int count = 0;

	*ret_end = RP_WALK_FRAMES_MAX;
	while (count < max) {
		ret_frames[count++] = now.value[RP_REG_RIP];
		if (step(space, &now, &copy, &kind))
			continue;
		*ret_end = kind == RP_PLAIN_END ? RP_WALK_OUTERMOST :
			   copy.was_exceeded ? RP_WALK_COPY_END : RP_WALK_NO_RULES;
		break;
	}
	return count;
}
