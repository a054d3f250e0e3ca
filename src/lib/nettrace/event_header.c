/* SPDX-License-Identifier: MIT */
#include "nettrace/event_header.h"

/* In an uncompressed header the id's top bit means "not sorted". */
#define UNSORTED 0x80000000u

int rp_wire_block_header(struct rp_cursor *block, struct rp_wire_layout *layout)
{
	uint16_t size, flags;
	const uint8_t *rest;

	layout->start = block->at;
	if (rp_cursor_u16(block, &size) < 0 || rp_cursor_u16(block, &flags) < 0 ||
	    size < RP_BLOCK_HEADER_BYTES || rp_cursor_take(block, size - 4, &rest) < 0)
		return -EBADMSG;
	layout->compressed = flags & RP_BLOCK_COMPRESSED;
	return 0;
}

static int take_capture(struct rp_cursor *block, struct rp_wire_event *event)
{
	uint32_t step;

	if (rp_cursor_varint32(block, &step) < 0 ||
	    rp_cursor_varint(block, &event->capture_thread) < 0 ||
	    rp_cursor_varint32(block, &event->processor) < 0)
		return -EBADMSG;
	event->sequence += step;
	return 0;
}

/* Activity ids, or a label list's id: the two versions use the same flag. */
static int take_ids(struct rp_cursor *block, bool has_labels, uint8_t flags,
		    struct rp_wire_event *event)
{
	if (has_labels)
		return flags & RP_EVENT_LABELS ? rp_cursor_varint32(block, &event->labels) : 0;
	if ((flags & RP_EVENT_ACTIVITY && rp_cursor_copy(block, event->activity, 16) < 0) ||
	    (flags & RP_EVENT_RELATED && rp_cursor_copy(block, event->related, 16) < 0))
		return -EBADMSG;
	return 0;
}

static int take_compressed(struct rp_cursor *block, bool has_labels, struct rp_wire_event *event,
			   struct rp_cursor *ret_payload)
{
	const uint8_t *flag_byte;
	uint64_t step;
	uint8_t flags;

	if (rp_cursor_take(block, 1, &flag_byte) < 0)
		return -EBADMSG;
	flags = *flag_byte;
	event->sorted = flags & RP_EVENT_SORTED;
	if ((flags & RP_EVENT_METADATA && rp_cursor_varint32(block, &event->metadata_id) < 0) ||
	    (flags & RP_EVENT_CAPTURE && take_capture(block, event) < 0) ||
	    (flags & RP_EVENT_THREAD && rp_cursor_varint(block, &event->thread) < 0) ||
	    (flags & RP_EVENT_STACK && rp_cursor_varint32(block, &event->stack) < 0) ||
	    rp_cursor_varint(block, &step) < 0 ||
	    take_ids(block, has_labels, flags, event) < 0 ||
	    (flags & RP_EVENT_SIZE && rp_cursor_varint32(block, &event->payload_bytes) < 0))
		return -EBADMSG;
	event->time += step;
	if (event->metadata_id)
		event->sequence++;
	return rp_cursor_sub(block, event->payload_bytes, ret_payload);
}

static int take_fixed_ids(struct rp_cursor *body, bool has_labels, struct rp_wire_event *event)
{
	if (has_labels)
		return rp_cursor_u32(body, &event->labels);
	return take_ids(body, false, RP_EVENT_ACTIVITY | RP_EVENT_RELATED, event);
}

static int take_fixed(struct rp_cursor *block, const struct rp_wire_layout *layout,
		      struct rp_wire_event *event, struct rp_cursor *ret_payload)
{
	struct rp_cursor body;
	const uint8_t *padding;
	uint32_t size;

	if (rp_cursor_u32(block, &size) < 0 || rp_cursor_sub(block, size, &body) < 0 ||
	    rp_cursor_u32(&body, &event->metadata_id) < 0 ||
	    rp_cursor_u32(&body, &event->sequence) < 0 ||
	    rp_cursor_u64(&body, &event->thread) < 0 ||
	    rp_cursor_u64(&body, &event->capture_thread) < 0 ||
	    rp_cursor_u32(&body, &event->processor) < 0 ||
	    rp_cursor_u32(&body, &event->stack) < 0 ||
	    rp_cursor_u64(&body, &event->time) < 0 ||
	    take_fixed_ids(&body, layout->has_labels, event) < 0 ||
	    rp_cursor_u32(&body, &event->payload_bytes) < 0 ||
	    rp_cursor_sub(&body, event->payload_bytes, ret_payload) < 0)
		return -EBADMSG;
	event->sorted = !(event->metadata_id & UNSORTED);
	event->metadata_id &= ~UNSORTED;
	if (layout->has_labels)
		return 0;
	/* Events begin at multiples of 4. Only some writers include the padding in the size. */
	size = -(block->at - layout->start) & 3;
	if (rp_cursor_left(block) < size)
		size = rp_cursor_left(block);
	return rp_cursor_take(block, size, &padding);
}

int rp_wire_event_take(struct rp_cursor *block, const struct rp_wire_layout *layout,
		       struct rp_wire_event *event, struct rp_cursor *ret_payload)
{
	if (layout->compressed)
		return take_compressed(block, layout->has_labels, event, ret_payload);
	return take_fixed(block, layout, event, ret_payload);
}

void rp_wire_block_header_put(uint8_t *out, uint64_t first_time, uint64_t last_time)
{
	const uint16_t head[2] = { RP_BLOCK_HEADER_BYTES, RP_BLOCK_COMPRESSED };

	memcpy(out, head, 4);
	memcpy(out + 4, &first_time, 8);
	memcpy(out + 12, &last_time, 8);
}

static uint8_t *put_guid(uint8_t *p, const uint8_t *guid, const uint8_t *known, uint8_t flag,
			 uint8_t *flags)
{
	if (!memcmp(guid, known, 16))
		return p;
	*flags |= flag;
	memcpy(p, guid, 16);
	return p + 16;
}

static uint8_t *put_ids(uint8_t *p, const struct rp_wire_event *state,
			const struct rp_wire_event *event, bool has_labels, uint8_t *flags)
{
	if (!has_labels) {
		p = put_guid(p, event->activity, state->activity, RP_EVENT_ACTIVITY, flags);
		return put_guid(p, event->related, state->related, RP_EVENT_RELATED, flags);
	}
	if (event->labels == state->labels)
		return p;
	*flags |= RP_EVENT_LABELS;
	return rp_wire_varint_put(p, event->labels);
}

size_t rp_wire_event_put(struct rp_wire_event *state, const struct rp_wire_event *event,
			 bool has_labels, uint8_t *out)
{
	uint8_t flags = event->sorted ? RP_EVENT_SORTED : 0, *p = out + 1;

	if (event->metadata_id != state->metadata_id) {
		flags |= RP_EVENT_METADATA;
		p = rp_wire_varint_put(p, event->metadata_id);
	}
	if (event->capture_thread != state->capture_thread ||
	    event->processor != state->processor || event->sequence != state->sequence + 1) {
		flags |= RP_EVENT_CAPTURE;
		p = rp_wire_varint_put(p, event->sequence - state->sequence - 1);
		p = rp_wire_varint_put(p, event->capture_thread);
		p = rp_wire_varint_put(p, event->processor);
	}
	if (event->thread != state->thread) {
		flags |= RP_EVENT_THREAD;
		p = rp_wire_varint_put(p, event->thread);
	}
	if (event->stack != state->stack) {
		flags |= RP_EVENT_STACK;
		p = rp_wire_varint_put(p, event->stack);
	}
	p = rp_wire_varint_put(p, event->time - state->time);
	p = put_ids(p, state, event, has_labels, &flags);
	if (event->payload_bytes != state->payload_bytes) {
		flags |= RP_EVENT_SIZE;
		p = rp_wire_varint_put(p, event->payload_bytes);
	}
	*out = flags;
	*state = *event;
	return p - out;
}
