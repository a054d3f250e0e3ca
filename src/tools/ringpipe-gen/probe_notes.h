/* SPDX-License-Identifier: MIT */
/*
 * The ELF notes of USDT probes in a file. Each declared event has one, which remains in a stripped
 * file and has the name of the provider in the source code (ringpipe/detail/probe.h).
 */
#ifndef RP_TOOL_PROBE_NOTES_H
#define RP_TOOL_PROBE_NOTES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/ringpipe-gen/elf_image.h"

struct rp_probe_note {
	uint64_t semaphore;		/* its address */
	const char *provider;		/* in the image; an identifier of C */
};

struct rp_probe_notes {
	struct rp_probe_note *list;	/* sorted by semaphore */
	size_t count;
};

/*
 * Read the notes of a file, up to the first damaged one. Return: 0; -ENOMEM. rp_probe_notes_free()
 * is necessary in both cases.
 */
int rp_probe_notes_read(struct rp_probe_notes *notes, const struct rp_elf_image *image);
void rp_probe_notes_free(struct rp_probe_notes *notes);

/* Return: the provider of the probe with this semaphore; NULL if there is none. */
const char *rp_probe_notes_provider(const struct rp_probe_notes *notes, uint64_t semaphore);

#endif
