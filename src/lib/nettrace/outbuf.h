/* SPDX-License-Identifier: MIT */
/*
 * A byte buffer that grows by doubling. If an allocation fails, rp_outbuf_put() sets `failed` and
 * all later calls do nothing, so the caller checks `failed` once, after all calls.
 */
#ifndef RP_NETTRACE_OUTBUF_H
#define RP_NETTRACE_OUTBUF_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf.h"
#include "nettrace/event_header.h"

struct rp_outbuf {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
	bool failed;
};

static inline int rp_outbuf_reserve(struct rp_outbuf *buf, size_t extra)
{
	size_t capacity = buf->capacity ? buf->capacity : 256;
	uint8_t *bytes;

	if (extra <= buf->capacity - buf->size)
		return 0;
	if (extra > SIZE_MAX / 4 - buf->size)
		return -ENOMEM;
	while (capacity - buf->size < extra)
		capacity *= 2;
	bytes = rp_heap_resize(buf->bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	buf->bytes = bytes;
	buf->capacity = capacity;
	return 0;
}

static inline void rp_outbuf_put(struct rp_outbuf *buf, const void *bytes, size_t size)
{
	if (buf->failed || rp_outbuf_reserve(buf, size) < 0) {
		buf->failed = true;
		return;
	}
	if (size)
		memcpy(buf->bytes + buf->size, bytes, size);
	buf->size += size;
}

static inline void rp_outbuf_put_u8(struct rp_outbuf *buf, uint8_t value)
{
	rp_outbuf_put(buf, &value, sizeof(value));
}

static inline void rp_outbuf_put_u16(struct rp_outbuf *buf, size_t value)
{
	const uint16_t number = (uint16_t)value;

	rp_outbuf_put(buf, &number, sizeof(number));
}

static inline void rp_outbuf_put_u32(struct rp_outbuf *buf, uint32_t value)
{
	rp_outbuf_put(buf, &value, sizeof(value));
}

static inline void rp_outbuf_put_u64(struct rp_outbuf *buf, uint64_t value)
{
	rp_outbuf_put(buf, &value, sizeof(value));
}

/* Replace a number that was put at the offset `at`. */
static inline void rp_outbuf_patch_u16(struct rp_outbuf *buf, size_t at, size_t value)
{
	const uint16_t number = (uint16_t)value;

	if (!buf->failed)
		memcpy(buf->bytes + at, &number, sizeof(number));
}

static inline void rp_outbuf_patch_u32(struct rp_outbuf *buf, size_t at, size_t value)
{
	const uint32_t number = (uint32_t)value;

	if (!buf->failed)
		memcpy(buf->bytes + at, &number, sizeof(number));
}

/* Put a number of version 6. */
static inline void rp_outbuf_put_varint(struct rp_outbuf *buf, uint64_t value)
{
	uint8_t bytes[10];

	rp_outbuf_put(buf, bytes, (size_t)(rp_wire_varint_put(bytes, value) - bytes));
}

/* Put a text of version 6. NULL counts as the empty text. */
static inline void rp_outbuf_put_text8(struct rp_outbuf *buf, const char *text)
{
	const size_t bytes = text ? strlen(text) : 0;

	rp_outbuf_put_varint(buf, bytes);
	rp_outbuf_put(buf, text, bytes);
}

/* Put UTF-8 as UTF-16. */
static inline void rp_outbuf_put_utf16(struct rp_outbuf *buf, const char *text, size_t bytes)
{
	/* One byte of UTF-8 is at most one unit of UTF-16. */
	if (buf->failed || rp_outbuf_reserve(buf, 2 * bytes) < 0) {
		buf->failed = true;
		return;
	}
	if (bytes)
		buf->size += 2 * rp_utf16_from_utf8((const uint8_t *)text, bytes,
						    buf->bytes + buf->size, bytes);
}

/* Put a text as UTF-16 with a NUL at its end. NULL counts as the empty text. */
static inline void rp_outbuf_put_text16(struct rp_outbuf *buf, const char *text)
{
	rp_outbuf_put_utf16(buf, text, text ? strlen(text) : 0);
	rp_outbuf_put(buf, "\0", 2);
}

static inline void rp_outbuf_fini(struct rp_outbuf *buf)
{
	rp_heap_free(buf->bytes);
	memset(buf, 0, sizeof(*buf));
}

#endif
