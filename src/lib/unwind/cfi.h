/* SPDX-License-Identifier: MIT */
/*
 * The rules of one instruction, out of .eh_frame: where its function's frame is, and where in it
 * the caller's registers are.
 *
 * Source: the DWARF 4 standard, 6.4; "Exception Frames" in the Linux Standard Base, core, 10.6.
 */
#ifndef RP_UNWIND_CFI_H
#define RP_UNWIND_CFI_H

#include "unwind/loaded_objects.h"
#include "unwind/unwind.h"

enum rp_cfi_kind {
	RP_CFI_SAME = 0,	/* not touched */
	RP_CFI_UNDEFINED,
	RP_CFI_AT,		/* saved at the frame's address + value */
	RP_CFI_IS,		/* is the frame's address + value */
	RP_CFI_REGISTER,	/* in register `value` */
	RP_CFI_AT_EXPRESSION,	/* saved where the expression says; value: its place, below */
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
	bool frame_is_expression;	/* … or what the expression at frame_offset says */
	bool is_signal;			/* the kernel called it */
	uint64_t start, end;		/* of the function */
};

/*
 * Finds the rules in force at `address`, in the text `object`. False: there are none, or they
 * cannot be read.
 */
bool rp_cfi_find(const struct rp_object_text *object, uint64_t address,
		 struct rp_cfi_row *ret_row);

/*
 * Evaluates the expression at `place`. `push` is on its stack at the start: the frame's address,
 * or for that itself none (has_push false). `read` gets a word of the program's memory.
 */
bool rp_cfi_evaluate(const struct rp_object_text *object, int32_t place,
		     const struct rp_registers *registers, const uint64_t *push,
		     bool (*read)(const void *data, uint64_t address, uint64_t *ret_word),
		     const void *data, uint64_t *ret_value);

#endif
