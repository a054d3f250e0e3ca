/* SPDX-License-Identifier: MIT */
/*
 * Messages of the diagnostics IPC protocol, version 1: bytes in, values out, and back. No I/O here.
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
#ifndef RP_DIAG_MESSAGE_H
#define RP_DIAG_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define RP_MESSAGE_HEADER_BYTES 20u
#define RP_MESSAGE_BYTES_MAX 65535u

enum rp_message_set {
	RP_MESSAGE_DUMP = 0x01,
	RP_MESSAGE_EVENTPIPE = 0x02,
	RP_MESSAGE_PROFILER = 0x03,
	RP_MESSAGE_PROCESS = 0x04,
	RP_MESSAGE_RINGPIPE = 0x52,	/* ours, for the ringpipe command */
	RP_MESSAGE_SERVER = 0xff,
};

/* What goes wrong, as clients know it. 0 is success. */
enum rp_hresult {
	RP_HRESULT_OK = 0,
	RP_HRESULT_FAIL = 0x80004005u,
	RP_HRESULT_INVALID_ARGUMENT = 0x80070057u,
	RP_HRESULT_BAD_ENCODING = 0x80131384u,
	RP_HRESULT_UNKNOWN_COMMAND = 0x80131385u,
	RP_HRESULT_UNKNOWN_MAGIC = 0x80131386u,
	RP_HRESULT_INVALID_OPERATION = 0x80131509u,	/* not now */
	RP_HRESULT_NOT_SUPPORTED = 0x80131515u,
};

/* What is not yet read of a payload. Each getter leaves it where it was when it fails. */
struct rp_cursor {
	const uint8_t *at;
	const uint8_t *end;
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
 * has reached it. Wrong bytes are told as soon as they are there.
 *
 * Return: RP_HRESULT_OK; UNKNOWN_MAGIC; BAD_ENCODING: a size below a header's.
 */
enum rp_hresult rp_message_frame(const uint8_t *bytes, size_t size, size_t *ret_bytes);

/* Takes a whole message apart; rp_message_frame() must have accepted it. */
void rp_message_open(const uint8_t *bytes, size_t size, struct rp_message *ret_message);

/* The getters. Return: 0, or -EBADMSG when the payload ends before the value does. */
int rp_cursor_u8(struct rp_cursor *cursor, uint8_t *ret_value);
int rp_cursor_u32(struct rp_cursor *cursor, uint32_t *ret_value);
int rp_cursor_u64(struct rp_cursor *cursor, uint64_t *ret_value);
int rp_cursor_bytes(struct rp_cursor *cursor, size_t size, const uint8_t **ret_bytes);

/* Whether all was read. Return: 0, or -EBADMSG when bytes are left. */
int rp_cursor_end(const struct rp_cursor *cursor);

/*
 * Reads a string as UTF-8, lone surrogates as U+FFFD. `ret_text` needs room for twice the bytes the
 * string has in the payload, its count included: twice the payload for all of its strings.
 *
 * Return: the bytes written, NUL included; -EBADMSG: too short, without its NUL, or with another.
 */
int rp_cursor_string(struct rp_cursor *cursor, char *ret_text);

/* A reply in the making. Zero it first. The first error sticks: later calls do nothing. */
struct rp_reply {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	size_t message_bytes;	/* 0: all of it; else a stream follows */
	int error;
};

void rp_reply_begin(struct rp_reply *reply);
void rp_reply_u8(struct rp_reply *reply, uint8_t value);
void rp_reply_u32(struct rp_reply *reply, uint32_t value);
void rp_reply_u64(struct rp_reply *reply, uint64_t value);
void rp_reply_bytes(struct rp_reply *reply, const void *bytes, size_t size);
/* Writes UTF-8 as a string, what is not valid as U+FFFD. NULL is "". */
void rp_reply_string(struct rp_reply *reply, const char *text);
/* Changes four bytes written earlier. */
void rp_reply_set_u32(struct rp_reply *reply, size_t offset, uint32_t value);

/* What is written from here on is a stream behind the message, not part of its size. */
void rp_reply_begin_stream(struct rp_reply *reply);

/*
 * Fills in the size. A reply too long for the field says RP_MESSAGE_BYTES_MAX and goes on to the
 * end of the connection.
 */
void rp_reply_end(struct rp_reply *reply);

/* Replaces everything by an error reply, and an earlier error of the reply's own with it. */
void rp_reply_refuse(struct rp_reply *reply, enum rp_hresult hresult);

/* The same with a reason behind the HRESULT, for those clients that read one. */
void rp_reply_refuse_because(struct rp_reply *reply, enum rp_hresult hresult, const char *reason);

void rp_reply_fini(struct rp_reply *reply);

#endif
