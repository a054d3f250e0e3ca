/* SPDX-License-Identifier: MIT */
/*
 * The ways that an event, a counter or a loss can take through the library, each with its name, and
 * what exact.c needs of the process that takes them.
 */
#ifndef BENCH_EXACT_H
#define BENCH_EXACT_H

#include <stdbool.h>
#include <stdint.h>

struct exact_way {
	const char *name;
	void (*run)(void);
	void (*begin)(void);		/* before all of it, or NULL */
	void (*end)(void);
	bool writes;			/* into the session that is waited for */
	bool first;			/* by a thread that has done nothing of the kind yet */
	bool many;			/* stepped through for longer */
	bool once;			/* begins with what allocates */
};

extern const struct exact_way exact_ways[];
extern const unsigned int exact_way_count;

void exact_ways_init(void);
void exact_write_stack(void);
/* So many events of a kind: "text", "turns", "activity"; any other is 32 bytes. */
void exact_write_kind(const char *kind, unsigned int count);

/* All sessions and what else the ways need; then the drain thread is held in a write(2). */
void exact_start(void);
void exact_stop(void);

/*
 * The drain thread stands still in its next write(2) until it is let go: so the clock of coarse
 * times stands too, and what is written meanwhile is one pass of its own.
 */
void exact_hold(void);
void exact_await_held(void);
void exact_let_go(void);

/* Until the session that most ways write into has got rid of so many events. */
void exact_settle(uint64_t written);

/* Allocations, and what the library maps, since it was said that they count. */
enum exact_thread { EXACT_WRITER, EXACT_OTHERS, EXACT_THREADS };
void exact_count_allocations(enum exact_thread thread, bool counts);
unsigned int exact_allocations(enum exact_thread thread);

/* To a file, all in one pass of the drain thread; `watch` is called before and after that. */
void exact_pass(const char *path, unsigned int count, void (*watch)(void));
/* The same for events of a kind; times are coarse, so each is a step later than the one before. */
int exact_write_file(const char *path, const char *kind, unsigned int count);

#endif
