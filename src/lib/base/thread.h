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

/* Offset of the thread id in the descriptor, or 0 if it is unknown. Set by rp_thread_init(). */
extern uint32_t rp_thread_id_offset __attribute__((visibility("hidden")));

/*
 * Offset of {stack base, stack size} in the descriptor, or 0. Set by the first rp_thread_create();
 * until then events carry no stacks.
 */
extern uint32_t rp_thread_stack_offset;

/* Whether the library created this thread. */
extern __thread bool rp_thread_is_ours __attribute__((tls_model("initial-exec")));

/*
 * Find the members of libc's thread descriptor, and the stack size that a thread needs. A later
 * thread creation makes no call to the loader, so it does not wait for the loader's lock.
 * Context: once, while the library is loaded.
 */
void rp_thread_init(void);

/*
 * Create a joinable thread with all signals blocked and a name of up to 15 characters. Its own
 * stack has 256 KB in addition to the program's thread-local storage.
 */
int rp_thread_create(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data);

/* Return: whether the library created the thread `id` and the thread has not ended. */
bool rp_thread_is_running(uint32_t id);

/* Return: whether this process has no thread `id`. */
bool rp_thread_has_ended(uint32_t id);

/* Get the CPU time of a thread of this process. Return: 0 or -errno; -EINVAL: it has ended. */
int rp_thread_cpu_ns(uint32_t id, uint64_t *ret_ns);

/* The clock of a thread's CPU time. */
clockid_t rp_thread_cpu_clock(uint32_t id);

/*
 * Wait until every thread that the library created is running. A new thread first makes system
 * calls of libc (rseq(2), set_robust_list(2)), which a later seccomp filter may refuse.
 * Context: any thread that holds none of the library's locks; blocks.
 */
void rp_thread_wait_begun(void);

/* Forget the parent's threads, in a forked child. */
void rp_thread_forget_running(void);

/*
 * A thread that is created when the library first needs it, and never ends. `starting` is a
 * separate lock: pthread_create(3) may wait for the loader's lock, so a thread must not hold a lock
 * there that a constructor or a fork handler takes.
 */
struct rp_thread_once {
	pthread_mutex_t starting;
	bool started;		/* guarded by `starting` */
};

#define RP_THREAD_ONCE_INIT { PTHREAD_MUTEX_INITIALIZER, false }

/*
 * Create the thread, detached, unless an earlier call has created it; otherwise as
 * rp_thread_create().
 * Context: any thread that holds none of the library's locks.
 * Return: 0; -ENOMEM, or -errno of pthread_create(3): the next call retries.
 */
int rp_thread_create_once(struct rp_thread_once *once, const char *name, void *(*run)(void *),
			  void *data);

/* Forget the parent's thread, in a forked child. Return: whether the parent had it. */
bool rp_thread_once_forget(struct rp_thread_once *once);

/*
 * Create a thread that will end: with all signals blocked and a stack of the default size, which
 * libc frees with the thread.
 */
int rp_thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *data);

/*
 * A public function that may block begins with this line:
 *
 *	RP_NO_CANCEL int cancel = rp_cancel_disable();
 *
 * The line disables thread cancellation until the function returns, also in callbacks of the host
 * that the function calls. A thread that is cancelled inside the function would leave locks held.
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

/* gettid(2), cached per thread; for an unknown offset of the descriptor. */
uint32_t rp_thread_id_slow(void);

/*
 * The calling thread's kernel id. Context: any, signal handlers included; correct in a forked
 * child.
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
 * Get the bounds of the calling thread's stack. For the main thread, the lower bound is an estimate
 * that may be below the mapped part. Context: any, signal handlers included. Return: false if the
 * bounds are unknown.
 */
bool rp_thread_stack_bounds(uint64_t *ret_low, uint64_t *ret_high);

/*
 * Follow frame pointers from `frame` up, within the calling thread's stack. The function reads
 * nothing outside that stack, even if a frame pointer is invalid. `ret_frames` receives up to `max`
 * return addresses, innermost first.
 * Return: the number of addresses; 0 on an alternate signal stack or an unknown stack.
 */
unsigned int rp_thread_stack(const void *frame, uint64_t *ret_frames, unsigned int max);

#endif
