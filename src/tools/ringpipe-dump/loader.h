/* SPDX-License-Identifier: MIT */
/* The dynamic loader's data for debuggers, so that a small dump still lists its libraries. */
#ifndef RP_DUMP_LOADER_H
#define RP_DUMP_LOADER_H

#include <stdint.h>
#include <sys/types.h>

typedef void (*rp_dump_loader_found)(uint64_t address, uint64_t bytes, void *data);

/*
 * Follows the auxiliary vector to the program's dynamic section, from there to the list of loaded
 * objects, and reports where their descriptions and names lie: `found` is called up to
 * RP_DUMP_LOADER_MAX times. A program without a loader has none.
 */
#define RP_DUMP_LOADER_MAX 4096u
void rp_dump_loader_find(pid_t pid, rp_dump_loader_found found, void *data);

#endif
