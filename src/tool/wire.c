/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "tool/text.h"
#include "tool/wire.h"

static void put(struct rp_wire_message *message, const void *bytes, size_t size)
{
	if (size > sizeof(message->bytes) - message->size) {
		message->failed = true;
		return;
	}
	memcpy(message->bytes + message->size, bytes, size);
	message->size += size;
}

static void put_u16(struct rp_wire_message *message, uint16_t value)
{
	value = htole16(value);
	put(message, &value, sizeof(value));
}

void rp_wire_put_u8(struct rp_wire_message *message, uint8_t value)
{
	put(message, &value, sizeof(value));
}

void rp_wire_put_u32(struct rp_wire_message *message, uint32_t value)
{
	value = htole32(value);
	put(message, &value, sizeof(value));
}

void rp_wire_put_u64(struct rp_wire_message *message, uint64_t value)
{
	value = htole64(value);
	put(message, &value, sizeof(value));
}

void rp_wire_put_string(struct rp_wire_message *message, const char *text)
{
	size_t count_at = message->size;
	uint32_t count = 1;

	rp_wire_put_u32(message, 0);
	while (*text) {
		uint32_t code = rp_text_next(&text);

		if (code >= 0x10000) {
			put_u16(message, (uint16_t)(0xd800 + ((code - 0x10000) >> 10)));
			put_u16(message, (uint16_t)(0xdc00 + (code & 0x3ff)));
			count++;
		} else {
			put_u16(message, (uint16_t)code);
		}
		count++;
	}
	put_u16(message, 0);
	count = htole32(count);
	if (!message->failed)
		memcpy(message->bytes + count_at, &count, sizeof(count));
}

void rp_wire_begin(struct rp_wire_message *message, uint8_t set, uint8_t id)
{
	message->size = 0;
	message->failed = false;
	put(message, RP_WIRE_MAGIC, sizeof(RP_WIRE_MAGIC));
	put_u16(message, 0);
	rp_wire_put_u8(message, set);
	rp_wire_put_u8(message, id);
	put_u16(message, 0);
}

int rp_wire_end(struct rp_wire_message *message)
{
	uint16_t size = htole16((uint16_t)message->size);

	if (message->failed)
		return -E2BIG;
	memcpy(message->bytes + sizeof(RP_WIRE_MAGIC), &size, sizeof(size));
	return 0;
}

static bool get(struct rp_wire_cursor *cursor, void *bytes, size_t size)
{
	if (cursor->failed || size > cursor->left) {
		cursor->failed = true;
		return false;
	}
	memcpy(bytes, cursor->at, size);
	cursor->at += size;
	cursor->left -= size;
	return true;
}

uint32_t rp_wire_get_u32(struct rp_wire_cursor *cursor)
{
	uint32_t value;

	return get(cursor, &value, sizeof(value)) ? le32toh(value) : 0;
}

uint64_t rp_wire_get_u64(struct rp_wire_cursor *cursor)
{
	uint64_t value;

	return get(cursor, &value, sizeof(value)) ? le64toh(value) : 0;
}

void rp_wire_skip(struct rp_wire_cursor *cursor, size_t bytes)
{
	if (cursor->failed || bytes > cursor->left) {
		cursor->failed = true;
		return;
	}
	cursor->at += bytes;
	cursor->left -= bytes;
}

char *rp_wire_get_string(struct rp_wire_cursor *cursor)
{
	uint32_t count = rp_wire_get_u32(cursor);
	const uint8_t *units = cursor->at;
	char *text;

	if (count > cursor->left / 2)
		cursor->failed = true;
	rp_wire_skip(cursor, (size_t)count * 2);
	if (cursor->failed)
		return NULL;
	text = rp_text_from_utf16(units, count);
	if (!text)
		cursor->failed = true;
	return text;
}
