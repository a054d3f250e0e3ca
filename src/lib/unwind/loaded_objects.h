/* SPDX-License-Identifier: MIT */
/*
 * Which object an instruction lies in, and what else of this process's memory may be looked at.
 */
#ifndef RP_UNWIND_LOADED_OBJECTS_H
#define RP_UNWIND_LOADED_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_object_text {
	uint64_t start, end;		/* instructions */
	uint64_t header;		/* of .eh_frame_hdr */
	uint64_t header_end;
};

/* The objects as of the last refresh, held still from open to close. */
struct rp_objects {
	const struct rp_object_text *texts;	/* by address */
	uint32_t count;
	uint32_t generation;			/* another one whenever they changed */
	uint32_t slot;
};

/* Context of both: any, signal handlers included. */
void rp_objects_open(struct rp_objects *ret_objects);
void rp_objects_close(const struct rp_objects *objects);

/* That of the current ones, without holding them. Context: any. */
uint32_t rp_objects_generation(void);

/* NULL: in none. */
const struct rp_object_text *rp_objects_find(const struct rp_objects *objects, uint64_t address);

/*
 * Copies memory that may not be there. Whether all of it could be copied. Context: any; changes
 * errno.
 */
bool rp_memory_peek(uint64_t address, void *ret_bytes, size_t size);

#endif
