/* SPDX-License-Identifier: MIT */
/*
 * A buffered output for formats that write millions of events: no printf(3) and no allocation for
 * each value. An error stays in `error`, and later calls do nothing.
 */
#ifndef RP_TOOL_FORMAT_OUT_H
#define RP_TOOL_FORMAT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rp_output;

struct rp_format_out {
	struct rp_output *output;	/* NULL: all bytes stay in the buffer, which grows */
	char *buffer;
	size_t used, capacity;
	uint64_t written;		/* bytes passed to the output */
	int error;			/* 0; -errno of the output; -ENOMEM */
};

/* The most that rp_out_reserve() can reserve in a buffer with an output. */
#define RP_FORMAT_OUT_BYTES 262144u

/* Write to `output`, or, if it is NULL, only to memory. Return: 0; -ENOMEM. */
int rp_out_init(struct rp_format_out *out, struct rp_output *output);
void rp_out_fini(struct rp_format_out *out);

/* Write the buffer to the output. Return: out->error. */
int rp_out_flush(struct rp_format_out *out);

/* The slow part of rp_out_reserve(). */
char *rp_out_reserve_slow(struct rp_format_out *out, size_t bytes);

/* Return: where the next `bytes` go; the caller then adds to out->used. NULL: out->error is set. */
static inline char *rp_out_reserve(struct rp_format_out *out, size_t bytes)
{
	if (bytes <= out->capacity - out->used && !out->error)
		return out->buffer + out->used;
	return rp_out_reserve_slow(out, bytes);
}

void rp_out_bytes_slow(struct rp_format_out *out, const void *bytes, size_t size);

static inline void rp_out_bytes(struct rp_format_out *out, const void *bytes, size_t size)
{
	if (size > out->capacity - out->used || out->error) {
		rp_out_bytes_slow(out, bytes, size);
		return;
	}
	memcpy(out->buffer + out->used, bytes, size);
	out->used += size;
}

static inline void rp_out_text(struct rp_format_out *out, const char *text)
{
	rp_out_bytes(out, text, strlen(text));
}

static inline void rp_out_char(struct rp_format_out *out, char character)
{
	rp_out_bytes(out, &character, 1);
}

/* Write what the buffer of another output contains. */
static inline void rp_out_append(struct rp_format_out *out, const struct rp_format_out *from)
{
	if (from->used)
		rp_out_bytes(out, from->buffer, from->used);
}

/* Move what the buffer of another output contains, or its error. */
static inline void rp_out_move(struct rp_format_out *out, struct rp_format_out *from)
{
	if (from->error && !out->error)
		out->error = from->error;
	rp_out_append(out, from);
	from->used = 0;
}

void rp_out_u64(struct rp_format_out *out, uint64_t number);
void rp_out_i64(struct rp_format_out *out, int64_t number);
/* Write microseconds with three digits after the point. */
void rp_out_us(struct rp_format_out *out, int64_t ns);
/* Write milliseconds with six digits after the point. */
void rp_out_ms(struct rp_format_out *out, int64_t ns);
/* Write two lower-case hexadecimal digits for each byte. */
void rp_out_hex(struct rp_format_out *out, const void *bytes, size_t size);
/* Write a GUID of 16 bytes, in groups. */
void rp_out_guid(struct rp_format_out *out, const void *guid);

#endif
