/* SPDX-License-Identifier: MIT */
/* Adds the frames of the host's own functions to a native stack (ringpipe/host.h). */
#ifndef RP_UNWIND_HOST_FRAMES_H
#define RP_UNWIND_HOST_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/host.h>

/* A native stack, innermost first, and space for RP_STACK_MAX frames. */
struct rp_native_stack {
	uint64_t *frames;
	unsigned int count;
	/* frames[0] is the current instruction; otherwise it is a return address too */
	bool has_instruction;
};

/*
 * Call the host's `walk` for the calling thread and put its frames into the stack.
 * @signal_context: the argument of the signal handler in RP_HOST_WALK_SIGNAL; else NULL.
 *
 * Context: any, signal handlers included.
 * Return: 0; -EAGAIN: the host requested a safe point, and the stack is unchanged.
 */
int rp_host_frames_add(enum rp_host_walk_context context, const void *signal_context,
		       struct rp_native_stack *stack);

/*
 * Walk the stack of another thread, which the host has stopped. `ret_frames` has space for
 * RP_STACK_MAX. Return: the number of frames.
 */
unsigned int rp_host_frames_of(uint32_t thread, uint64_t *ret_frames);

/*
 * Put the frames that a host returned into a native stack. Frames beyond RP_STACK_MAX are dropped.
 * Return: the number of frames in `ret_frames`, which has space for RP_STACK_MAX.
 */
unsigned int rp_host_frames_mix(const struct rp_host *host, const struct rp_native_stack *native,
				const uint64_t *frames, unsigned int count, uint64_t *ret_frames);

#endif
