/* SPDX-License-Identifier: MIT */
/* The contract between bench/component.c and its component. */
#ifndef BENCH_COMPONENT_BENCH_H
#define BENCH_COMPONENT_BENCH_H

#include <ringpipe/component.h>

struct bench_events {
	uint32_t size;
	uint32_t reserved;
	void (*bytes32)(void *data, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
};

/* Exported as "bench_functions". Each writes an event `count` times. */
struct bench_functions {
	void (*known)(unsigned int count);
	void (*off)(unsigned int count);	/* of a provider that is off */
	void (*dynamic)(unsigned int count);
};

#endif
