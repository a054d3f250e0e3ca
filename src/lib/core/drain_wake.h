/* SPDX-License-Identifier: MIT */
/*
 * Functions by which other threads wake the drain thread, and the drain thread publishes its state.
 */
#ifndef RP_CORE_DRAIN_WAKE_H
#define RP_CORE_DRAIN_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#define RP_COARSE_NS 1000000u	/* step of the coarse clock */

void rp_drain_wake(void);		/* any thread, signal handlers included */
void rp_drain_wake_if_asleep(void);	/* the cheaper form for writers */

/* Whether the caller is the drain thread, which must not wait for itself. */
bool rp_drain_is_self(void);

void rp_drain_move_coarse(void);	/* advance the coarse clock, if a session uses it */

/*
 * On the drain thread: set the calling thread as the drain thread; set whether sessions of this
 * pass use coarse times.
 */
void rp_drain_set_self(void);
void rp_drain_set_coarse(bool any);

/*
 * On the drain thread: sleep for `ns` nanoseconds, or until a wake-up if `ns` is 0. The function
 * calls `rings_fill` after `asleep` is visible to writers. It does not sleep if `rings_fill`
 * returns true or there is work.
 */
void rp_drain_sleep(uint64_t ns, bool (*rings_fill)(const void *data), const void *data);

void rp_drain_wake_forget(void);	/* in a forked child */

#endif
