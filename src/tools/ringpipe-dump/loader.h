/* SPDX-License-Identifier: MIT */
/* Finds the dynamic loader's data for debuggers, so that a small dump still lists its libraries. */
#ifndef RP_DUMP_LOADER_H
#define RP_DUMP_LOADER_H

#include <stdint.h>
#include <sys/types.h>

typedef void (*rp_dump_loader_found)(uint64_t address, uint64_t bytes, void *data);

/*
 * Follow the auxiliary vector to the program's dynamic section, and from there the list of loaded
 * objects. Calls `found` with the address of each description and name, up to RP_DUMP_LOADER_MAX
 * times. A program without a loader has none.
 */
#define RP_DUMP_LOADER_MAX 4096u
void rp_dump_loader_find(pid_t pid, rp_dump_loader_found found, void *data);

#endif
