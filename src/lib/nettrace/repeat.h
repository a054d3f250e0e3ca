/* SPDX-License-Identifier: MIT */
/*
 * The encoder's fast path, for an event of the same thread and processor as the previous event,
 * without a stack and ids. Most events of a busy thread are such events. The functions are inline,
 * in the loop that passes events to an encoder.
 */
#ifndef RP_NETTRACE_REPEAT_H
#define RP_NETTRACE_REPEAT_H

#include <stdbool.h>
#include <string.h>

#include "nettrace/encoder.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"

/* The first member of struct rp_encoder_event_type: what the fast path needs. */
struct rp_encoder_plain {
	uint32_t metadata_id;
	uint32_t bytes;		/* of each payload; UINT32_MAX: converted, or not in the stream */
	bool converts;
};

struct rp_encoder_repeat {
	uint8_t *at, *end;	/* free memory of the open block; equal: no fast path now */
	uint64_t thread;
	uint64_t time_ns;
	uint32_t processor;
	uint32_t metadata_id;
	uint32_t payload_bytes;
	uint32_t count;		/* events of the fast path that the encoder has not yet counted */
};

/* Return the state of the fast path, which lives as long as the encoder. */
struct rp_encoder_repeat *rp_encoder_repeat(struct rp_encoder *encoder);

/* Whether rp_encoder_repeat_run() can encode an event. The event has no stack and no ids. */
static inline bool rp_encoder_repeats(const struct rp_encoder_repeat *repeat,
				      const struct rp_encoder_event_type *type, uint64_t thread,
				      uint32_t processor, uint32_t payload_bytes)
{
	const struct rp_encoder_plain *plain = (const void *)type;

	return (payload_bytes == plain->bytes || plain->converts) && thread == repeat->thread &&
	       processor == repeat->processor;
}

/* Write a header: only what differs from the previous event. Return: where the payload begins. */
static inline uint8_t *rp_encoder_repeat_header(struct rp_encoder_repeat *repeat,
						const struct rp_encoder_event_type *type,
						uint64_t time_ns, uint32_t payload_bytes)
{
	const struct rp_encoder_plain *plain = (const void *)type;
	uint8_t *start = repeat->at, *p = start + 1, flags = RP_EVENT_SORTED;

	if (plain->metadata_id != repeat->metadata_id) {
		flags |= RP_EVENT_METADATA;
		p = rp_wire_varint_put(p, plain->metadata_id);
		repeat->metadata_id = plain->metadata_id;
	}
	p = rp_wire_varint_put(p, time_ns - repeat->time_ns);
	if (payload_bytes != repeat->payload_bytes) {
		flags |= RP_EVENT_SIZE;
		p = rp_wire_varint_put(p, payload_bytes);
		repeat->payload_bytes = payload_bytes;
	}
	*start = flags;
	repeat->at = p + payload_bytes;
	repeat->time_ns = time_ns;
	repeat->count++;
	return p;
}

/* memcpy(3), without a call for the most common sizes. */
static inline void rp_encoder_copy(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (bytes < 16 || bytes > 32) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(to, from, 16);
	memcpy(to + bytes - 16, from + bytes - 16, 16);
}

/* As rp_encoder_repeat_run(), for a payload that has to be converted, such as one with strings. */
bool rp_encoder_repeat_run_converted(struct rp_encoder_repeat *repeat,
				     const struct rp_encoder_event_type *type, uint64_t time_ns,
				     const void *payload, uint32_t payload_bytes);

/*
 * Encode an event for which rp_encoder_repeats() returned true. The payload is not NULL. Return:
 * false if the block has no space: nothing was done, so call rp_encoder_event().
 */
static inline bool rp_encoder_repeat_run(struct rp_encoder_repeat *repeat,
					 const struct rp_encoder_event_type *type, uint64_t time_ns,
					 const void *payload, uint32_t payload_bytes)
{
	const struct rp_encoder_plain *plain = (const void *)type;

	if (plain->converts)
		return rp_encoder_repeat_run_converted(repeat, type, time_ns, payload,
						       payload_bytes);
	if ((size_t)(repeat->end - repeat->at) < RP_WIRE_HEADER_MAX + payload_bytes)
		return false;
	rp_encoder_copy(rp_encoder_repeat_header(repeat, type, time_ns, payload_bytes), payload,
			payload_bytes);
	return true;
}

#endif
