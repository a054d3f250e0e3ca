/* SPDX-License-Identifier: MIT */
/*
 * Calls of libc that fail on request. This file is linked into a program, so its functions take
 * precedence over libc's, for all libraries too.
 */
#ifndef PROCESS_INJECTING_H
#define PROCESS_INJECTING_H

#include <stdbool.h>

/* Kinds of calls, and their errors. `memory` is malloc(3) and similar functions. */
#define INJECT_KINDS(X) \
	X(memory, ENOMEM) X(mmap, ENOMEM) X(mremap, ENOMEM) X(mprotect, ENOMEM) \
	X(madvise, EINVAL) X(pthread_create, EAGAIN) X(open, EMFILE) X(read, EIO) X(write, EIO) \
	X(fstat, EIO) X(ftruncate, EIO) X(lseek, EIO) X(fcntl, EINVAL) X(memfd_create, ENFILE) \
	X(epoll_create1, EMFILE) X(epoll_ctl, ENOSPC) X(epoll_wait, EINTR) X(poll, ENOMEM) \
	X(socket, EMFILE) X(socketpair, EMFILE) X(bind, EACCES) X(listen, EADDRINUSE) \
	X(accept4, EMFILE) X(connect, EAGAIN) X(getsockopt, ENOBUFS) X(send, ENOBUFS) \
	X(recv, ECONNRESET) X(fchmod, EPERM) X(timer_create, EAGAIN) \
	X(membarrier, EPERM)

enum inject_kind {
#define X(name, error) INJECT_##name,
	INJECT_KINDS(X)
#undef X
	INJECT_KIND_COUNT,
};

/* AddressSanitizer ends a process in which a new thread cannot allocate memory. */
#if defined(__SANITIZE_ADDRESS__)
#define INJECT_THREADS_NEED_MEMORY true
#else
#define INJECT_THREADS_NEED_MEMORY false
#endif

const char *inject_name(enum inject_kind kind);
int inject_error(enum inject_kind kind);

/*
 * Let the nth next call of this kind fail, once; the first call is 1. The call may be on any
 * thread; with `on_thread`, on any thread except the main one.
 */
void inject_arm(enum inject_kind kind, unsigned int nth, bool on_thread);

/* Disarm the failure. Return: whether a call failed. */
bool inject_disarm(void);

#endif
