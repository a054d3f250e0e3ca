/* SPDX-License-Identifier: MIT */
/*
 * Messages of the diagnostics IPC protocol, version 1, for the server and its clients: bytes in,
 * values out, and back. No I/O here.
 *
 * Source: documentation/design-docs/ipc-protocol.md in dotnet/diagnostics, corrected where its own
 * client (Microsoft.Diagnostics.NETCore.Client) reads or writes otherwise. Numbers little endian.
 *
 *	offset	bytes
 *	0	14	"DOTNET_IPC_V1\0"
 *	14	2	size of the whole message, these 20 bytes included
 *	16	1	command set
 *	17	1	command id
 *	18	2	reserved, sent as 0, not looked at
 *	20	-	payload
 *
 * string: u32 count of UTF-16 units, the ending NUL included, then the units. "" is sent as count 1
 * (the client cannot read 0) and taken as 0, too. bool: 1 byte. array: u32 count, then the items.
 * A reply has set 0xff and id 0x00 (payload by command) or 0xff (an int32 HRESULT).
 */
#ifndef RP_IPC_MESSAGE_H
#define RP_IPC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"

#define RP_MESSAGE_HEADER_BYTES 20u
#define RP_MESSAGE_BYTES_MAX 65535u

/* Ids of commands are in ipc/command_ids.h. */
enum rp_message_set {
	RP_MESSAGE_DUMP = 0x01,
	RP_MESSAGE_EVENTPIPE = 0x02,
	RP_MESSAGE_PROFILER = 0x03,
	RP_MESSAGE_PROCESS = 0x04,
	RP_MESSAGE_RINGPIPE = 0x52,	/* ours, for the ringpipe command */
	RP_MESSAGE_SERVER = 0xff,	/* replies */
};

/* Ids of replies. */
enum {
	RP_MESSAGE_OK = 0x00,
	RP_MESSAGE_ERROR = 0xff,
};

/* Errors of the protocol. 0 is success. */
enum rp_hresult {
	RP_HRESULT_OK = 0,
	RP_HRESULT_FAIL = 0x80004005u,
	RP_HRESULT_ACCESS_DENIED = 0x80070005u,		/* .NET's alone */
	RP_HRESULT_INVALID_ARGUMENT = 0x80070057u,
	RP_HRESULT_BAD_ENCODING = 0x80131384u,
	RP_HRESULT_UNKNOWN_COMMAND = 0x80131385u,
	RP_HRESULT_UNKNOWN_MAGIC = 0x80131386u,
	RP_HRESULT_INVALID_OPERATION = 0x80131509u,	/* not now */
	RP_HRESULT_NOT_SUPPORTED = 0x80131515u,
};

/* A whole message, taken apart. */
struct rp_message {
	uint8_t set;
	uint8_t id;
	struct rp_cursor payload;	/* points into the bytes given */
};

/*
 * Looks at the first `size` bytes of a message. `ret_bytes` is how many it has in all as far as
 * that can be known: those of the header, until the header is there. The message is whole when size
 * has reached it. Wrong bytes are reported as soon as they are received.
 *
 * Return: RP_HRESULT_OK; UNKNOWN_MAGIC; BAD_ENCODING: a size below a header's.
 */
enum rp_hresult rp_message_frame(const uint8_t *bytes, size_t size, size_t *ret_bytes);

/* Takes a whole message apart; rp_message_frame() must have accepted it. */
void rp_message_open(const uint8_t *bytes, size_t size, struct rp_message *ret_message);

/*
 * Reads a string as UTF-8, lone surrogates as U+FFFD. `ret_text` needs room for twice the bytes the
 * string has in the payload, its count included: twice the payload for all of its strings.
 *
 * Return: the bytes written, NUL included; -EBADMSG: too short, without its NUL, or with another.
 */
int rp_message_get_string(struct rp_cursor *cursor, char *ret_text);

/* The same in memory of its own, for free(). NULL: -EBADMSG or no memory; the cursor fails. */
char *rp_message_take_string(struct rp_cursor *cursor);

/* A message in the making. Zero it first. The first error sticks: later calls do nothing. */
struct rp_message_buffer {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	size_t message_bytes;	/* 0: all of it; else a stream follows */
	int error;
};

/* Drops what the buffer holds, an error included. */
void rp_message_begin(struct rp_message_buffer *message, enum rp_message_set set, uint8_t id);
void rp_message_put_u8(struct rp_message_buffer *message, uint8_t value);
void rp_message_put_u32(struct rp_message_buffer *message, uint32_t value);
void rp_message_put_u64(struct rp_message_buffer *message, uint64_t value);
void rp_message_put_bytes(struct rp_message_buffer *message, const void *bytes, size_t size);
/* Writes UTF-8 as a string, what is not valid as U+FFFD. NULL is "". */
void rp_message_put_string(struct rp_message_buffer *message, const char *text);
/* Changes four bytes written earlier. */
void rp_message_set_u32(struct rp_message_buffer *message, size_t offset, uint32_t value);

/* Ends the message. Later bytes are a stream, which the message's size does not include. */
void rp_message_begin_stream(struct rp_message_buffer *message);

/*
 * Fills in the size. Return: the buffer's error, or -E2BIG: the message is too long for the field,
 * which says RP_MESSAGE_BYTES_MAX. A client may not send such a request; such a reply goes on to
 * the end of the connection.
 */
int rp_message_end(struct rp_message_buffer *message);

/* Replaces everything by an error reply, and an earlier error with it. */
void rp_message_refuse(struct rp_message_buffer *message, enum rp_hresult hresult);

/* The same with a reason behind the HRESULT, for those clients that read one. */
void rp_message_refuse_because(struct rp_message_buffer *message, enum rp_hresult hresult,
			       const char *reason);

void rp_message_fini(struct rp_message_buffer *message);

#endif
