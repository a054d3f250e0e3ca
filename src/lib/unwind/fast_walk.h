/* SPDX-License-Identifier: MIT */
/*
 * The common case of rp_unwind_callers(): all rules are cached, and each frame's address depends
 * only on the stack pointer or the frame pointer. The walk restores no other register.
 */
#ifndef RP_UNWIND_FAST_WALK_H
#define RP_UNWIND_FAST_WALK_H

#include "unwind/unwind.h"

/*
 * As rp_unwind_callers(). `window` is the thread's stack, from its stack pointer up, and
 * `generation` is that of the loaded objects.
 *
 * Return: the number of addresses; 0: the walk needs more than the common case, and the caller must
 * repeat it with all registers.
 */
unsigned int rp_fast_walk(const void *frame, const struct rp_window *window, uint32_t generation,
			  uint64_t *ret_frames, unsigned int max);

#endif
