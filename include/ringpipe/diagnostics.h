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
 * Sets these flags. Write it once, at file scope, in a program that is linked with the library,
 * which must know the flags before main(). (In a language without C's macros, define the variable
 * rp_diagnostics_flags.)
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
 * Return the file descriptor that a program with RP_DIAGNOSTICS_POLL polls for input. When it is
 * readable, call rp_diagnostics_dispatch(). The library owns the descriptor. Call this function
 * before each poll, because the descriptor changes if the program closes descriptors that it did
 * not open. It also changes in a forked child, which has no port until it calls this function or
 * rp_diagnostics_dispatch(). If another thread serves clients, the call waits for it.
 *
 * Context: any thread, not a signal handler.
 * Return: the descriptor; -ENOTSUP if the program does not have RP_DIAGNOSTICS_POLL; -ENOTCONN if
 * diagnostics are turned off, or no port or epoll set could be opened; -EDEADLK if a callback that
 * a dispatch runs calls it.
 */
RP_PUBLIC int rp_diagnostics_fd(void);

/*
 * Serve the clients without waiting for them: accept connections, answer requests, start and stop
 * sessions. The stream of a session needs no dispatch, because the drain thread writes it.
 *
 * Context: any thread, not a signal handler; allocates. If another thread is in this function, the
 * call waits for it.
 * Return: 0; -ENOTSUP and -ENOTCONN as rp_diagnostics_fd(); -EDEADLK if called by a callback that a
 * dispatch runs.
 */
RP_PUBLIC int rp_diagnostics_dispatch(void);

RP_END_DECLS

#endif
