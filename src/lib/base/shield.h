/* SPDX-License-Identifier: MIT */
/*
 * Hides signals that the library's own writes raise from the host.
 *
 * A write into a pipe without a reader raises SIGPIPE, and a write past RLIMIT_FSIZE raises
 * SIGXFSZ. Both end the process by default. The library's threads block both signals. On a thread
 * of the host, each write of the library is between the two calls below, in a scope without
 * callbacks of the host:
 *
 *	RP_SHIELDED struct rp_shield shield = rp_shield_raise();
 */
#ifndef RP_BASE_SHIELD_H
#define RP_BASE_SHIELD_H

#include <signal.h>

struct rp_shield {
	sigset_t mask;		/* the thread's mask before */
	sigset_t pending;	/* pending before: not ours to consume */
};

#define RP_SHIELDED __attribute__((cleanup(rp_shield_lower), unused))

/* Block SIGPIPE and SIGXFSZ in the calling thread. Context: any thread; shields nest. */
struct rp_shield rp_shield_raise(void);

/*
 * Consume a SIGPIPE and a SIGXFSZ that a write of this thread made pending since rp_shield_raise(),
 * and restore the mask. A signal that was pending before, or that another process sent, is
 * delivered normally. errno is unchanged.
 */
void rp_shield_lower(const struct rp_shield *shield);

#endif
