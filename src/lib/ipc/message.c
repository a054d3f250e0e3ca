/* SPDX-License-Identifier: MIT */
#include "ipc/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/utf.h"

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

int rp_message_get_string(struct rp_cursor *cursor, char *ret_text)
{
	struct rp_cursor at = *cursor;
	const uint8_t *units;
	uint32_t count;
	size_t bytes = 0;

	if (rp_cursor_u32(&at, &count) < 0 ||
	    rp_cursor_take(&at, (size_t)count * 2, &units) < 0)
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

char *rp_message_take_string(struct rp_cursor *cursor)
{
	struct rp_cursor at = *cursor;
	char *text = NULL;
	uint32_t count;

	if (rp_cursor_u32(&at, &count) == 0 && count <= rp_cursor_left(&at) / 2)
		text = malloc(2 * (sizeof(count) + 2 * (size_t)count));
	if (text && rp_message_get_string(cursor, text) < 0) {
		free(text);
		text = NULL;
	}
	if (!text)
		rp_cursor_fail(cursor);
	return text;
}

/* Reserve space for `size` more bytes, which the caller writes and adds. NULL after an error. */
static uint8_t *reserve(struct rp_message_buffer *message, size_t size)
{
	uint8_t *grown;

	if (message->error)
		return NULL;
	grown = rp_array_reserve(message->bytes, message->size, &message->capacity, size, 1);
	if (!grown) {
		message->error = -ENOMEM;
		return NULL;
	}
	message->bytes = grown;
	return message->bytes + message->size;
}

void rp_message_put_bytes(struct rp_message_buffer *message, const void *bytes, size_t size)
{
	uint8_t *at = size ? reserve(message, size) : NULL;

	if (at) {
		memcpy(at, bytes, size);
		message->size += size;
	}
}

static void put_number(struct rp_message_buffer *message, uint64_t value, size_t size)
{
	uint8_t bytes[8];

	put_le(bytes, value, size);
	rp_message_put_bytes(message, bytes, size);
}

void rp_message_begin(struct rp_message_buffer *message, enum rp_message_set set, uint8_t id)
{
	const uint8_t rest[6] = { 0, 0, set, id, 0, 0 };

	message->size = 0;
	message->message_bytes = 0;
	message->error = 0;
	rp_message_put_bytes(message, magic, sizeof(magic));
	rp_message_put_bytes(message, rest, sizeof(rest));
}

void rp_message_put_u8(struct rp_message_buffer *message, uint8_t value)
{
	put_number(message, value, 1);
}

void rp_message_put_u32(struct rp_message_buffer *message, uint32_t value)
{
	put_number(message, value, 4);
}

void rp_message_put_u64(struct rp_message_buffer *message, uint64_t value)
{
	put_number(message, value, 8);
}

void rp_message_put_string(struct rp_message_buffer *message, const char *text)
{
	size_t units, length;
	uint8_t *at;

	if (!text)
		text = "";
	/* A character has at most as many UTF-16 units as it has bytes. */
	length = strlen(text);
	at = reserve(message, 4 + 2 * (length + 1));
	if (!at)
		return;
	units = rp_utf16_from_utf8((const uint8_t *)text, length, at + 4, length);
	put_le(at + 4 + 2 * units, 0, 2);
	put_le(at, units + 1, 4);
	message->size += 4 + 2 * (units + 1);
}

void rp_message_set_u32(struct rp_message_buffer *message, size_t offset, uint32_t value)
{
	if (!message->error)
		put_le(message->bytes + offset, value, 4);
}

void rp_message_begin_stream(struct rp_message_buffer *message)
{
	message->message_bytes = message->size;
}

int rp_message_end(struct rp_message_buffer *message)
{
	size_t size = message->message_bytes ? message->message_bytes : message->size;

	if (message->error)
		return message->error;
	put_le(message->bytes + 14, size < RP_MESSAGE_BYTES_MAX ? size : RP_MESSAGE_BYTES_MAX, 2);
	return size <= RP_MESSAGE_BYTES_MAX ? 0 : -E2BIG;
}

void rp_message_refuse(struct rp_message_buffer *message, enum rp_hresult hresult)
{
	rp_message_begin(message, RP_MESSAGE_SERVER, RP_MESSAGE_ERROR);
	rp_message_put_u32(message, hresult);
	(void)rp_message_end(message);
}

void rp_message_refuse_because(struct rp_message_buffer *message, enum rp_hresult hresult,
			       const char *reason)
{
	rp_message_begin(message, RP_MESSAGE_SERVER, RP_MESSAGE_ERROR);
	rp_message_put_u32(message, hresult);
	rp_message_put_string(message, reason);
	(void)rp_message_end(message);
}

void rp_message_fini(struct rp_message_buffer *message)
{
	free(message->bytes);
	*message = (struct rp_message_buffer){ 0 };
}
