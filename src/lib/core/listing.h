/* SPDX-License-Identifier: MIT */
#ifndef RP_CORE_LISTING_H
#define RP_CORE_LISTING_H

#include "core/event_def.h"

/*
 * Call `row` for each registered event. The core's lock is held: `row` may allocate memory, but
 * must not call the library. Return: 0, or the first nonzero result of `row`.
 */
int rp_core_list_events(int (*row)(const struct rp_event_def *def, void *data), void *data);

/* Call the watcher: see rp_core_watch(). Without the lock. */
void rp_core_changed(void);

#endif
