/* SPDX-License-Identifier: MIT */
/*
 * Messages of the diagnostics IPC protocol, version 1, for the server and its clients. These
 * functions parse and build messages; they do no I/O.
 *
 * Source: documentation/design-docs/ipc-protocol.md in dotnet/diagnostics, corrected where .NET's
 * own client (Microsoft.Diagnostics.NETCore.Client) reads or writes otherwise. Numbers are little
 * endian.
 *
 *	offset	bytes
 *	0	14	"DOTNET_IPC_V1\0"
 *	14	2	size of the whole message, these 20 bytes included
 *	16	1	command set
 *	17	1	command id
 *	18	2	reserved, sent as 0, ignored
 *	20	-	payload
 *
 * string: u32 count of UTF-16 units, the final NUL included, then the units. "" is sent as count 1
 * (the client cannot read 0); count 0 is also accepted. bool: 1 byte. array: u32 count, then the
 * items. A reply has set 0xff and id 0x00 (payload by command) or 0xff (an int32 HRESULT).
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
	RP_MESSAGE_RINGPIPE = 0x52,	/* ringpipe's own commands */
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
	RP_HRESULT_ACCESS_DENIED = 0x80070005u,		/* only .NET sends it */
	RP_HRESULT_INVALID_ARGUMENT = 0x80070057u,
	RP_HRESULT_BAD_ENCODING = 0x80131384u,
	RP_HRESULT_UNKNOWN_COMMAND = 0x80131385u,
	RP_HRESULT_UNKNOWN_MAGIC = 0x80131386u,
	RP_HRESULT_INVALID_OPERATION = 0x80131509u,	/* not in this state */
	RP_HRESULT_NOT_SUPPORTED = 0x80131515u,
};

/* A parsed message. */
struct rp_message {
	uint8_t set;
	uint8_t id;
	struct rp_cursor payload;	/* points into the message's bytes */
};

/*
 * Examine the first `size` bytes of a message. `ret_bytes` is the size of the message as far as it
 * is known: the size of the header until the header is complete. The message is complete when
 * `size` has reached `ret_bytes`. Invalid bytes are reported as soon as they are received.
 *
 * Return: RP_HRESULT_OK; UNKNOWN_MAGIC; BAD_ENCODING: a size below a header's.
 */
enum rp_hresult rp_message_frame(const uint8_t *bytes, size_t size, size_t *ret_bytes);

/* Parse a complete message that rp_message_frame() has accepted. */
void rp_message_open(const uint8_t *bytes, size_t size, struct rp_message *ret_message);

/*
 * Read a string as UTF-8; lone surrogates become U+FFFD. `ret_text` needs twice the bytes that the
 * string has in the payload, its count included. So twice the payload suffices for all of its
 * strings.
 *
 * Return: the bytes written, NUL included; -EBADMSG: the string is too short, has no NUL at its
 * end, or has another NUL.
 */
int rp_message_get_string(struct rp_cursor *cursor, char *ret_text);

/*
 * As rp_message_get_string(), in memory for free(). Return: NULL, and the cursor fails: -EBADMSG or
 * no memory.
 */
char *rp_message_take_string(struct rp_cursor *cursor);

/* A message that is being built; zero it first. After the first error, later calls do nothing. */
struct rp_message_buffer {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	size_t message_bytes;	/* 0: the whole buffer; else a stream follows */
	int error;
};

/* Begin a message, and discard the buffer's content and error. */
void rp_message_begin(struct rp_message_buffer *message, enum rp_message_set set, uint8_t id);
void rp_message_put_u8(struct rp_message_buffer *message, uint8_t value);
void rp_message_put_u32(struct rp_message_buffer *message, uint32_t value);
void rp_message_put_u64(struct rp_message_buffer *message, uint64_t value);
void rp_message_put_bytes(struct rp_message_buffer *message, const void *bytes, size_t size);
/* Put UTF-8 as a string; invalid bytes become U+FFFD. NULL is "". */
void rp_message_put_string(struct rp_message_buffer *message, const char *text);
/* Overwrite four bytes that were put earlier. */
void rp_message_set_u32(struct rp_message_buffer *message, size_t offset, uint32_t value);

/* End the message. Later bytes are a stream, which the message's size does not include. */
void rp_message_begin_stream(struct rp_message_buffer *message);

/*
 * Store the size. Return: the buffer's error, or -E2BIG: the message is too long for the field,
 * which contains RP_MESSAGE_BYTES_MAX. A client must not send such a request. Such a reply extends
 * to the end of the connection.
 */
int rp_message_end(struct rp_message_buffer *message);

/* Replace the buffer's content and error with an error reply. */
void rp_message_refuse(struct rp_message_buffer *message, enum rp_hresult hresult);

/* The same with a reason after the HRESULT, for clients that read it. */
void rp_message_refuse_because(struct rp_message_buffer *message, enum rp_hresult hresult,
			       const char *reason);

void rp_message_fini(struct rp_message_buffer *message);

#endif
