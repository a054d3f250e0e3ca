/* SPDX-License-Identifier: MIT */
/* Walks the stacks of other processes, from registers and a copy of the stack. */
#ifndef RP_RECORD_STACK_WALK_H
#define RP_RECORD_STACK_WALK_H

#include "tools/ringpipe-record/address_space.h"
#include "unwind/unwind.h"

/* Why a walk ended. */
enum rp_walk_end {
	RP_WALK_OUTERMOST,	/* the tables mark the thread's first function */
	RP_WALK_COPY_END,	/* the stack is larger than its copy */
	RP_WALK_NO_RULES,	/* code without tables, and without a frame pointer */
	RP_WALK_FRAMES_MAX,
};

/*
 * Store the addresses of the stack, innermost first: the current instruction, then return
 * addresses. `stack` is a copy of the memory from the stack pointer up.
 *
 * Context: one thread at a time. Return: the number of addresses, at least 1 if `max` is.
 */
unsigned int rp_stack_walk(const struct rp_address_space *space,
			   const struct rp_registers *registers, const void *stack,
			   size_t stack_bytes, uint64_t *ret_frames, unsigned int max,
			   enum rp_walk_end *ret_end);

#endif
