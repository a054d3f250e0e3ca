/* SPDX-License-Identifier: MIT */
/*
 * Steps from a frame to its caller. A function of type rp_read_word reads the words of the stack:
 * unwind.c supplies one for this process, and ringpipe-record one for copies of stacks.
 *
 * Each function changes `registers` to those of the caller, or returns false if the stack ends or
 * is broken. They are inline so that reading a word costs no call.
 */
#ifndef RP_UNWIND_STEPS_H
#define RP_UNWIND_STEPS_H

#include "unwind/cache.h"
#include "unwind/cfi.h"

/* Return: whether the word at `address` could be read. */
typedef bool (*rp_read_word)(const void *data, uint64_t address, uint64_t *ret_word);

static inline bool rp_step_is_known(const struct rp_registers *registers, unsigned int reg)
{
	return reg < RP_REG_COUNT && (registers->known & 1u << reg) != 0;
}

static inline void rp_step_set(struct rp_registers *registers, unsigned int reg, uint64_t value)
{
	registers->value[reg] = value;
	registers->known |= 1u << reg;
}

/* The callee-saved registers. The caller's values of all other registers are unknown. */
#define RP_KEPT_REGISTERS ((1u << RP_REG_RBX) | (1u << RP_REG_RBP) | (0xfu << RP_REG_R12))

/* A caller's frame is at a higher address. Any other result is a loop or a broken stack. */
static inline bool rp_step_is_further_out(const struct rp_registers *registers, uint64_t frame)
{
	return frame > registers->value[RP_REG_RSP];
}

/* Enter the caller, whose stack pointer is `frame` and whose next instruction is `from`. */
static inline bool rp_step_enter(struct rp_registers *registers, uint64_t frame, uint64_t from)
{
	registers->known &= RP_KEPT_REGISTERS;
	rp_step_set(registers, RP_REG_RSP, frame);
	rp_step_set(registers, RP_REG_RIP, from);
	return from != 0;
}

/* Restore the registers that the callee saved at distances from `base`. */
static inline __attribute__((always_inline))
void rp_step_restore(struct rp_registers *registers, const struct rp_plain *plain, uint64_t base,
		     rp_read_word read, const void *data)
{
	const int16_t slots[6] = { plain->rbx_slot, plain->rbp_slot, plain->r_slots[0],
				   plain->r_slots[1], plain->r_slots[2], plain->r_slots[3] };
	static const uint8_t kept[6] = { RP_REG_RBX, RP_REG_RBP, RP_REG_R12, RP_REG_R12 + 1,
					 RP_REG_R12 + 2, RP_REG_R15 };
	uint64_t value;

	for (int i = 0; i < 6; i++) {
		if (slots[i] == 0)
			continue;
		registers->known &= ~(1u << kept[i]);
		if (read(data, base + (uint64_t)(slots[i] * 8), &value))
			rp_step_set(registers, kept[i], value);
	}
}

static inline __attribute__((always_inline))
bool rp_step_plain(struct rp_registers *registers, const struct rp_plain *plain, rp_read_word read,
		   const void *data)
{
	uint64_t frame, from;

	if (!rp_step_is_known(registers, plain->frame_register))
		return false;
	frame = registers->value[plain->frame_register] + (uint64_t)(int64_t)plain->frame_offset;
	if (!rp_step_is_further_out(registers, frame) ||
	    !read(data, frame + (uint64_t)(plain->return_slot * 8), &from))
		return false;
	rp_step_restore(registers, plain, frame, read, data);
	return rp_step_enter(registers, frame, from);
}

static inline bool rp_step_realigned(struct rp_registers *registers, const struct rp_plain *plain,
				     rp_read_word read, const void *data)
{
	uint64_t base, frame, from;

	if (!rp_step_is_known(registers, plain->frame_register))
		return false;
	base = registers->value[plain->frame_register];
	if (!read(data, base + (uint64_t)(int64_t)plain->frame_offset, &frame) ||
	    !rp_step_is_further_out(registers, frame) ||
	    !read(data, frame + (uint64_t)(plain->return_slot * 8), &from))
		return false;
	rp_step_restore(registers, plain, base + RP_REALIGNED_BASE, read, data);
	return rp_step_enter(registers, frame, from);
}

static inline bool rp_step_register(const struct rp_registers *registers,
				    const struct rp_object_text *object,
				    const struct rp_cfi_rule *rule, uint64_t frame,
				    rp_read_word read, const void *data, uint64_t *ret_value)
{
	uint64_t place = frame + (uint64_t)(int64_t)rule->value;

	switch (rule->kind) {
	case RP_CFI_IS:
		*ret_value = place;
		return true;
	case RP_CFI_AT:
		return read(data, place, ret_value);
	case RP_CFI_REGISTER:
		if (!rp_step_is_known(registers, (unsigned int)rule->value))
			return false;
		*ret_value = registers->value[rule->value];
		return true;
	case RP_CFI_AT_EXPRESSION:
		return rp_cfi_evaluate(object, rule->value, registers, &frame, read, data,
				       &place) && read(data, place, ret_value);
	case RP_CFI_IS_EXPRESSION:
		return rp_cfi_evaluate(object, rule->value, registers, &frame, read, data,
				       ret_value);
	default:
		return false;
	}
}

static inline bool rp_step_frame(const struct rp_registers *registers,
				 const struct rp_object_text *object,
				 const struct rp_cfi_row *row, rp_read_word read, const void *data,
				 uint64_t *ret_frame)
{
	if (row->frame_is_expression)
		return rp_cfi_evaluate(object, row->frame_offset, registers, NULL, read, data,
				       ret_frame);
	if (!rp_step_is_known(registers, row->frame_register))
		return false;
	*ret_frame = registers->value[row->frame_register] +
		     (uint64_t)(int64_t)row->frame_offset;
	return true;
}

/* Step with rules that struct rp_plain cannot express. */
static inline bool rp_step_by_row(struct rp_registers *registers,
				  const struct rp_object_text *object,
				  const struct rp_cfi_row *row, rp_read_word read,
				  const void *data)
{
	struct rp_registers caller = *registers;
	uint64_t frame, value;

	if (!rp_step_frame(registers, object, row, read, data, &frame))
		return false;
	for (unsigned int reg = 0; reg < RP_REG_COUNT; reg++) {
		if (row->rules[reg].kind == RP_CFI_SAME)
			continue;
		caller.known &= ~(1u << reg);
		if (rp_step_register(registers, object, &row->rules[reg], frame, read, data,
				     &value))
			rp_step_set(&caller, reg, value);
	}
	if (row->rules[RP_REG_RSP].kind == RP_CFI_SAME) {
		if (!rp_step_is_further_out(registers, frame))
			return false;
		rp_step_set(&caller, RP_REG_RSP, frame);
	}
	/*
	 * At the end of longjmp(), the stack pointer is already the caller's, so it may be equal.
	 */
	if (!rp_step_is_known(&caller, RP_REG_RIP) || !rp_step_is_known(&caller, RP_REG_RSP) ||
	    caller.value[RP_REG_RSP] < registers->value[RP_REG_RSP])
		return false;
	*registers = caller;
	return rp_step_enter(registers, caller.value[RP_REG_RSP], caller.value[RP_REG_RIP]);
}

/* Step without tables: the frame pointer points to {caller's frame pointer, return address}. */
static inline bool rp_step_frame_pointer(struct rp_registers *registers, rp_read_word read,
					 const void *data)
{
	uint64_t at = registers->value[RP_REG_RBP], pair[2];

	if (!rp_step_is_known(registers, RP_REG_RBP) || at % 8 != 0 ||
	    !rp_step_is_further_out(registers, at + 16) || !read(data, at, &pair[0]) ||
	    !read(data, at + 8, &pair[1]))
		return false;
	rp_step_set(registers, RP_REG_RBP, pair[0]);
	return rp_step_enter(registers, at + 16, pair[1]);
}

#endif
