/* SPDX-License-Identifier: MIT */
#include "unwind/eh_cursor.h"

#include "unwind/loaded_objects.h"

void rp_eh_cursor_init(struct rp_eh_cursor *cursor, uint64_t at, uint64_t end)
{
	cursor->at = at;
	cursor->end = end;
	cursor->chunk = at;
	cursor->chunk_bytes = 0;
	cursor->failed = false;
}

static bool load_chunk(struct rp_eh_cursor *cursor)
{
	uint64_t bytes = cursor->end - cursor->at;

	if (bytes > RP_CURSOR_CHUNK)
		bytes = RP_CURSOR_CHUNK;
	if (!rp_memory_peek(cursor->at, cursor->bytes, bytes))
		return false;
	cursor->chunk = cursor->at;
	cursor->chunk_bytes = (uint32_t)bytes;
	return true;
}

uint8_t rp_eh_cursor_byte(struct rp_eh_cursor *cursor)
{
	if (cursor->at >= cursor->end)
		cursor->failed = true;
	if (!cursor->failed && cursor->at - cursor->chunk >= cursor->chunk_bytes)
		cursor->failed = !load_chunk(cursor);
	if (cursor->failed)
		return 0;
	return cursor->bytes[cursor->at++ - cursor->chunk];
}

void rp_eh_cursor_skip(struct rp_eh_cursor *cursor, uint64_t bytes)
{
	if (cursor->failed || bytes > cursor->end - cursor->at)
		cursor->failed = true;
	else
		cursor->at += bytes;
}

uint64_t rp_eh_cursor_fixed(struct rp_eh_cursor *cursor, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)rp_eh_cursor_byte(cursor) << (8 * i);
	return value;
}

/*
 * Read a LEB128 number, signed or unsigned: seven bits per byte, lowest first. `ret_bits`: number
 * of bits read.
 */
static uint64_t leb128(struct rp_eh_cursor *cursor, unsigned int *ret_bits, uint8_t *ret_last)
{
	uint64_t value = 0;

	*ret_bits = 0;
	do {
		*ret_last = rp_eh_cursor_byte(cursor);
		if (*ret_bits < 64)
			value |= (uint64_t)(*ret_last & 0x7f) << *ret_bits;
		*ret_bits += 7;
	} while (*ret_last & 0x80);
	return value;
}

uint64_t rp_eh_cursor_uleb(struct rp_eh_cursor *cursor)
{
	unsigned int bits;
	uint8_t last;

	return leb128(cursor, &bits, &last);
}

int64_t rp_eh_cursor_sleb(struct rp_eh_cursor *cursor)
{
	unsigned int bits;
	uint8_t last;
	uint64_t value = leb128(cursor, &bits, &last);

	if (bits < 64 && (last & 0x40))
		value |= ~0ull << bits;
	return (int64_t)value;
}

uint64_t rp_eh_cursor_pointer(struct rp_eh_cursor *cursor, uint8_t encoding,
				  uint64_t header)
{
	uint64_t place = cursor->at, value;

	switch (encoding & 0x0f) {
	case 0x00: case 0x04: case 0x0c:
		value = rp_eh_cursor_fixed(cursor, 8);
		break;
	case 0x03:
		value = rp_eh_cursor_fixed(cursor, 4);
		break;
	case 0x0b:
		value = (uint64_t)(int64_t)(int32_t)rp_eh_cursor_fixed(cursor, 4);
		break;
	default:
		cursor->failed = true;
		return 0;
	}
	switch (encoding & 0x70) {
	case RP_POINTER_ABSOLUTE:
		return value;
	case RP_POINTER_PCREL:
		return value + place;
	case RP_POINTER_DATAREL:
		return value + header;
	default:
		cursor->failed = true;
		return 0;
	}
}
