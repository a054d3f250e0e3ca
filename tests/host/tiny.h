/* SPDX-License-Identifier: MIT */
/*
 * A host for tests: an interpreter for a "language" whose functions call each other, and call C
 * functions that call the interpreter again.
 */
#ifndef RP_TEST_TINY_H
#define RP_TEST_TINY_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/host.h>

#define TINY_DEPTH_MAX 64

/* Numbers per line of the source. The frame of a line is in the middle of them. */
#define TINY_LINE_SPAN 16u
#define TINY_LINES 100u

enum tiny_function {
	TINY_MAIN,
	TINY_SORT,
	TINY_COMPARE,
	TINY_FUNCTIONS,
};

/* The interpreter's stack of a thread, innermost last. A line of 0 stands for native frames. */
struct tiny_frame {
	uint32_t function;
	uint32_t line;
};

struct tiny_stack {
	volatile uint32_t depth;
	struct tiny_frame frames[TINY_DEPTH_MAX];
};

extern __thread struct tiny_stack tiny_stack;

extern const char *const tiny_names[TINY_FUNCTIONS];

/* Fill the table of the host with all callbacks that the interpreter has. */
void tiny_init(struct rp_host *host);

/* `walk` leaves the samples of signal handlers to the next safe point. */
extern bool tiny_defers;

/* A safe point: wait while the world is stopped, and take a sample that was requested. */
void tiny_safe_point(void);

/* Compute until is_over() returns a value other than 0. Each step is a safe point. */
void tiny_compute(int (*is_over)(void *over_data), void *over_data);

/* Run a function from a line on: `body` is what the line does. */
void tiny_run(enum tiny_function function, uint32_t line, void (*body)(void *), void *data);

/* The frame of a line of a function. */
uint64_t tiny_frame_of(enum tiny_function function, uint32_t line);

#endif
