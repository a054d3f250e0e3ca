/* SPDX-License-Identifier: MIT */
/*
 * The short way for what most events of a busy thread are: another event of the thread and the
 * processor of the one before, with a payload that the format has as it is. Compiled into the loop
 * that gives events to an encoder.
 */
#ifndef RP_NETTRACE_REPEAT_H
#define RP_NETTRACE_REPEAT_H

#include <stdbool.h>
#include <string.h>

#include "nettrace/encoder.h"
#include "nettrace/event.h"
#include "nettrace/format.h"

/* How an event type begins. */
struct rp_encoder_plain {
	uint32_t metadata_id;
	uint32_t bytes;		/* of each payload; UINT32_MAX: it goes the long way */
};

struct rp_encoder_repeat {
	uint8_t *at, *end;	/* of the open block, its memory; the same: nothing repeats */
	uint64_t thread;
	uint64_t time_ns;
	uint32_t processor;
	uint32_t metadata_id;
	uint32_t payload_bytes;
	uint32_t count;		/* written so, and not in the encoder's accounts yet */
};

/* Lives as long as the encoder. */
struct rp_encoder_repeat *rp_encoder_repeat(struct rp_encoder *encoder);

/* Whether the short way is open to the event; on the wire its payload has up to `bound` bytes. */
static inline bool rp_encoder_may_repeat(const struct rp_encoder_repeat *repeat,
					 const struct rp_encoder_event *event, size_t bound)
{
	return event->thread == repeat->thread && event->processor == repeat->processor &&
	       !event->frame_count && !event->activity && !event->related_activity &&
	       (size_t)(repeat->end - repeat->at) >= RP_WIRE_HEADER_MAX + bound;
}

/* Writes its header, of what is not as before. Returns where the payload begins. */
static inline uint8_t *rp_encoder_repeat_header(struct rp_encoder_repeat *repeat,
						const struct rp_encoder_event *event,
						uint32_t payload_bytes)
{
	const struct rp_encoder_plain *plain = (const void *)event->type;
	uint8_t *start = repeat->at, *p = start + 1, flags = RP_EVENT_SORTED;

	if (plain->metadata_id != repeat->metadata_id) {
		flags |= RP_EVENT_METADATA;
		p = rp_wire_varint_put(p, plain->metadata_id);
		repeat->metadata_id = plain->metadata_id;
	}
	p = rp_wire_varint_put(p, event->time_ns - repeat->time_ns);
	if (payload_bytes != repeat->payload_bytes) {
		flags |= RP_EVENT_SIZE;
		p = rp_wire_varint_put(p, payload_bytes);
		repeat->payload_bytes = payload_bytes;
	}
	*start = flags;
	repeat->at = p + payload_bytes;
	repeat->time_ns = event->time_ns;
	repeat->count++;
	return p;
}

/*
 * As rp_encoder_event(), with a payload that is not NULL. Return: false: nothing was done, the
 * event goes the long way.
 */
static inline bool rp_encoder_repeats(struct rp_encoder_repeat *repeat,
				      const struct rp_encoder_event *event)
{
	const struct rp_encoder_plain *plain = (const void *)event->type;

	if (event->payload_bytes != plain->bytes ||
	    !rp_encoder_may_repeat(repeat, event, event->payload_bytes))
		return false;
	memcpy(rp_encoder_repeat_header(repeat, event, plain->bytes), event->payload,
	       event->payload_bytes);
	return true;
}

#endif
