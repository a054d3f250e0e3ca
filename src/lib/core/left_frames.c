/* SPDX-License-Identifier: MIT */
/*
 * The kernel reports the stack pointer of a sleeping thread. If it is further out than a frame, the
 * thread has left the frame, except in one case: a signal handler may have interrupted the frame
 * and may run on another stack, such as an alternate stack in an array of an outer function. The
 * frames in use then contain the interrupted stack pointer, which the handler's return restores.
 * (A handler that switches to a fiber further out in the same mapping, without a guard page between
 * their stacks, stores that pointer on the inner stack, where it is not found.)
 */
#include "core/left_frames.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process_memory.h"

#define SYSCALL_BYTES 256u
#define PART_WORDS 256u
#define STACK_BYTES_MAX (8u << 20)
/* A handler may itself be interrupted, so the frame may be this far from that stack pointer. */
#define HANDLERS_BYTES (32u << 10)

/* The file contains "running", or: the call, its arguments, the stack pointer, the instruction. */
static bool read_sleep(uint32_t thread, char *text, size_t size)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%u/syscall", (unsigned int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, size - 1);
	close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return true;
}

/* Return the stack pointer; 0: the thread runs. */
static uint64_t stack_pointer(const char *text)
{
	const char *at = strrchr(text, ' ');

	if (!at)
		return 0;
	while (at > text && *--at != ' ')
		;
	return strtoull(at, NULL, 16);
}

/* Return the address of a member of the thread's descriptor, which its libc gave the kernel. */
static uint64_t robust_list(uint32_t thread)
{
	uint64_t head = 0;
	size_t size;

	return syscall(SYS_get_robust_list, thread, &head, &size) == 0 ? head : 0;
}

/*
 * Return the outer end of the stack with the frame: the thread's descriptor, or what the kernel
 * placed on the stack of the process.
 */
static uint64_t stack_end(uint32_t thread, uint64_t frame)
{
	uint64_t self = (uint64_t)(uintptr_t)pthread_self(), own = robust_list(0);
	uint64_t descriptor = robust_list(thread) - (own - self);

	return own && frame < descriptor ? descriptor : getauxval(AT_RANDOM);
}

/* Whether the stack is one, and its frames from the stack pointer on refer to nothing inside. */
static bool nothing_returns(uint64_t frame, uint64_t pointer, uint64_t end)
{
	uint64_t words[PART_WORDS];

	for (uint64_t at = frame; at < end; at += sizeof(words)) {
		size_t size = end - at < sizeof(words) ? end - at : sizeof(words);

		if (!rp_process_memory_read(getpid(), at, words, size))
			return false;
		for (size_t i = 0; i < size / sizeof(words[0]); i++) {
			if (at + i * sizeof(words[0]) >= pointer &&
			    frame - words[i] < HANDLERS_BYTES)
				return false;
		}
	}
	return true;
}

bool rp_frame_is_left(uint32_t thread, uint64_t frame)
{
	char before[SYSCALL_BYTES], after[SYSCALL_BYTES];
	uint64_t pointer, end;

	if (!read_sleep(thread, before, sizeof(before)))
		return false;
	pointer = stack_pointer(before);
	if (pointer <= frame)
		return false;
	end = stack_end(thread, frame);
	return pointer < end && end - frame <= STACK_BYTES_MAX &&
	       nothing_returns(frame, pointer, end) &&
	       read_sleep(thread, after, sizeof(after)) && strcmp(before, after) == 0;
}
