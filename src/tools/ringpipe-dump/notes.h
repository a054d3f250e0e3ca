/* SPDX-License-Identifier: MIT */
/* The PT_NOTE segment of a core: the process, its threads, its files. */
#ifndef RP_DUMP_NOTES_H
#define RP_DUMP_NOTES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/ringpipe-dump/maps.h"
#include "tools/ringpipe-dump/tracee.h"

struct rp_dump_notes {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	int error;
};

/*
 * Name and type of ringpipe's note: debuggers have no note for the names of threads. It contains,
 * for each thread, u32 id and 16 bytes of name, padded with NUL.
 */
#define RP_DUMP_NOTE_NAME "ringpipe"
#define RP_DUMP_NOTE_THREAD_NAMES 0x544eu

/*
 * Writes the notes of Linux's cores, in their order, and ringpipe's note at the end. Return: 0;
 * -ENOMEM.
 */
int rp_dump_notes_make(struct rp_dump_notes *notes, const struct rp_tracee *tracee,
		       const struct rp_dump_maps *maps);

void rp_dump_notes_fini(struct rp_dump_notes *notes);

#endif
