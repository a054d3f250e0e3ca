/* SPDX-License-Identifier: MIT */
/* Watching whom the kernel counts: nobody announces a tracer. */
#ifndef RP_EXPORT_TRACERS_H
#define RP_EXPORT_TRACERS_H

#include <stdint.h>

/* As rp_tracers_watch(). */
int rp_tracers_start(uint32_t interval_ms);

#endif
