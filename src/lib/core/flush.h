/* SPDX-License-Identifier: MIT */
/* Callers that wait until what they wrote is in the output. */
#ifndef RP_CORE_FLUSH_H
#define RP_CORE_FLUSH_H

#include <stdint.h>

/* The drain thread, after a pass that got all out of what was written before. */
void rp_flush_publish(uint64_t begun_ticks);

#endif
