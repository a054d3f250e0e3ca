/* SPDX-License-Identifier: MIT */
#include "sample/beginning.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/thread.h"
#include "sample/interrupt.h"
#include "sample/threads.h"

#define SYSCALL_BYTES 256u
#define TRIES_MAX 20u

void rp_beginning_mark(void)
{
	uint32_t self = rp_thread_id();

	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];

		thread->beginning = thread->id == self ? RP_BEGUN : RP_OWES_STACK;
		thread->samples_before = rp_load_relaxed(&thread->samples);
		thread->tries = 0;
	}
}

/*
 * Where a thread sleeps, without waking it: a signal would cut short what cannot be taken up again.
 * The kernel reports instruction and stack pointer; the stack is read as it is. The thread has to
 * sleep through all of this. Where the kernel reports nothing, there is no sample.
 * Return: false when the thread runs.
 */
static bool write_sleeper(uint32_t id)
{
	char before[SYSCALL_BYTES], after[SYSCALL_BYTES], *end;
	uint64_t frames[RP_STACK_MAX], stack_pointer, instruction;
	uint32_t frame_count;
	char *at;

	/* "running", or the call, its arguments, the stack pointer and the instruction. */
	if (rp_thread_file(id, "syscall", before, sizeof(before)) < 0)
		return true;
	at = strrchr(before, ' ');
	if (!at)
		return false;
	instruction = strtoull(at, &end, 16);
	while (at > before && *--at != ' ')
		;
	stack_pointer = strtoull(at, &end, 16);
	frame_count = rp_unwind_sleeper(stack_pointer, instruction, frames, RP_STACK_MAX);
	if (rp_thread_file(id, "syscall", after, sizeof(after)) < 0 || strcmp(before, after) != 0)
		return false;
	rp_sample_write(id, RP_SAMPLE_EXTERNAL, frames, frame_count);
	rp_sample_write(id, RP_SAMPLE_EXTERNAL, NULL, 0);
	return true;
}

/*
 * A thread without a timer blocks all signals, as the library's own do: it is seen when it sleeps,
 * or not at all.
 */
static enum rp_beginning write_first(struct rp_sampled *thread, uint32_t samples)
{
	if (thread->samples_before != samples)
		return RP_OWES_END;
	if (!write_sleeper(thread->id) &&
	    (thread->has_timer || ++thread->tries < TRIES_MAX))
		return RP_OWES_STACK;
	return RP_BEGUN;
}

void rp_beginning_write(void)
{
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];
		uint32_t samples = rp_load_relaxed(&thread->samples);

		if (thread->beginning == RP_OWES_STACK)
			thread->beginning = write_first(thread, samples);
		else if (thread->samples_before != samples)
			thread->beginning = RP_BEGUN;
		thread->samples_before = samples;
	}
}

bool rp_beginning_is_over(void)
{
	for (uint32_t i = 0; i < rp_threads_count; i++) {
		struct rp_sampled *thread = &rp_threads[rp_threads_used[i]];

		if (thread->beginning == RP_OWES_END && !rp_load_relaxed(&thread->awake))
			thread->beginning = RP_BEGUN;
		if (thread->beginning != RP_BEGUN)
			return false;
	}
	return true;
}
