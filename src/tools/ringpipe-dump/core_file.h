/* SPDX-License-Identifier: MIT */
/* An ELF core file, put together from notes and memory. */
#ifndef RP_DUMP_CORE_FILE_H
#define RP_DUMP_CORE_FILE_H

#include <stdint.h>

#include "tools/ringpipe-dump/notes.h"
#include "tools/ringpipe-dump/plan.h"

/* Called now and then with the memory read so far. Return: 0 to go on, else what to end with. */
typedef int (*rp_dump_progress)(uint64_t done_bytes, void *data);

/*
 * Copies the planned memory of a stopped process to its places in the file. Pages that cannot be
 * read, as those behind the end of a mapped file, stay zero.
 *
 * Return: 0; -ENOMEM; what opening the memory and writing say; what `progress` said.
 */
int rp_dump_core_write_memory(int fd, pid_t pid, const struct rp_dump_plan *plan,
			      const struct rp_dump_notes *notes, rp_dump_progress progress,
			      void *data);

/* Headers and notes in front of that. Return: 0; -ENOMEM; what writing says. */
int rp_dump_core_write_headers(int fd, const struct rp_dump_plan *plan,
			       const struct rp_dump_notes *notes, uint64_t *ret_file_bytes);

#endif
