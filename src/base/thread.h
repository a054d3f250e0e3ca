/* SPDX-License-Identifier: MIT */
/*
 * What the write path must know of its thread without a system call, an allocation or a TLS block
 * of ours: glibc keeps the thread id and the stack's bounds in its own thread descriptor.
 */
#ifndef RP_BASE_THREAD_H
#define RP_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offset of the thread id in the descriptor, or 0 when it is not known. Set by rp_thread_init(). */
extern uint32_t rp_thread_id_offset __attribute__((visibility("hidden")));

/*
 * Offset of {stack base, stack size} in the descriptor, or 0. Set by the first rp_thread_create();
 * until then events carry no stacks.
 */
extern uint32_t rp_thread_stack_offset;

/* Whether the library made this thread. */
extern __thread bool rp_thread_is_ours __attribute__((tls_model("initial-exec")));

/* Finds the thread id. Called once, before any event is written. */
void rp_thread_init(void);

/*
 * Makes a detached-or-joinable thread with every signal masked, a stack of its own of 256 KB
 * besides the host's thread-local memory, and a name of up to 15 characters.
 */
int rp_thread_create(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data);

/*
 * Makes a thread that comes to an end: every signal masked, the stack one of the host's usual size
 * that goes with it.
 */
int rp_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data);

/*
 * What a public function that may block begins with: no thread is cancelled in it, which would
 * leave locks held, and the host's callbacks below it are not cancelled either.
 *
 *	RP_UNTIL_RETURN int cancel = rp_thread_hold();
 */
#define RP_UNTIL_RETURN __attribute__((cleanup(rp_thread_let_go), unused))

static inline int rp_thread_hold(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void rp_thread_let_go(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* gettid(2), once per thread, where the descriptor's offset is not known. */
uint32_t rp_thread_id_slow(void);

/*
 * The calling thread's kernel id. Context: any, signal handlers included; right in a forked child.
 */
static inline uint32_t rp_thread_id(void)
{
#if defined(__x86_64__)
	/* On x86-64 the thread pointer is the descriptor. */
	if (__builtin_expect(rp_thread_id_offset != 0, 1))
		return *(const volatile uint32_t *)((const char *)__builtin_thread_pointer() +
						    rp_thread_id_offset);
#endif
	return rp_thread_id_slow();
}

/*
 * The bounds of the calling thread's stack; the lower one of the main thread is a guess that may
 * lie below what is mapped. Context: any, signal handlers included. False: not known.
 */
bool rp_thread_stack_bounds(uint64_t *ret_low, uint64_t *ret_high);

/*
 * Walks frame pointers from `frame` up, within the calling thread's stack: reads nothing outside
 * it, whatever the frame pointers are. `ret_frames` gets up to `max` return addresses, innermost
 * first.
 * Return: how many; 0 on an alternate signal stack or one the thread descriptor does not know.
 */
unsigned int rp_thread_stack(const void *frame, uint64_t *ret_frames, unsigned int max);

#endif
