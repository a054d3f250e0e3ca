/* SPDX-License-Identifier: MIT */
/*
 * The unwind rules of one instruction, from .eh_frame: how to compute the address of the function's
 * frame, and where in that frame the caller's registers are saved.
 *
 * Source: the DWARF 4 standard, 6.4; "Exception Frames" in the Linux Standard Base, core, 10.6.
 */
#ifndef RP_UNWIND_CFI_H
#define RP_UNWIND_CFI_H

#include "unwind/loaded_objects.h"
#include "unwind/unwind.h"

enum rp_cfi_kind {
	RP_CFI_SAME = 0,	/* the callee did not change the register */
	RP_CFI_UNDEFINED,
	RP_CFI_AT,		/* saved at (frame's address + value) */
	RP_CFI_IS,		/* equals (frame's address + value) */
	RP_CFI_REGISTER,	/* in register `value` */
	RP_CFI_AT_EXPRESSION,	/* saved where the expression at `value` computes */
	RP_CFI_IS_EXPRESSION,
};

struct rp_cfi_rule {
	int32_t value;			/* expressions: distance from the object's .eh_frame_hdr */
	uint8_t kind;
};

struct rp_cfi_row {
	struct rp_cfi_rule rules[RP_REG_COUNT];
	int32_t frame_offset;		/* the frame's address is frame_register + this */
	uint8_t frame_register;
	bool frame_is_expression;	/* … or the result of the expression at frame_offset */
	bool is_signal;			/* the kernel's signal frame */
	uint64_t start, end;		/* of the function */
};

/*
 * Find the rules that apply at `address`, in the text `object`. Return: false if there are none, or
 * if they cannot be read.
 */
bool rp_cfi_find(const struct rp_object_text *object, uint64_t address,
		 struct rp_cfi_row *ret_row);

/*
 * Evaluate the expression at `place`. If `push` is not NULL, the evaluation starts with that value,
 * the frame's address, on its stack; NULL is for the expression that computes this address. `read`
 * reads a word of the program's memory.
 */
bool rp_cfi_evaluate(const struct rp_object_text *object, int32_t place,
		     const struct rp_registers *registers, const uint64_t *push,
		     bool (*read)(const void *data, uint64_t address, uint64_t *ret_word),
		     const void *data, uint64_t *ret_value);

/*
 * Find the register and the offset of an expression that is their sum and, if `is_read`, the word
 * at that address. Return: false for all other expressions.
 */
bool rp_cfi_is_sum(const struct rp_object_text *object, int32_t place, bool is_read,
		   uint8_t *ret_register, int32_t *ret_offset);

#endif
