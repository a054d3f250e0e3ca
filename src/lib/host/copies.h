/* SPDX-License-Identifier: MIT */
/*
 * The copies of this library in the process: the shared one, and static ones in the program and in
 * its plugins. Each has sessions of its own, and does not see the others' events.
 */
#ifndef RP_HOST_COPIES_H
#define RP_HOST_COPIES_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Makes this copy known to the others, and gives it the next place in their order. At loading, and
 * in a forked child, where it keeps its place. Return: the process.
 */
pid_t rp_copies_enter(void);

/* How many there are in this process, this one included. Takes the loader's lock. */
uint32_t rp_copies_count(void);

#endif
