/* SPDX-License-Identifier: MIT */
#include "tools/analysis/host_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "tools/trace/stack_frame.h"

/* A stack is too old after this time. The thread has slept, or its runtime takes no samples. */
#define AGE_MAX_NS 100000000

struct rp_host_stack {
	struct rp_chain_node node;
	uint64_t thread;
	int64_t time_ns;
	uint32_t frame_count;		/* 0: the thread runs no function of a runtime */
	void *frames;			/* as the trace has them */
	size_t capacity;
};

/*
 * Whether the file of a mapping is the name of a runtime's module, such as "[lua]". The other names
 * in brackets are the kernel's, and that of generated machine code, which the machine's samples
 * have too.
 */
static bool is_module(const char *file)
{
	static const char *const others[] = {
		"[code]", "[vdso]", "[vsyscall]", "[heap]", "[stack]", "[uprobes]",
	};

	if (!file || *file != '[' || !strncmp(file, "[anon", 5))
		return false;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!strcmp(file, others[i]))
			return false;
	}
	return true;
}

static bool has_module(const struct rp_symbols *symbols, const struct rp_reader_event *event,
		       uint64_t process, uint32_t pointer_bytes)
{
	struct rp_symbol symbol;

	for (uint32_t i = 0; i < event->frame_count; i++) {
		rp_symbols_resolve(symbols, process, event->time_ns,
				   rp_stack_frame(event, pointer_bytes, i), &symbol);
		if (is_module(symbol.file))
			return true;
	}
	return false;
}

static struct rp_host_stack *find(struct rp_host_stacks *stacks, uint64_t thread, uint64_t hash)
{
	struct rp_host_stack *stack;

	cds_hlist_for_each_entry_2(stack, rp_chains_at(&stacks->threads, hash), node.node) {
		if (stack->thread == thread)
			return stack;
	}
	return NULL;
}

static uint64_t hash_of(uint64_t thread)
{
	return rp_hash_bytes(RP_HASH_BEGIN, &thread, sizeof(thread));
}

/* Return: the stack of a thread, a new one if necessary; NULL: no memory. */
static struct rp_host_stack *stack_of(struct rp_host_stacks *stacks, uint64_t thread)
{
	const uint64_t hash = hash_of(thread);
	struct rp_host_stack *stack = find(stacks, thread, hash);

	if (stack)
		return stack;
	stack = calloc(1, sizeof(*stack));
	if (!stack)
		return NULL;
	stack->thread = thread;
	rp_chains_add(&stacks->threads, &stack->node, hash);
	return stack;
}

int rp_host_stacks_keep(struct rp_host_stacks *stacks, const struct rp_symbols *symbols,
			const struct rp_reader_event *event, uint64_t process,
			uint32_t pointer_bytes)
{
	const bool is_wanted = has_module(symbols, event, process, pointer_bytes);
	struct rp_host_stack *stack = is_wanted ? stack_of(stacks, event->thread) :
				      find(stacks, event->thread, hash_of(event->thread));
	void *frames;

	if (!is_wanted) {
		if (stack)
			stack->frame_count = 0;
		return 0;
	}
	if (!stack)
		return -ENOMEM;
	frames = rp_array_reserve(stack->frames, 0, &stack->capacity, event->frame_count,
				  pointer_bytes);
	if (!frames)
		return -ENOMEM;
	memcpy(frames, event->frames, (size_t)event->frame_count * pointer_bytes);
	stack->frames = frames;
	stack->frame_count = event->frame_count;
	stack->time_ns = event->time_ns;
	return 0;
}

int rp_host_stacks_give(struct rp_host_stacks *stacks, struct rp_reader_event *event,
			uint32_t pointer_bytes)
{
	const struct rp_host_stack *stack = find(stacks, event->thread, hash_of(event->thread));
	uint32_t kernel = 0;
	uint8_t *frames;
	int64_t age_ns;

	if (!stack || !stack->frame_count ||
	    __builtin_sub_overflow(event->time_ns, stack->time_ns, &age_ns) || age_ns > AGE_MAX_NS)
		return 0;
	while (kernel < event->frame_count &&
	       rp_stack_frame(event, pointer_bytes, kernel) >= RP_KERNEL_START)
		kernel++;
	if (kernel && (kernel == event->frame_count ||
		       memcmp((const char *)event->frames + (size_t)kernel * pointer_bytes,
			      stack->frames, pointer_bytes) != 0))
		return 0;
	frames = rp_array_reserve(stacks->frames, 0, &stacks->capacity,
				  (size_t)kernel + stack->frame_count, pointer_bytes);
	if (!frames)
		return -ENOMEM;
	stacks->frames = frames;
	/* A sample without a stack has no frames to copy. */
	if (kernel)
		memcpy(frames, event->frames, (size_t)kernel * pointer_bytes);
	memcpy(frames + (size_t)kernel * pointer_bytes, stack->frames,
	       (size_t)stack->frame_count * pointer_bytes);
	event->frames = frames;
	event->frame_count = kernel + stack->frame_count;
	return 0;
}

static void free_chain(struct cds_hlist_head *chain)
{
	struct rp_host_stack *stack, *next;

	cds_hlist_for_each_entry_safe_2(stack, next, chain, node.node) {
		free(stack->frames);
		free(stack);
	}
}

void rp_host_stacks_fini(struct rp_host_stacks *stacks)
{
	const size_t chains = stacks->threads.grown ? stacks->threads.capacity :
			      RP_CHAINS_AT_FIRST;

	for (size_t i = 0; i < chains; i++)
		free_chain(stacks->threads.grown ? &stacks->threads.grown[i] :
			   &stacks->threads.first[i]);
	free(stacks->threads.grown);
	free(stacks->frames);
}
