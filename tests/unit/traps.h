/* SPDX-License-Identifier: MIT */
/*
 * Traps in the code of this program: a breakpoint signal at any instruction. In a restartable
 * section the signal is an abort, since the kernel restarts a section before it calls a handler.
 * Elsewhere the handler runs, then the instruction.
 */
#ifndef TESTS_TRAPS_H
#define TESTS_TRAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRAP_HITS_MAX 1000u		/* the trap is then removed */

/* The kernel's struct; the linker collects these in a section with named ends. */
struct trap_section {
	uint32_t version, flags;
	uint64_t start, commit_offset, abort;
};

extern const struct trap_section __start___rseq_cs[] __attribute__((weak));
extern const struct trap_section __stop___rseq_cs[] __attribute__((weak));

struct trap_place {
	uint8_t *at;
	bool aborts;		/* lies in a restartable section */
	char text[72];		/* the instruction in objdump's form, or "" */
	uint64_t hits;		/* of all traps planted at this place */
};

struct trap_places {
	struct trap_place *list;
	size_t count;
};

/*
 * Find all instructions of the restartable sections that begin in one of the functions, then those
 * of the functions outside any section. NULL ends the list of names. Return: 0; -ENOENT without
 * objdump; -EPERM if the program may not change its own code.
 */
int traps_find(const char *const *functions, struct trap_places *ret_places);
void traps_free(struct trap_places *places);

/* Return: the reason for an error of traps_find(). */
const char *traps_explain(int error);

/*
 * Prepare places for traps; traps_find() does that for the places that it finds. Return: 0; -EPERM
 * if the program may not change its own code.
 */
int traps_allow(const struct trap_place *places, size_t count);

/*
 * Plant a trap. It is removed after `most` hits, or outside of sections after the first. Each hit
 * calls `then` in the handler, unless it is NULL.
 */
void traps_plant(struct trap_place *place, unsigned int most, void (*then)(void));

/* Remove the trap. Return: the number of hits. */
unsigned int traps_take_out(void);

#endif
