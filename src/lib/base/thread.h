/* SPDX-License-Identifier: MIT */
/*
 * The write path needs its thread's id and stack bounds without a system call, an allocation or a
 * TLS block of this library. glibc stores both in its thread descriptor.
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

/*
 * Look up what libc keeps of a thread, and what a thread's stack needs. Creating a thread later
 * asks the loader for nothing, so it does not wait for the loader's lock.
 * Context: once, while the library is loaded.
 */
void rp_thread_init(void);

/*
 * Makes a detached-or-joinable thread with every signal masked, a stack of its own of 256 KB
 * besides the host's thread-local memory, and a name of up to 15 characters.
 */
int rp_thread_create(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data);

/* Whether the library created the thread `id`, and it has not ended. */
bool rp_thread_is_running(uint32_t id);

/*
 * Wait until every thread that the library created runs. A new thread makes system calls of libc's
 * own first (rseq(2), set_robust_list(2)), which a filter of system calls may refuse by then.
 * Context: any thread that holds none of the library's locks; blocks.
 */
void rp_thread_wait_begun(void);

/* Forget the parent's threads, in a forked child. */
void rp_thread_forget_running(void);

/*
 * A thread that is created when the library first needs it, and then stays. `starting` is a lock
 * of its own: pthread_create(3) may wait for the loader's lock, so no lock that a constructor or a
 * fork handler takes may be held around it.
 */
struct rp_thread_once {
	pthread_mutex_t starting;
	bool started;		/* under `starting` */
};

#define RP_THREAD_ONCE_INIT { PTHREAD_MUTEX_INITIALIZER, false }

/*
 * Create the thread, detached, unless an earlier call did; otherwise as rp_thread_create().
 * Context: any thread that holds none of the library's locks.
 * Return: 0; -ENOMEM, or -errno of pthread_create(3): the next call retries.
 */
int rp_thread_create_once(struct rp_thread_once *once, const char *name, void *(*run)(void *),
			  void *data);

/* Forget the parent's thread, in a forked child. Return: whether the parent had it. */
bool rp_thread_once_forget(struct rp_thread_once *once);

/*
 * Makes a thread that comes to an end: every signal masked, the stack one of the host's usual size
 * that goes with it.
 */
int rp_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data);

/*
 * Public functions that may block begin with this. Cancellation inside them would leave locks held,
 * so it is disabled there, and in the host's callbacks that they call.
 *
 *	RP_NO_CANCEL int cancel = rp_cancel_disable();
 */
#define RP_NO_CANCEL __attribute__((cleanup(rp_thread_let_go), unused))

static inline int rp_cancel_disable(void)
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
