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
 * Write the initial samples of a sleeping thread: one with its stack, and an empty one that ends
 * it. The function sends the thread no signal, because a signal would interrupt a system call that
 * cannot be restarted. The function reads the instruction and stack pointers from /proc, and the
 * stack in place.
 *
 * Return: true if both samples were written, or if /proc does not show the pointers, and then none
 * is written; false, with nothing written, if the thread ran meanwhile.
 */
static bool write_sleeper(uint32_t id)
{
	char before[SYSCALL_BYTES], after[SYSCALL_BYTES], *end;
	uint64_t frames[RP_STACK_MAX], stack_pointer, instruction;
	uint32_t frame_count;
	char *at;

	/*
	 * The file contains "running", or: the call, its arguments, the stack pointer, the
	 * instruction.
	 */
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
 * A thread without a timer blocks the signal, as the library's own threads do. Such a thread is
 * sampled only if it is asleep at one of TRIES_MAX attempts.
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
