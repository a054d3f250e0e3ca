/* SPDX-License-Identifier: MIT */
/*
 * How a program serves diagnostics clients, and where its start-up waits for a tool. By default,
 * the loader waits for the tool while it loads the library, and a thread of ringpipe serves
 * clients, so the program needs no change.
 */
#ifndef RINGPIPE_DIAGNOSTICS_H
#define RINGPIPE_DIAGNOSTICS_H

#include <stdint.h>

#include <ringpipe/types.h>

/* A suspended start-up waits in rp_diagnostics_wait(), not while the library is loaded. */
#define RP_DIAGNOSTICS_WAIT 0x1u
/*
 * The program serves clients with rp_diagnostics_fd() and rp_diagnostics_dispatch(); the library
 * has no thread for them.
 */
#define RP_DIAGNOSTICS_POLL 0x2u
/*
 * The library creates the thread that serves clients when the first client connects. Until then the
 * program polls rp_diagnostics_fd(), and it calls rp_diagnostics_dispatch() once. A process has no
 * port until it calls rp_diagnostics_fd(). A server can therefore open ports in its workers after
 * setuid(2), and none in the process that forks them. libc's locks and file functions cost
 * less while a process has a single thread. RP_DIAGNOSTICS_POLL has precedence.
 */
#define RP_DIAGNOSTICS_ON_DEMAND 0x4u

/*
 * Set flags, RP_DIAGNOSTICS_WAIT and others. The library reads them once, when it is loaded. Use
 * the macro once, at file scope, in a program that is linked with the library, or in a shared
 * library whose dlopen(3) also loads the library. If the library is already loaded, the flags have
 * no effect. (In a language without C macros, define the variable rp_diagnostics_flags.)
 *
 *	RP_DIAGNOSTICS(RP_DIAGNOSTICS_WAIT | RP_DIAGNOSTICS_POLL);
 */
#define RP_DIAGNOSTICS(flags) RP_PUBLIC const uint32_t rp_diagnostics_flags = (flags)

RP_BEGIN_DECLS

extern RP_PUBLIC const uint32_t rp_diagnostics_flags;

/*
 * Wait until every diagnostic port that suspends the program's start-up was resumed. If no port
 * suspends it, the function returns immediately. With RP_DIAGNOSTICS_POLL, the function serves
 * clients while it waits.
 *
 * Context: any thread, not a callback of ringpipe. Signal handlers run during the wait and do not
 * end it.
 */
RP_PUBLIC void rp_diagnostics_wait(void);

/*
 * Return the file descriptor by which a program waits for clients. A program with
 * RP_DIAGNOSTICS_POLL or RP_DIAGNOSTICS_ON_DEMAND polls it for input. When it is readable, call
 * rp_diagnostics_dispatch(). The library owns the descriptor. With RP_DIAGNOSTICS_POLL, call this
 * function before each poll, because the descriptor changes if the program closes descriptors that
 * it did not open. It also changes in a forked child, which has no port until it calls this
 * function or rp_diagnostics_dispatch(). If another thread serves clients, the call waits for it.
 *
 * With RP_DIAGNOSTICS_ON_DEMAND, one call in each process is enough if the process closes no such
 * descriptor. Stop polling the descriptor after the dispatch, and before dlclose(3) of the library.
 *
 * Context: any thread, not a signal handler.
 * Return: the descriptor; -ENOTSUP if the library did not find one of these flags when it was
 * loaded; -EALREADY if the thread of RP_DIAGNOSTICS_ON_DEMAND exists, either because of an earlier
 * dispatch or rp_prepare(), or because the environment has a port that needs it: one that connects
 * to a tool, one at a path of its own, or one that suspends the start-up; -ENOTCONN if diagnostics
 * are turned off, or no port or epoll set could be opened; -EDEADLK if a callback that a dispatch
 * runs calls it.
 */
RP_PUBLIC int rp_diagnostics_fd(void);

/*
 * Serve the clients without waiting for them: accept connections, answer requests, start and stop
 * sessions. The stream of a session needs no dispatch, because the drain thread writes it.
 *
 * With RP_DIAGNOSTICS_ON_DEMAND, the function instead creates the thread that serves the clients
 * from then on. It does nothing if the thread exists. The process keeps the thread, and a forked
 * child has none.
 *
 * Context: any thread, not a signal handler; allocates. If another thread is in this function, the
 * call waits for it.
 * Return: 0; -ENOTSUP and -ENOTCONN as rp_diagnostics_fd(); -EDEADLK if called by a callback that a
 * dispatch runs; or the error of pthread_create(3), after which a call may retry.
 */
RP_PUBLIC int rp_diagnostics_dispatch(void);

RP_END_DECLS

#endif
