/* SPDX-License-Identifier: MIT */
/*
 * Keeps the signals of our own writes away from the host.
 *
 * A write into a pipe without a reader raises SIGPIPE, one past RLIMIT_FSIZE raises SIGXFSZ, and
 * both end the process by default. The library's threads block them. On a host's thread each write
 * of the library stands between the two calls below, in a scope without callbacks of the host:
 *
 *	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
 */
#ifndef RP_BASE_SHIELD_H
#define RP_BASE_SHIELD_H

#include <signal.h>

struct rp_shield {
	sigset_t mask;		/* of the thread, before */
	sigset_t pending;	/* before: these stay the host's */
};

#define RP_SHIELDED __attribute__((cleanup(rp_shield_lower), unused))

/* Blocks SIGPIPE and SIGXFSZ in the calling thread. Context: any thread; shields nest. */
struct rp_shield rp_shield_raise(void);

/*
 * Consumes a SIGPIPE and a SIGXFSZ that a write of this thread made pending since
 * rp_shield_raise(), and restores the mask. A signal that was pending before, or that another
 * process sent, is delivered as if nothing had happened. Keeps errno.
 */
void rp_shield_lower(const struct rp_shield *shield);

#endif
