/* SPDX-License-Identifier: MIT */
/* The addresses of an event's stack, which a trace stores with 4 or 8 bytes each. */
#ifndef RP_TOOL_STACK_FRAME_H
#define RP_TOOL_STACK_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ringpipe/reader.h>

/* The kernel's half of the addresses, which is the same in all processes. */
#define RP_KERNEL_START 0xffff800000000000ull

/*
 * Return the address of a frame.
 * @pointer_bytes: of the trace; see struct rp_reader_info.
 * @index: below event->frame_count; 0 is the innermost.
 */
static inline uint64_t rp_stack_frame(const struct rp_reader_event *event, uint32_t pointer_bytes,
				      size_t index)
{
	/* A reader accepts only 4 and 8. */
	const size_t bytes = pointer_bytes == 4 ? 4 : 8;
	uint64_t address = 0;

	memcpy(&address, (const char *)event->frames + index * bytes, bytes);
	return address;
}

#endif
