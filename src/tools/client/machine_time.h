/* SPDX-License-Identifier: MIT */
/*
 * The clocks of the machine. The kernel's records of perf_events and BPF programs have times of
 * these clocks, which are not those of this process if it runs in a time namespace.
 */
#ifndef RP_TOOL_MACHINE_TIME_H
#define RP_TOOL_MACHINE_TIME_H

#include <stdint.h>
#include <time.h>

/* Read a clock of the machine, as clock_gettime(2) reads a clock of this process. */
int rp_machine_time_get(clockid_t clock, struct timespec *ret_time);

/* Return: CLOCK_MONOTONIC of the machine. */
uint64_t rp_machine_time_ns(void);

#endif
