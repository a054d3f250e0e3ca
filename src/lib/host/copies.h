/* SPDX-License-Identifier: MIT */
/*
 * The copies of this library in the process: the shared library, and static copies in the program
 * and in its plugins. Each copy has its own sessions and does not see the others' events.
 */
#ifndef RP_HOST_COPIES_H
#define RP_HOST_COPIES_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Make this copy visible to the others, and assign it the next number in their order. Call at
 * loading, and in a forked child, in which the copy keeps its number. Return: the process id.
 */
pid_t rp_copies_enter(void);

/* Return: the number of copies in this process, this one included. Takes the loader's lock. */
uint32_t rp_copies_count(void);

#endif
