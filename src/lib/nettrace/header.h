/* SPDX-License-Identifier: MIT */
/* Writes the compressed header of an event of the encoder. */
#ifndef RP_NETTRACE_HEADER_H
#define RP_NETTRACE_HEADER_H

#include "nettrace/encoder.h"
#include "nettrace/event_header.h"
#include "nettrace/format.h"

/* Values that a reader keeps from one compressed header to the next. */
struct rp_header_state {
	uint64_t time;
	uint64_t capture_thread;
	uint64_t thread;
	uint32_t metadata_id;
	uint32_t sequence;
	uint32_t processor;
	uint32_t stack;
	uint32_t payload_bytes;
	uint32_t labels;		/* V6 */
	struct rp_guid activity;	/* V4 */
	struct rp_guid related;
};

static inline uint8_t *rp_header_put_guid(uint8_t *p, const struct rp_guid *guid,
					  struct rp_guid *known, uint8_t flag, uint8_t *flags)
{
	static const struct rp_guid none;

	if (!guid)
		guid = &none;
	if (!memcmp(guid, known, sizeof(*guid)))
		return p;
	*known = *guid;
	*flags |= flag;
	rp_guid_swap(guid->bytes, p);
	return p + sizeof(*guid);
}

/* Put the activity ids, or in V6 the id of the label list that contains them. */
static inline uint8_t *rp_header_put_ids(struct rp_header_state *state,
					 const struct rp_encoder_event *event,
					 const struct rp_header_state *now, bool is_v6, uint8_t *p,
					 uint8_t *flags)
{
	if (!is_v6) {
		p = rp_header_put_guid(p, event->activity, &state->activity, RP_EVENT_ACTIVITY,
				       flags);
		return rp_header_put_guid(p, event->related_activity, &state->related,
					  RP_EVENT_RELATED, flags);
	}
	if (now->labels == state->labels)
		return p;
	state->labels = now->labels;
	*flags |= RP_EVENT_LABELS;
	return rp_wire_varint_put(p, now->labels);
}

/* Write what differs from the previous event. Return: where the payload begins. */
static inline uint8_t *rp_header_put(struct rp_header_state *state,
				     const struct rp_encoder_event *event,
				     const struct rp_header_state *now, bool is_v6, uint8_t *start)
{
	uint8_t flags = RP_EVENT_SORTED, *p = start + 1;

	if (now->metadata_id != state->metadata_id) {
		flags |= RP_EVENT_METADATA;
		p = rp_wire_varint_put(p, now->metadata_id);
	}
	if (now->capture_thread != state->capture_thread || now->processor != state->processor ||
	    now->sequence != state->sequence + 1) {
		flags |= RP_EVENT_CAPTURE;
		p = rp_wire_varint_put(p, now->sequence - state->sequence - 1);
		p = rp_wire_varint_put(p, now->capture_thread);
		p = rp_wire_varint_put(p, now->processor);
	}
	if (now->thread != state->thread) {
		flags |= RP_EVENT_THREAD;
		p = rp_wire_varint_put(p, now->thread);
	}
	if (now->stack != state->stack) {
		flags |= RP_EVENT_STACK;
		p = rp_wire_varint_put(p, now->stack);
	}
	p = rp_wire_varint_put(p, now->time - state->time);
	p = rp_header_put_ids(state, event, now, is_v6, p, &flags);
	if (now->payload_bytes != state->payload_bytes) {
		flags |= RP_EVENT_SIZE;
		p = rp_wire_varint_put(p, now->payload_bytes);
	}
	start[0] = flags;
	state->metadata_id = now->metadata_id;
	state->capture_thread = now->capture_thread;
	state->thread = now->thread;
	state->sequence = now->sequence;
	state->processor = now->processor;
	state->stack = now->stack;
	state->time = now->time;
	state->payload_bytes = now->payload_bytes;
	return p;
}

#endif
