/* SPDX-License-Identifier: MIT */
/*
 * Stacks of a language runtime for samples of the machine. The machine's sampler sees only the
 * interpreter's machine code. The sampler in the process also sees the runtime's own functions, for
 * example those of Lua. So a sample of the machine gets the stack of the latest sample that the
 * process took of the same thread, if that stack has functions of a runtime.
 *
 * Both samplers measure the CPU time of the thread, independently of each other. The shares of
 * functions are therefore right, although a single sample may be of a slightly later time than its
 * stack.
 */
#ifndef RP_TOOL_HOST_STACKS_H
#define RP_TOOL_HOST_STACKS_H

#include <ringpipe/reader.h>

#include "base/chains.h"
#include "tools/trace/trace_symbols.h"

/* Initialise it with zeros. */
struct rp_host_stacks {
	struct rp_chains threads;	/* of struct rp_host_stack */
	void *frames;			/* of the latest stack that was put together */
	size_t capacity;
};

/*
 * Keep the stack of a sample of the process, or forget that of its thread if it has no function of
 * a runtime.
 * @process: the id of the thread's process.
 * Return: 0; -ENOMEM.
 */
int rp_host_stacks_keep(struct rp_host_stacks *stacks, const struct rp_symbols *symbols,
			const struct rp_reader_event *event, uint64_t process,
			uint32_t pointer_bytes);

/*
 * Give a sample of the machine the stack that was kept, below the functions of the kernel that the
 * sample has. A sample in the kernel keeps its own stack unless the program entered the kernel at
 * the innermost address of the kept one.
 * @event: the sample; the function changes its stack, which is valid until the next call.
 * Return: 0, also if there is no stack to give; -ENOMEM.
 */
int rp_host_stacks_give(struct rp_host_stacks *stacks, struct rp_reader_event *event,
			uint32_t pointer_bytes);

void rp_host_stacks_fini(struct rp_host_stacks *stacks);

#endif
