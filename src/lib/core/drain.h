/* SPDX-License-Identifier: MIT */
/* The drain thread. */
#ifndef RP_CORE_DRAIN_H
#define RP_CORE_DRAIN_H

int rp_drain_start(void);		/* without the lock; does nothing if the thread runs */
void rp_drain_forget(void);		/* in a forked child */

#endif
