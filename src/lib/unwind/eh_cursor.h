/* SPDX-License-Identifier: MIT */
/* Reads DWARF's encoded numbers from memory that may not be mapped. */
#ifndef RP_UNWIND_EH_CURSOR_H
#define RP_UNWIND_EH_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

/* The pointer encodings that linkers use in .eh_frame. */
#define RP_POINTER_ABSOLUTE 0x00u
#define RP_POINTER_PCREL 0x10u
#define RP_POINTER_DATAREL 0x30u
#define RP_POINTER_OMIT 0xffu

#define RP_CURSOR_CHUNK 128u

/* Bytes of an object, read a chunk at a time. After a failure all reads return 0. */
struct rp_eh_cursor {
	uint64_t at, end;
	uint64_t chunk;			/* address of bytes[0] */
	uint32_t chunk_bytes;
	bool failed;
	uint8_t bytes[RP_CURSOR_CHUNK];
};

void rp_eh_cursor_init(struct rp_eh_cursor *cursor, uint64_t at, uint64_t end);

uint8_t rp_eh_cursor_byte(struct rp_eh_cursor *cursor);
void rp_eh_cursor_skip(struct rp_eh_cursor *cursor, uint64_t bytes);
uint64_t rp_eh_cursor_fixed(struct rp_eh_cursor *cursor, unsigned int bytes);
uint64_t rp_eh_cursor_uleb(struct rp_eh_cursor *cursor);
int64_t rp_eh_cursor_sleb(struct rp_eh_cursor *cursor);

/*
 * Read an encoded pointer. Pointers relative to data (datarel) have the object's .eh_frame_hdr as
 * their base.
 */
uint64_t rp_eh_cursor_pointer(struct rp_eh_cursor *cursor, uint8_t encoding,
				  uint64_t header);

#endif
