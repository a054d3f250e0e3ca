/* SPDX-License-Identifier: MIT */
#include "diag/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"

#define REPLY_OK 0x00
#define REPLY_ERROR 0xff

static const uint8_t magic[14] = "DOTNET_IPC_V1";

static uint64_t get_le(const uint8_t *at, size_t size)
{
	uint64_t value = 0;

	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

static void put_le(uint8_t *at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

enum rp_hresult rp_message_frame(const uint8_t *bytes, size_t size, size_t *ret_bytes)
{
	size_t total = RP_MESSAGE_HEADER_BYTES;

	if (size && memcmp(bytes, magic, size < sizeof(magic) ? size : sizeof(magic)) != 0)
		return RP_HRESULT_UNKNOWN_MAGIC;
	if (size >= RP_MESSAGE_HEADER_BYTES) {
		total = get_le(bytes + 14, 2);
		if (total < RP_MESSAGE_HEADER_BYTES)
			return RP_HRESULT_BAD_ENCODING;
	}
	*ret_bytes = total;
	return RP_HRESULT_OK;
}

void rp_message_open(const uint8_t *bytes, size_t size, struct rp_message *ret_message)
{
	ret_message->set = bytes[16];
	ret_message->id = bytes[17];
	ret_message->payload.at = bytes + RP_MESSAGE_HEADER_BYTES;
	ret_message->payload.end = bytes + size;
}

int rp_cursor_bytes(struct rp_cursor *cursor, size_t size, const uint8_t **ret_bytes)
{
	if (size > (size_t)(cursor->end - cursor->at))
		return -EBADMSG;
	*ret_bytes = cursor->at;
	cursor->at += size;
	return 0;
}

static int cursor_le(struct rp_cursor *cursor, size_t size, uint64_t *ret_value)
{
	const uint8_t *bytes;
	int r = rp_cursor_bytes(cursor, size, &bytes);

	if (r == 0)
		*ret_value = get_le(bytes, size);
	return r;
}

int rp_cursor_u8(struct rp_cursor *cursor, uint8_t *ret_value)
{
	uint64_t value;
	int r = cursor_le(cursor, 1, &value);

	if (r == 0)
		*ret_value = (uint8_t)value;
	return r;
}

int rp_cursor_u32(struct rp_cursor *cursor, uint32_t *ret_value)
{
	uint64_t value;
	int r = cursor_le(cursor, 4, &value);

	if (r == 0)
		*ret_value = (uint32_t)value;
	return r;
}

int rp_cursor_u64(struct rp_cursor *cursor, uint64_t *ret_value)
{
	return cursor_le(cursor, 8, ret_value);
}

int rp_cursor_end(const struct rp_cursor *cursor)
{
	return cursor->at == cursor->end ? 0 : -EBADMSG;
}

int rp_cursor_string(struct rp_cursor *cursor, char *ret_text)
{
	struct rp_cursor at = *cursor;
	const uint8_t *units;
	uint32_t count;
	size_t bytes = 0;

	if (rp_cursor_u32(&at, &count) < 0 ||
	    rp_cursor_bytes(&at, (size_t)count * 2, &units) < 0)
		return -EBADMSG;
	if (count) {
		for (uint32_t i = 0; i < count; i++) {
			int ends = !units[2 * i] && !units[2 * i + 1];

			if (ends != (i + 1 == count))
				return -EBADMSG;
		}
		bytes = rp_utf8_from_utf16(units, count - 1, ret_text);
	}
	ret_text[bytes] = '\0';
	*cursor = at;
	return (int)bytes + 1;
}

/* Makes room for `size` bytes more, which the caller then writes and adds. NULL after an error. */
static uint8_t *reply_reserve(struct rp_reply *reply, size_t size)
{
	if (reply->error)
		return NULL;
	if (size > reply->capacity - reply->size) {
		size_t capacity = 2 * (reply->size + size) + 64;
		uint8_t *grown = realloc(reply->bytes, capacity);

		if (!grown) {
			reply->error = -ENOMEM;
			return NULL;
		}
		reply->bytes = grown;
		reply->capacity = capacity;
	}
	return reply->bytes + reply->size;
}

void rp_reply_bytes(struct rp_reply *reply, const void *bytes, size_t size)
{
	uint8_t *at = reply_reserve(reply, size);

	if (at && size) {
		memcpy(at, bytes, size);
		reply->size += size;
	}
}

static void reply_le(struct rp_reply *reply, uint64_t value, size_t size)
{
	uint8_t bytes[8];

	put_le(bytes, value, size);
	rp_reply_bytes(reply, bytes, size);
}

static void reply_header(struct rp_reply *reply, uint8_t id)
{
	const uint8_t rest[6] = { 0, 0, RP_MESSAGE_SERVER, id, 0, 0 };

	rp_reply_bytes(reply, magic, sizeof(magic));
	rp_reply_bytes(reply, rest, sizeof(rest));
}

void rp_reply_begin(struct rp_reply *reply)
{
	reply_header(reply, REPLY_OK);
}

void rp_reply_u8(struct rp_reply *reply, uint8_t value)
{
	reply_le(reply, value, 1);
}

void rp_reply_u32(struct rp_reply *reply, uint32_t value)
{
	reply_le(reply, value, 4);
}

void rp_reply_u64(struct rp_reply *reply, uint64_t value)
{
	reply_le(reply, value, 8);
}

void rp_reply_string(struct rp_reply *reply, const char *text)
{
	size_t units, length;
	uint8_t *at;

	if (!text)
		text = "";
	/* No character takes more units than it has bytes. */
	length = strlen(text);
	at = reply_reserve(reply, 4 + 2 * (length + 1));
	if (!at)
		return;
	units = rp_utf16_from_utf8((const uint8_t *)text, length, at + 4, length);
	put_le(at + 4 + 2 * units, 0, 2);
	put_le(at, units + 1, 4);
	reply->size += 4 + 2 * (units + 1);
}

void rp_reply_set_u32(struct rp_reply *reply, size_t offset, uint32_t value)
{
	if (!reply->error)
		put_le(reply->bytes + offset, value, 4);
}

void rp_reply_begin_stream(struct rp_reply *reply)
{
	reply->message_bytes = reply->size;
}

void rp_reply_end(struct rp_reply *reply)
{
	size_t size = reply->message_bytes ? reply->message_bytes : reply->size;

	if (!reply->error)
		put_le(reply->bytes + 14, size < RP_MESSAGE_BYTES_MAX ? size : RP_MESSAGE_BYTES_MAX,
		       2);
}

static void begin_refusal(struct rp_reply *reply, enum rp_hresult hresult)
{
	reply->size = 0;
	reply->message_bytes = 0;
	reply->error = 0;
	reply_header(reply, REPLY_ERROR);
	rp_reply_u32(reply, hresult);
}

void rp_reply_refuse(struct rp_reply *reply, enum rp_hresult hresult)
{
	begin_refusal(reply, hresult);
	rp_reply_end(reply);
}

void rp_reply_refuse_because(struct rp_reply *reply, enum rp_hresult hresult, const char *reason)
{
	begin_refusal(reply, hresult);
	rp_reply_string(reply, reason);
	rp_reply_end(reply);
}

void rp_reply_fini(struct rp_reply *reply)
{
	free(reply->bytes);
	*reply = (struct rp_reply){ 0 };
}
