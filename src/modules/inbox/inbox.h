/* SPDX-License-Identifier: MIT */
/*
 * libringpipe-inbox defines functions of libc, such as malloc(3). Each wrapper calls the next
 * definition in the loader's search order, which it finds when the function is first called, and
 * writes events with the public API of ringpipe. This header is shared by all files of the folder.
 *
 * Rules for a wrapper:
 *  - While no session wants its events, a wrapper makes one test and jumps to the next definition.
 *  - It may run before any constructor, on a thread of ringpipe, and in a signal handler that
 *    interrupted another wrapper. It calls nothing that allocates, except where a comment says so.
 *  - It holds no lock while it calls the next definition, and it preserves errno.
 */
#ifndef RP_INBOX_H
#define RP_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INBOX_EXPORT __attribute__((visibility("default")))
/* For a function of a few ns: its time does not depend on where the linker puts it. */
#define INBOX_EXPORT_ALIGNED __attribute__((visibility("default"), aligned(64)))
/*
 * The return address of a wrapper, as __builtin_return_address(0). The wrapper reads it from the
 * stack when it needs it, so no register keeps it while the wrapper calls the next definition.
 */
#if defined(__x86_64__)
#define INBOX_CALLER() (((void *volatile *)__builtin_dwarf_cfa())[-1])
#else
#define INBOX_CALLER() __builtin_return_address(0)
#endif
#define INBOX_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* The state of one thread, in thread-local storage that exists before the first constructor. */
struct inbox_thread {
	pid_t id;			/* 0: not read yet */
	bool is_of_engine;		/* a thread of libringpipe: it writes no events */
	bool is_busy;			/* inside a slow path, which must not begin again */
};

extern __thread struct inbox_thread rp_inbox_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Return: the calling thread's kernel id. Context: any. */
pid_t rp_inbox_thread_id(void);

/* Return: CLOCK_MONOTONIC in nanoseconds. Context: any. */
uint64_t rp_inbox_now_ns(void);

/*
 * Find the next definition of a function of libc; if there is none, the process aborts, because no
 * caller could continue.
 * Context: any thread, also before constructors. dlsym(3) takes the loader's lock, so a wrapper
 * calls this function once and stores the result.
 */
void *rp_inbox_next(const char *name);

/*
 * As rp_inbox_next(), for a function whose symbol also has an older version in libc: RTLD_NEXT of
 * glibc before 2.36 returns the oldest version. @version: the newest version. A libc whose symbol
 * has one version only, as on newer processors, may not have @version; its only version is
 * returned then.
 */
void *rp_inbox_next_version(const char *name, const char *version);

/* As rp_inbox_next(). Return: NULL if there is no definition. */
void *rp_inbox_find_next(const char *name);

/*
 * Return: whether `caller`, a return address, is in libringpipe. The functions of libringpipe
 * allocate and lock too, and these calls do not belong to the program.
 * Context: any thread; the first call takes the loader's lock, which is at the latest while this
 * library is loaded.
 */
bool rp_inbox_is_engine(const void *caller);

/*
 * Return: whether the caller is a child of vfork(2). It shares the memory of its parent, so it must
 * not write events or change what the wrappers store.
 */
bool rp_inbox_is_vfork_child(void);

/*
 * As thrd_create(3), with the events of threads.
 * @caller: the return address of the wrapper.
 * Return: 0; or an error of pthread_create(3).
 */
int rp_inbox_create_c11(pthread_t *thread, int (*routine)(void *), void *argument,
			const void *caller);

/* Get ready for the functions above, when the library is loaded. */
void rp_inbox_init(void);

/* Register fork handlers, callbacks and counters of each file, when the library is loaded. */
void rp_inbox_threads_init(void);
void rp_inbox_mutexes_init(void);
void rp_inbox_rwlocks_init(void);
void rp_inbox_conditions_init(void);
void rp_inbox_malloc_init(void);
void rp_inbox_heap_init(void);
void rp_inbox_syslog_init(void);
void rp_inbox_loader_init(void);
void rp_inbox_process_init(void);
void rp_inbox_signals_init(void);

#endif
