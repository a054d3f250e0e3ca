/* SPDX-License-Identifier: MIT */
/* An ELF core file, made from notes and memory. */
#ifndef RP_DUMP_CORE_FILE_H
#define RP_DUMP_CORE_FILE_H

#include <stdint.h>

#include "tools/ringpipe-dump/notes.h"
#include "tools/ringpipe-dump/plan.h"

/* Reports how much memory was read so far. Return: 0 to continue; else the error to end with. */
typedef int (*rp_dump_progress)(uint64_t done_bytes, void *data);

/*
 * Copies the planned memory of a stopped process to its offsets in the file. Pages that cannot be
 * read, such as those after the end of a mapped file, stay zero.
 *
 * Return: 0; -ENOMEM; -errno of opening the memory or of writing; the result of `progress`.
 */
int rp_dump_core_write_memory(int fd, pid_t pid, const struct rp_dump_plan *plan,
			      const struct rp_dump_notes *notes, rp_dump_progress progress,
			      void *data);

/* Writes the headers and notes, which precede the memory. Return: 0; -ENOMEM; -errno of writing. */
int rp_dump_core_write_headers(int fd, const struct rp_dump_plan *plan,
			       const struct rp_dump_notes *notes, uint64_t *ret_file_bytes);

#endif
