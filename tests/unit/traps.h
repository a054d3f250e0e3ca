/* SPDX-License-Identifier: MIT */
/*
 * Traps in the code of this program: at any instruction of it, the signal of a breakpoint comes.
 * In a restartable section that is an abort, since the kernel restarts a section before it calls a
 * handler; elsewhere the handler runs, and the instruction after it.
 */
#ifndef TESTS_TRAPS_H
#define TESTS_TRAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRAP_HITS_MAX 1000u		/* a writer that never gives up is let go */

/* As the kernel has it; the linker gathers them in a section, whose ends it names. */
struct trap_section {
	uint32_t version, flags;
	uint64_t start, commit_offset, abort;
};

extern const struct trap_section __start___rseq_cs[] __attribute__((weak));
extern const struct trap_section __stop___rseq_cs[] __attribute__((weak));

struct trap_place {
	uint8_t *at;
	bool aborts;		/* lies in a restartable section */
	char text[72];		/* the instruction, as objdump has it, or "" */
	uint64_t hits;		/* of all traps planted here */
};

struct trap_places {
	struct trap_place *list;
	size_t count;
};

/*
 * All instructions of the restartable sections that begin in one of the functions, and then those
 * of the functions that lie in no section; NULL ends the list of names.
 * Return: 0; -ENOENT without objdump; -EPERM where no program may change its own code.
 */
int traps_find(const char *const *functions, struct trap_places *ret_places);
void traps_free(struct trap_places *places);

/* Why traps_find() said that. */
const char *traps_explain(int error);

/*
 * Makes places ready for traps, which traps_find() did for those it found. Return: 0; -EPERM where
 * no program may change its own code.
 */
int traps_allow(const struct trap_place *places, size_t count);

/*
 * Plants a trap. It is taken out when it was hit so often, outside of sections when it was hit;
 * each time `then` is called in the handler, unless it is NULL.
 */
void traps_plant(struct trap_place *place, unsigned int most, void (*then)(void));

/* Takes it out. Return: how often it was hit. */
unsigned int traps_take_out(void);

#endif
