/* SPDX-License-Identifier: MIT */
/*
 * Each thread has one slot for a deferred sample. Only this thread and its signal handlers use the
 * slot, so compiler barriers suffice.
 */
#include "sample/deferred.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/host_table.h"
#include "base/thread.h"
#include "sample/interrupt.h"
#include "unwind/unwind.h"

enum deferred_state {
	DEFERRED_NONE,
	DEFERRED_FULL,
	DEFERRED_TAKEN,		/* rp_host_sample_now() copies the frames */
};

struct deferred {
	uint32_t state;		/* enum deferred_state */
	uint32_t thread;	/* the kernel's id: another thread may have used the slot before */
	uint32_t count;
	uint32_t reserved;
	uint64_t frames[RP_STACK_MAX];
};

/* By the thread's place in the sampler's table. Untouched pages take no memory. */
static struct deferred *slots;

/* The slot of the calling thread, once it has deferred a sample. */
static __thread struct deferred *own_slot __attribute__((tls_model("initial-exec")));

void rp_sample_prepare_deferred(void)
{
	const struct rp_host *host = rp_host_get();
	void *memory;

	if (slots || !host || !host->walk)
		return;
	/* A forked child keeps the memory, to which own_slot may point. */
	memory = mmap(NULL, RP_THREADS_MAX * sizeof(*slots), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory != MAP_FAILED)
		rp_store_release(&slots, memory);
}

static void write_stack(const uint64_t *frames, unsigned int count)
{
	rp_sample_write(rp_thread_id(), RP_SAMPLE_MANAGED, frames, count);
}

void rp_sample_defer(const struct rp_sampled *thread, const struct rp_native_stack *stack)
{
	struct deferred *all = rp_load_acquire(&slots), *slot;

	if (!all) {
		write_stack(stack->frames, stack->count);
		return;
	}
	slot = &all[thread - rp_threads];
	if (slot->thread != rp_thread_id())
		slot->state = DEFERRED_NONE;
	if (slot->state == DEFERRED_TAKEN) {
		write_stack(stack->frames, stack->count);
		return;
	}
	if (slot->state == DEFERRED_FULL)
		write_stack(slot->frames, slot->count);
	memcpy(slot->frames, stack->frames, stack->count * sizeof(slot->frames[0]));
	slot->count = stack->count;
	slot->thread = rp_thread_id();
	own_slot = slot;
	rp_store_relaxed(&slot->state, DEFERRED_FULL);
}

/* Copy the deferred native stack, if the thread has one. */
static bool take_deferred(struct rp_native_stack *stack)
{
	struct deferred *slot = own_slot;

	if (!slot || rp_load_relaxed(&slot->state) != DEFERRED_FULL ||
	    slot->thread != rp_thread_id())
		return false;
	rp_store_relaxed(&slot->state, DEFERRED_TAKEN);
	rp_compiler_barrier();
	memcpy(stack->frames, slot->frames, slot->count * sizeof(slot->frames[0]));
	stack->count = slot->count;
	stack->has_instruction = true;
	rp_compiler_barrier();
	rp_store_relaxed(&slot->state, DEFERRED_NONE);
	return true;
}

RP_PUBLIC int rp_host_sample_now(void)
{
	uint64_t frames[RP_STACK_MAX];
	struct rp_native_stack stack = { .frames = frames };
	int count;

	if (!rp_sample_event || !rp_event_enabled(rp_sample_event)) {
		/* The next session must not get a stack of this one. */
		if (own_slot && own_slot->thread == rp_thread_id())
			rp_store_relaxed(&own_slot->state, DEFERRED_NONE);
		return 0;
	}
	if (!take_deferred(&stack)) {
		count = rp_unwind_callers(__builtin_frame_address(0), frames, RP_STACK_MAX);
		stack.count = count > 0 ? (unsigned int)count : 0;
	}
	(void)rp_host_frames_add(RP_HOST_WALK_SAFE_POINT, NULL, &stack);
	write_stack(frames, stack.count);
	return 1;
}
