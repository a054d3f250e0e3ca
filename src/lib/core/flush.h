/* SPDX-License-Identifier: MIT */
/* Callers that wait until their events are in the output. */
#ifndef RP_CORE_FLUSH_H
#define RP_CORE_FLUSH_H

#include <stdint.h>

/* Publish a pass that delivered all earlier events. On the drain thread. */
void rp_flush_publish(uint64_t begun_ticks);

#endif
