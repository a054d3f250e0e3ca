/* SPDX-License-Identifier: MIT */
/* Finds the object that contains an instruction, and reads memory of this process safely. */
#ifndef RP_UNWIND_LOADED_OBJECTS_H
#define RP_UNWIND_LOADED_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rp_object_text {
	uint64_t start, end;		/* range of the instructions */
	uint64_t header;		/* address of .eh_frame_hdr */
	uint64_t header_end;
};

/* The objects as of the last refresh. The list does not change between open and close. */
struct rp_objects {
	const struct rp_object_text *texts;	/* sorted by address */
	uint32_t count;
	uint32_t generation;			/* changes with each new list */
	uint32_t slot;
};

/* Context of both functions: any, signal handlers included. */
void rp_objects_open(struct rp_objects *ret_objects);
void rp_objects_close(const struct rp_objects *objects);

/* The generation of the current list, without holding it. Context: any. */
uint32_t rp_objects_generation(void);

/* Find the object that contains `address`. Return: NULL if there is none. */
const struct rp_object_text *rp_objects_find(const struct rp_objects *objects, uint64_t address);

/*
 * Copy memory that may not be mapped. Return: whether all of it was copied. Context: any; changes
 * errno.
 */
bool rp_memory_peek(uint64_t address, void *ret_bytes, size_t size);

#endif
