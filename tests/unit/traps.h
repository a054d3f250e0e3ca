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

struct trap_place {
	uint8_t *at;
	bool aborts;		/* lies in a restartable section */
	char text[72];		/* the instruction, as objdump has it */
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

/*
 * Plants a trap. It is taken out when it is hit, unless it stays; then `then` is called in the
 * handler, unless it is NULL.
 */
void traps_plant(struct trap_place *place, bool stays, void (*then)(void));

/* Takes it out. Return: how often it was hit. */
unsigned int traps_take_out(void);

#endif
