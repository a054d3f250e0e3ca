/* SPDX-License-Identifier: MIT */
/*
 * Where a program's start waits for a tool, and which thread serves diagnostics clients: by default
 * the loader's and one of ringpipe's own, so that no line of a program has to change.
 */
#ifndef RINGPIPE_DIAGNOSTICS_H
#define RINGPIPE_DIAGNOSTICS_H

#include <stdint.h>

#include <ringpipe/types.h>

/* A suspended start waits in rp_diagnostics_wait(), not while the library is loaded. */
#define RP_DIAGNOSTICS_WAIT 0x1u
/* No thread serves clients: the program does, by rp_diagnostics_fd() and _dispatch(). */
#define RP_DIAGNOSTICS_POLL 0x2u

/*
 * Says so, once in a program that is linked with the library: a definition at file scope, for it
 * must be known before main(). (In a language without C's macros: define rp_diagnostics_flags.)
 *
 *	RP_DIAGNOSTICS(RP_DIAGNOSTICS_WAIT | RP_DIAGNOSTICS_POLL);
 */
#define RP_DIAGNOSTICS(flags) RP_PUBLIC const uint32_t rp_diagnostics_flags = (flags)

RP_BEGIN_DECLS

extern RP_PUBLIC const uint32_t rp_diagnostics_flags;

/*
 * Wait until every diagnostic port that suspends the program's start was resumed; returns at once
 * where none does. With RP_DIAGNOSTICS_POLL it serves the clients meanwhile.
 *
 * Context: any thread but one in a callback of ringpipe. Signal handlers run; it waits on after.
 */
RP_PUBLIC void rp_diagnostics_wait(void);

/*
 * Return the descriptor to poll for input, with RP_DIAGNOSTICS_POLL. When it is readable, call
 * rp_diagnostics_dispatch(). The library owns the descriptor. Call this function before each wait:
 * it returns another descriptor after the program closed descriptors that it did not open. A forked
 * child has another one too, and no port until it calls this function.
 *
 * Context: any thread, not a signal handler.
 * Return: the descriptor; -ENOTSUP: not a program with RP_DIAGNOSTICS_POLL; -ENOTCONN: diagnostics
 * are turned off, or no port could be opened.
 */
RP_PUBLIC int rp_diagnostics_fd(void);

/*
 * Serve the clients, without waiting for them: accept them, answer, start and end sessions. The
 * stream of a session needs no dispatch, because the drain thread writes it.
 *
 * Context: any thread, one at a time (others wait), not a signal handler; allocates.
 * Return: 0; -ENOTSUP and -ENOTCONN as rp_diagnostics_fd(); -EDEADLK: called by a callback of a
 * dispatch.
 */
RP_PUBLIC int rp_diagnostics_dispatch(void);

RP_END_DECLS

#endif
