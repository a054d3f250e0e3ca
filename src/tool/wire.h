/* SPDX-License-Identifier: MIT */
/*
 * Messages of the .NET diagnostics IPC protocol (ipc-protocol.md in dotnet/diagnostics): 20 bytes
 * of header {magic[14], u16 size with the header, u8 set, u8 id, u16 0}, then the payload, all
 * little endian. A string is a u32 count of UTF-16 units with the NUL, then the units.
 */
#ifndef RP_TOOL_WIRE_H
#define RP_TOOL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_WIRE_MAGIC "DOTNET_IPC_V1"	/* its NUL is the 14th byte */
#define RP_WIRE_HEADER_BYTES 20u
#define RP_WIRE_MESSAGE_MAX 65535u

enum rp_wire_set {
	RP_SET_DUMP = 0x01,
	RP_SET_EVENTPIPE = 0x02,
	RP_SET_PROCESS = 0x04,
	RP_SET_RINGPIPE = 0x52,		/* ringpipe's own: see src/diag/commands.c */
	RP_SET_SERVER = 0xff,
};

/* A request in the making. Puts beyond its end set `failed`. */
struct rp_wire_message {
	size_t size;
	bool failed;
	uint8_t bytes[RP_WIRE_MESSAGE_MAX];
};

void rp_wire_begin(struct rp_wire_message *message, uint8_t set, uint8_t id);
void rp_wire_put_u8(struct rp_wire_message *message, uint8_t value);
void rp_wire_put_u32(struct rp_wire_message *message, uint32_t value);
void rp_wire_put_u64(struct rp_wire_message *message, uint64_t value);
void rp_wire_put_string(struct rp_wire_message *message, const char *text);
/* Writes the size into the header. Return: 0, or -E2BIG. */
int rp_wire_end(struct rp_wire_message *message);

/* What is left of a payload that a stranger sent. Gets beyond its end give 0 and set `failed`. */
struct rp_wire_cursor {
	const uint8_t *at;
	size_t left;
	bool failed;
};

uint32_t rp_wire_get_u32(struct rp_wire_cursor *cursor);
uint64_t rp_wire_get_u64(struct rp_wire_cursor *cursor);
void rp_wire_skip(struct rp_wire_cursor *cursor, size_t bytes);
/* For free(); NULL when it failed, also for want of memory. */
char *rp_wire_get_string(struct rp_wire_cursor *cursor);

#endif
