/* SPDX-License-Identifier: MIT */
#ifndef RP_CORE_LISTING_H
#define RP_CORE_LISTING_H

#include "core/sink.h"

/*
 * Call `row` for each event that is registered. It runs with the core's lock held: it may allocate,
 * and calls nothing of the library. Return: 0, or the first other return of `row`.
 */
int rp_core_list_events(int (*row)(const struct rp_event_def *def, void *data), void *data);

#endif
