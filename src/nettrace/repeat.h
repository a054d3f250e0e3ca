/* SPDX-License-Identifier: MIT */
/*
 * The short way for what most events of a busy thread are: the one before again, with another time
 * and another payload. Compiled into the loop that gives events to an encoder.
 */
#ifndef RP_NETTRACE_REPEAT_H
#define RP_NETTRACE_REPEAT_H

#include <stdbool.h>
#include <string.h>

#include "nettrace/encoder.h"
#include "nettrace/event.h"
#include "nettrace/format.h"

struct rp_encoder_repeat {
	const struct rp_encoder_event_type *type;	/* NULL: the next event does not repeat */
	uint64_t thread;
	uint64_t time_ns;
	uint32_t processor;
	uint32_t payload_bytes;
	uint8_t *at, *end;		/* of the open block, and of its memory */
	uint32_t count;			/* written so, and not in the encoder's accounts yet */
};

/* Lives as long as the encoder. */
struct rp_encoder_repeat *rp_encoder_repeat(struct rp_encoder *encoder);

/*
 * As rp_encoder_event(), with a payload that is not NULL. Return: false: nothing was done, the
 * event does not repeat.
 */
static inline bool rp_encoder_repeats(struct rp_encoder_repeat *repeat,
				      const struct rp_encoder_event *event)
{
	uint8_t *p = repeat->at;

	if (event->type != repeat->type || event->thread != repeat->thread ||
	    event->processor != repeat->processor || event->frame_count ||
	    event->activity || event->related_activity ||
	    event->payload_bytes != repeat->payload_bytes ||
	    (size_t)(repeat->end - p) < RP_WIRE_HEADER_MAX + event->payload_bytes)
		return false;
	*p++ = RP_EVENT_SORTED;
	p = rp_wire_varint_put(p, event->time_ns - repeat->time_ns);
	memcpy(p, event->payload, event->payload_bytes);
	repeat->at = p + event->payload_bytes;
	repeat->time_ns = event->time_ns;
	repeat->count++;
	return true;
}

#endif
