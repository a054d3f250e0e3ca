/* SPDX-License-Identifier: MIT */
#include "unwind/host_frames.h"

#include <errno.h>
#include <string.h>

#include "base/host_table.h"
#include "base/thread.h"
#include "unwind/cfi.h"

#define FRAME_MIN 4096u
#define FRAME_MAX (1ull << 47)

/* A walk of this thread for an event: an event that `walk` writes must not walk again. */
static __thread bool is_walking __attribute__((tls_model("initial-exec")));

/* The frames of the host that are not in the stack yet, and the stack that grows. */
struct mix {
	const uint64_t *host_frames;
	unsigned int host_count;
	uint64_t *frames;
	unsigned int count;
};

static void put(struct mix *mix, uint64_t frame)
{
	if (mix->count < RP_STACK_MAX)
		mix->frames[mix->count++] = frame;
}

/* Return: whether a frame of the host can be the address of a function of this process. */
static bool is_valid(uint64_t frame)
{
	return frame >= FRAME_MIN && frame <= FRAME_MAX;
}

static void put_native(struct mix *mix, const uint64_t *frames, unsigned int count)
{
	const unsigned int space = RP_STACK_MAX - mix->count;

	if (count > space)
		count = space;
	memcpy(&mix->frames[mix->count], frames, count * sizeof(*frames));
	mix->count += count;
}

/* Put the frames of one invocation of the interpreter. */
static void put_invocation(struct mix *mix)
{
	while (mix->host_count > 0) {
		uint64_t frame = *mix->host_frames++;

		mix->host_count--;
		if (frame == RP_HOST_FRAME_NATIVE)
			break;
		if (is_valid(frame))
			put(mix, frame);
	}
}

static void put_rest(struct mix *mix)
{
	while (mix->host_count > 0)
		put_invocation(mix);
}

static bool is_interpreter(const struct rp_host *host, uint64_t address)
{
	for (size_t i = 0; i < host->interpreter_count; i++) {
		if (address >= host->interpreters[i].start && address < host->interpreters[i].end)
			return true;
	}
	return false;
}

unsigned int rp_host_frames_mix(const struct rp_host *host, const struct rp_native_stack *native,
				const uint64_t *frames, unsigned int count, uint64_t *ret_frames)
{
	struct mix mix = { frames, count, ret_frames, 0 };

	for (unsigned int i = 0; host->interpreter_count > 0 && i < native->count; i++) {
		bool is_return_address = i > 0 || !native->has_instruction;

		/* Most frames come after the last one of the host. */
		if (mix.host_count == 0) {
			put_native(&mix, &native->frames[i], native->count - i);
			break;
		}
		/* No more interpreters follow. */
		if (native->frames[i] == RP_FRAME_CUT)
			put_rest(&mix);
		if (mix.host_count > 0 &&
		    is_interpreter(host, native->frames[i] - is_return_address))
			put_invocation(&mix);
		else
			put(&mix, native->frames[i]);
	}
	put_rest(&mix);
	return mix.count;
}

static int call_walk(const struct rp_host *host, const struct rp_host_walk *walk,
		     uint64_t *ret_frames)
{
	int saved = errno, count;

	count = host->walk(walk, ret_frames, RP_STACK_MAX, host->data);
	errno = saved;
	return count > (int)RP_STACK_MAX ? -EOVERFLOW : count;
}

int rp_host_frames_add(enum rp_host_walk_context context, const void *signal_context,
		       struct rp_native_stack *stack)
{
	struct rp_host_walk walk = {
		.size = sizeof(walk),
		.context = context,
		.native = stack->frames,
		.native_count = stack->count,
		.signal_context = signal_context,
	};
	uint64_t host_frames[RP_STACK_MAX], mixed[RP_STACK_MAX];
	const struct rp_host *host = rp_host_get();
	bool guards = context == RP_HOST_WALK_EVENT;
	int count;

	if (!host || !host->walk || (guards && is_walking))
		return 0;
	is_walking |= guards;
	walk.thread = rp_thread_id();
	count = rp_host_state() == RP_HOST_RUNNING ? call_walk(host, &walk, host_frames) : 0;
	if (guards)
		is_walking = false;
	if (count <= 0)
		return count == -EAGAIN && context == RP_HOST_WALK_SIGNAL ? count : 0;
	stack->count = rp_host_frames_mix(host, stack, host_frames, (unsigned int)count, mixed);
	memcpy(stack->frames, mixed, stack->count * sizeof(mixed[0]));
	return 0;
}

unsigned int rp_host_frames_of(uint32_t thread, uint64_t *ret_frames)
{
	const struct rp_native_stack none = { NULL, 0, false };
	struct rp_host_walk walk = {
		.size = sizeof(walk), .context = RP_HOST_WALK_STOPPED, .thread = thread,
	};
	const struct rp_host *host = rp_host_running();
	uint64_t host_frames[RP_STACK_MAX];
	int count = host && host->walk ? call_walk(host, &walk, host_frames) : 0;

	return count > 0 ? rp_host_frames_mix(host, &none, host_frames, (unsigned int)count,
					      ret_frames) : 0;
}

RP_PUBLIC int rp_host_find_function(const void *address, struct rp_host_range *ret_range)
{
	RP_NO_CANCEL int cancel = rp_cancel_disable();
	uint64_t instruction = (uint64_t)(uintptr_t)address;
	const struct rp_object_text *object;
	struct rp_objects objects;
	struct rp_cfi_row row;
	int ret = -ENOENT;

	rp_unwind_refresh();
	rp_objects_open(&objects);
	object = rp_objects_find(&objects, instruction);
	if (object && rp_cfi_find(object, instruction, &row)) {
		*ret_range = (struct rp_host_range){ row.start, row.end };
		ret = 0;
	}
	rp_objects_close(&objects);
	return ret;
}
