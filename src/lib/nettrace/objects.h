/* SPDX-License-Identifier: MIT */
/* The outer layer of the stream: objects one after another, aligned blocks, the head. */
#ifndef RP_NETTRACE_OBJECTS_H
#define RP_NETTRACE_OBJECTS_H

#include "nettrace/encoder.h"
#include "nettrace/outbuf.h"

/* An object around its content: tags, versions, name, block size, padding, end tag. */
#define RP_OBJECT_BYTES 64u
/* The end tag after an object's content. */
#define RP_OBJECT_END_BYTES 1u

struct rp_object_stream {
	struct rp_outbuf output;
	size_t head;		/* consumed of the output */
	uint64_t offset;	/* in the stream, of the end of the output */
};

/*
 * Makes room for `size` bytes; -ENOMEM. All others only fill room made before, so that a step
 * happens whole or not at all.
 */
int rp_object_stream_reserve(struct rp_object_stream *stream, size_t size);

void rp_object_stream_put(struct rp_object_stream *stream, const void *bytes, size_t size);
void rp_object_stream_put_u32(struct rp_object_stream *stream, uint32_t value);
void rp_object_stream_put_u64(struct rp_object_stream *stream, uint64_t value);

/* A block of `size` bytes, which are put between the two calls. */
void rp_object_stream_begin_block(struct rp_object_stream *stream, const char *name, uint32_t size);
void rp_object_stream_end_block(struct rp_object_stream *stream);

void rp_object_stream_put_block(struct rp_object_stream *stream, const char *name,
				const void *content, size_t size);

/*
 * Put the file header and the Trace object, before all blocks. Reserves its own space. 0; -ENOMEM.
 */
int rp_object_stream_put_header(struct rp_object_stream *stream,
				const struct rp_encoder_info *info);

#endif
