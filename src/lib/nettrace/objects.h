/* SPDX-License-Identifier: MIT */
/* The outer layer of the stream: its header, then V4's aligned objects or V6's blocks. */
#ifndef RP_NETTRACE_OBJECTS_H
#define RP_NETTRACE_OBJECTS_H

#include "nettrace/encoder.h"
#include "nettrace/format.h"
#include "nettrace/outbuf.h"

/* An object around its content: tags, versions, name, block size, padding, end tag. */
#define RP_OBJECT_BYTES 64u

struct rp_object_stream {
	struct rp_outbuf output;
	bool is_v6;
	size_t head;		/* consumed of the output */
	uint64_t offset;	/* in the stream, of the end of the output */
};

/*
 * Reserve space for `size` bytes. 0; -ENOMEM. The other functions only fill reserved space, unless
 * they state otherwise, so the caller's step happens completely or not at all.
 */
int rp_object_stream_reserve(struct rp_object_stream *stream, size_t size);

void rp_object_stream_put(struct rp_object_stream *stream, const void *bytes, size_t size);
void rp_object_stream_put_u32(struct rp_object_stream *stream, uint32_t value);
void rp_object_stream_put_u64(struct rp_object_stream *stream, uint64_t value);

/* Begin and end a block. Put its `size` bytes of content between the two calls. */
void rp_object_stream_begin_block(struct rp_object_stream *stream, enum rp_block_kind kind,
				  uint32_t size);
void rp_object_stream_end_block(struct rp_object_stream *stream);

void rp_object_stream_put_block(struct rp_object_stream *stream, enum rp_block_kind kind,
				const void *content, size_t size);

/* Put the end of the stream. Reserves its own space. 0; -ENOMEM. */
int rp_object_stream_put_end(struct rp_object_stream *stream);

/* Put 16 bytes: a date and time, to the millisecond. */
void rp_object_stream_put_utc(struct rp_object_stream *stream, int64_t utc_ns);

/* The bytes that rp_object_stream_end_block() puts. */
static inline uint32_t rp_object_stream_end_bytes(const struct rp_object_stream *stream)
{
	return stream->is_v6 ? 0 : 1;
}

/*
 * Put the file header and the Trace object, before all blocks. Reserves its own space. 0; -ENOMEM.
 */
int rp_object_stream_put_header(struct rp_object_stream *stream,
				const struct rp_encoder_info *info);

#endif
