/* SPDX-License-Identifier: MIT */
/*
 * The ways that an event, a counter or a loss can take through the library, each with its name, and
 * the functions of the process that takes them for exact.c.
 */
#ifndef BENCH_EXACT_H
#define BENCH_EXACT_H

#include <stdbool.h>
#include <stdint.h>

struct exact_way {
	const char *name;
	void (*run)(void);
	void (*begin)(void);		/* called first, or NULL */
	void (*end)(void);
	bool writes;			/* into the session that exact_settle() waits for */
	bool first;			/* run by a thread without earlier events */
	bool many;			/* more events are stepped through */
	bool once;			/* its first call allocates */
};

extern const struct exact_way exact_ways[];
extern const unsigned int exact_way_count;

void exact_ways_init(void);
void exact_write_stack(void);
/* Writes `count` events of a kind: "text", "mixed", "activity"; any other is 32 bytes. */
void exact_write_kind(const char *kind, unsigned int count);

/*
 * Starts all sessions and other prerequisites of the ways; then blocks the drain thread in
 * write(2).
 */
void exact_start(void);
void exact_stop(void);

/*
 * Blocks the drain thread in its next write(2) until it is released. Meanwhile the clock of coarse
 * times does not advance, and all written events belong to one later pass.
 */
void exact_hold(void);
void exact_await_held(void);
void exact_let_go(void);

/* Waits until the session that most ways write into has delivered or lost `written` events. */
void exact_settle(uint64_t written);

/* Counts allocations and the library's mappings, while counting is enabled. */
enum exact_thread { EXACT_WRITER, EXACT_OTHERS, EXACT_THREADS };
void exact_count_allocations(enum exact_thread thread, bool counts);
unsigned int exact_allocations(enum exact_thread thread);

/* To a file, all in one pass of the drain thread; `watch` is called before and after that. */
void exact_pass(const char *path, unsigned int count, void (*watch)(void));
/* The same for events of a kind; times are coarse, so each is a step later than the one before. */
int exact_write_file(const char *path, const char *kind, unsigned int count);

#endif
