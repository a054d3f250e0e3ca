/* SPDX-License-Identifier: MIT */
/*
 * Reading bytes nobody has checked: every getter advances through rp_cursor_take(), so the bounds
 * are tested in one place. All return 0 or -EBADMSG (too few bytes, or a value no format allows).
 */
#ifndef RP_NETTRACE_CURSOR_H
#define RP_NETTRACE_CURSOR_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rp_cursor {
	const uint8_t *at, *end;
};

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

static inline int rp_cursor_sub(struct rp_cursor *c, size_t size, struct rp_cursor *ret_sub)
{
	const uint8_t *bytes;

	if (rp_cursor_take(c, size, &bytes) < 0)
		return -EBADMSG;
	ret_sub->at = bytes;
	ret_sub->end = bytes + size;
	return 0;
}

/* Seven bits a byte, the lowest first; at most 10 bytes. */
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

/* UTF-16 up to a NUL unit, which is taken and not counted. */
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
