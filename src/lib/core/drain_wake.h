/* SPDX-License-Identifier: MIT */
/* Wakes the drain thread, from any thread; and what the drain thread says of itself. */
#ifndef RP_CORE_DRAIN_WAKE_H
#define RP_CORE_DRAIN_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#define RP_COARSE_NS 1000000u	/* how far the coarse clock moves at a time */

void rp_drain_wake(void);		/* any thread, signal handlers included */
void rp_drain_wake_if_asleep(void);	/* the writers' cheaper form */

/* Whether the caller is the drain thread, which must not wait for itself. */
bool rp_drain_is_self(void);

void rp_drain_move_coarse(void);	/* now and then, while a session is stamped by it */

/* On the drain thread: it is this one; sessions of this pass have coarse times. */
void rp_drain_set_self(void);
void rp_drain_set_coarse(bool any);

/*
 * On the drain thread: sleeps for `ns`, or, if that is 0, until it is woken. Calls `rings_fill`
 * after `asleep` is visible to writers, and does not sleep if that returns true or there is work.
 */
void rp_drain_sleep(uint64_t ns, bool (*rings_fill)(const void *data), const void *data);

void rp_drain_wake_forget(void);	/* in a forked child */

#endif
