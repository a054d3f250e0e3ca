/* SPDX-License-Identifier: MIT */
/*
 * A reader of untrusted bytes. Every getter advances through rp_cursor_take(), the only place that
 * checks bounds. The getters return 0 or -EBADMSG: there are too few bytes, or no format allows the
 * value.
 *
 * Functions with `get` in their name, and rp_cursor_skip(), defer the check. If bytes are missing,
 * they return the value 0 and mark the cursor as failed, and so does every later read.
 */
#ifndef RP_BASE_CURSOR_H
#define RP_BASE_CURSOR_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rp_cursor {
	const uint8_t *at, *end;
};

static inline struct rp_cursor rp_cursor_over(const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	return (struct rp_cursor){ at, at + size };
}

static inline void rp_cursor_fail(struct rp_cursor *c)
{
	c->at = c->end = NULL;
}

/* The caller passed `bytes` other than NULL to rp_cursor_over(). */
static inline bool rp_cursor_failed(const struct rp_cursor *c)
{
	return !c->at;
}

static inline size_t rp_cursor_left(const struct rp_cursor *c)
{
	return c->end - c->at;
}

static inline int rp_cursor_take(struct rp_cursor *c, size_t size, const uint8_t **ret_bytes)
{
	if (size > rp_cursor_left(c))
		return -EBADMSG;
	*ret_bytes = c->at;
	c->at += size;
	return 0;
}

static inline int rp_cursor_copy(struct rp_cursor *c, void *out, size_t size)
{
	const uint8_t *bytes;

	if (rp_cursor_take(c, size, &bytes) < 0)
		return -EBADMSG;
	memcpy(out, bytes, size);
	return 0;
}

static inline int rp_cursor_u8(struct rp_cursor *c, uint8_t *ret_value)
{
	return rp_cursor_copy(c, ret_value, sizeof(*ret_value));
}

static inline int rp_cursor_u16(struct rp_cursor *c, uint16_t *ret_value)
{
	return rp_cursor_copy(c, ret_value, sizeof(*ret_value));
}

static inline int rp_cursor_u32(struct rp_cursor *c, uint32_t *ret_value)
{
	return rp_cursor_copy(c, ret_value, sizeof(*ret_value));
}

static inline int rp_cursor_u64(struct rp_cursor *c, uint64_t *ret_value)
{
	return rp_cursor_copy(c, ret_value, sizeof(*ret_value));
}

static inline void rp_cursor_get(struct rp_cursor *c, void *out, size_t size)
{
	if (rp_cursor_copy(c, out, size) == 0)
		return;
	memset(out, 0, size);
	rp_cursor_fail(c);
}

static inline uint8_t rp_cursor_get_u8(struct rp_cursor *c)
{
	uint8_t value;

	rp_cursor_get(c, &value, sizeof(value));
	return value;
}

static inline uint32_t rp_cursor_get_u32(struct rp_cursor *c)
{
	uint32_t value;

	rp_cursor_get(c, &value, sizeof(value));
	return value;
}

static inline uint64_t rp_cursor_get_u64(struct rp_cursor *c)
{
	uint64_t value;

	rp_cursor_get(c, &value, sizeof(value));
	return value;
}

static inline void rp_cursor_skip(struct rp_cursor *c, size_t size)
{
	const uint8_t *bytes;

	/* A cursor that failed is NULL, to which C adds nothing, not even 0. */
	if (size && rp_cursor_take(c, size, &bytes) < 0)
		rp_cursor_fail(c);
}

static inline int rp_cursor_sub(struct rp_cursor *c, size_t size, struct rp_cursor *ret_sub)
{
	const uint8_t *bytes;

	if (rp_cursor_take(c, size, &bytes) < 0)
		return -EBADMSG;
	ret_sub->at = bytes;
	ret_sub->end = bytes + size;
	return 0;
}

/* Return: 0 if all bytes were read; -EBADMSG if bytes are left. */
static inline int rp_cursor_end(const struct rp_cursor *c)
{
	return c->at == c->end ? 0 : -EBADMSG;
}

/* Read a number of seven bits per byte, lowest first, at most 10 bytes. */
static inline int rp_cursor_varint(struct rp_cursor *c, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (int shift = 0; shift < 70; shift += 7) {
		if (c->at == c->end)
			return -EBADMSG;
		value |= (uint64_t)(*c->at & 0x7f) << shift;
		if (!(*c->at++ & 0x80)) {
			*ret_value = value;
			return 0;
		}
	}
	return -EBADMSG;
}

/* The same for 32 bits, at most 5 bytes. */
static inline int rp_cursor_varint32(struct rp_cursor *c, uint32_t *ret_value)
{
	const uint8_t *start = c->at;
	uint64_t value;

	if (rp_cursor_varint(c, &value) < 0 || c->at - start > 5)
		return -EBADMSG;
	*ret_value = value;
	return 0;
}

/* Read UTF-16 up to a NUL unit, which is consumed and not counted. */
static inline int rp_cursor_string16(struct rp_cursor *c, const uint8_t **ret_text,
				     size_t *ret_units)
{
	size_t left = rp_cursor_left(c) / 2, units = 0;

	while (units < left && (c->at[2 * units] || c->at[2 * units + 1]))
		units++;
	if (units == left)
		return -EBADMSG;
	*ret_text = c->at;
	*ret_units = units;
	c->at += 2 * units + 2;
	return 0;
}

#endif
