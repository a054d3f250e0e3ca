/* SPDX-License-Identifier: MIT */
/* Polls the kernel's counts of tracers, because the kernel does not announce a tracer. */
#ifndef RP_EXPORT_TRACERS_H
#define RP_EXPORT_TRACERS_H

#include <stdint.h>

/* As rp_tracers_watch(). */
int rp_tracers_start(uint32_t interval_ms);

#endif
