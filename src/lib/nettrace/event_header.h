/* SPDX-License-Identifier: MIT */
/* Event headers: reads both kinds from untrusted bytes, and writes the compressed kind. */
#ifndef RP_NETTRACE_EVENT_HEADER_H
#define RP_NETTRACE_EVENT_HEADER_H

#include <stdbool.h>

#include "base/cursor.h"
#include "nettrace/format.h"

/* An event's header. The next compressed header leaves out the fields that are the same. */
struct rp_wire_event {
	uint64_t time;
	uint64_t thread;
	uint64_t capture_thread;
	uint32_t metadata_id;
	uint32_t sequence;
	uint32_t processor;
	uint32_t stack;
	uint32_t payload_bytes;
	bool sorted;
	uint32_t labels;	/* V6: id of a label list; `activity` and `related` are V4's */
	uint8_t activity[16];	/* in the wire's byte order */
	uint8_t related[16];
};

/* The layout of the events in one block. */
struct rp_wire_layout {
	const uint8_t *start;	/* of the block; V4 pads uncompressed events from there */
	bool compressed;
	bool has_labels;	/* V6: a label list instead of activity ids, and no padding */
};

/*
 * Take a block's header: u16 header size, u16 flags, and the rest of that size. Sets `start` and
 * `compressed` of the layout. -EBADMSG.
 */
int rp_wire_block_header(struct rp_cursor *block, struct rp_wire_layout *layout);

/*
 * Take the next event of a block. `event` is zero for a block's first event and holds the previous
 * event for all others. Return: 0; -EBADMSG: `event` is then undefined.
 */
int rp_wire_event_take(struct rp_cursor *block, const struct rp_wire_layout *layout,
		       struct rp_wire_event *event, struct rp_cursor *ret_payload);

/* The parts of a header that repeats the previous one; see rp_wire_event_find_repeat(). */
struct rp_wire_repeat {
	const uint8_t *payload;
	uint64_t step;			/* of the time */
	uint32_t metadata_id;
	uint32_t payload_bytes;
	uint8_t flags;
};

/* No header with three numbers of up to four bytes each is longer. */
#define RP_WIRE_SHORT_BYTES 13u

/* Take a number of up to four bytes, of which all four exist. Return: whether it is one. */
static inline bool rp_wire_take_short(const uint8_t **at, uint32_t *ret_value)
{
	uint32_t word, last;

	if (**at < 0x80) {
		*ret_value = *(*at)++;
		return true;
	}
	memcpy(&word, *at, sizeof(word));
	/* The lowest clear bit 7 is that of the last byte. */
	last = ~word & 0x80808080u;
	if (!last)
		return false;
	word &= last ^ (last - 1);
	*ret_value = (word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000) |
		     (word >> 3 & 0xfe00000);
	*at += (__builtin_ctz(last) >> 3) + 1;
	return true;
}

/* Find a repeat in a header at whose start RP_WIRE_SHORT_BYTES exist, if its numbers are short. */
static inline bool rp_wire_event_find_short(const uint8_t *at, const uint8_t *end,
					    struct rp_wire_repeat *repeat)
{
	uint32_t step;

	repeat->flags = *at++;
	if (repeat->flags & (uint8_t)~(RP_EVENT_SORTED | RP_EVENT_SIZE | RP_EVENT_METADATA) ||
	    (repeat->flags & RP_EVENT_METADATA && !rp_wire_take_short(&at, &repeat->metadata_id)) ||
	    !repeat->metadata_id || !rp_wire_take_short(&at, &step) ||
	    (repeat->flags & RP_EVENT_SIZE && !rp_wire_take_short(&at, &repeat->payload_bytes)) ||
	    repeat->payload_bytes > (size_t)(end - at))
		return false;
	repeat->step = step;
	repeat->payload = at;
	return true;
}

/* The same for any header. */
static inline bool rp_wire_event_find_any(struct rp_cursor c, struct rp_wire_repeat *repeat)
{
	return rp_cursor_u8(&c, &repeat->flags) == 0 &&
	       !(repeat->flags & (uint8_t)~(RP_EVENT_SORTED | RP_EVENT_SIZE | RP_EVENT_METADATA)) &&
	       (!(repeat->flags & RP_EVENT_METADATA) ||
		rp_cursor_varint32(&c, &repeat->metadata_id) == 0) &&
	       repeat->metadata_id && rp_cursor_varint(&c, &repeat->step) == 0 &&
	       (!(repeat->flags & RP_EVENT_SIZE) ||
		rp_cursor_varint32(&c, &repeat->payload_bytes) == 0) &&
	       rp_cursor_take(&c, repeat->payload_bytes, &repeat->payload) == 0;
}

/*
 * Find the next event of a block with compressed headers if it differs from the previous event only
 * in its type, its time, its payload and the size of that, and has the next number of the same
 * thread. Most events of a busy thread are such events.
 *
 * This function is exact because it accepts only headers in which rp_wire_event_take() would take
 * the same fields from the same bytes. It changes nothing: rp_wire_event_take_repeat() takes the
 * event.
 *
 * `event` holds the previous event of the block. An event of metadata id 0 has no number of its own
 * and is refused. Return: whether there is such an event; false: call rp_wire_event_take().
 */
static inline bool rp_wire_event_find_repeat(const struct rp_cursor *block,
					     const struct rp_wire_event *event,
					     struct rp_wire_repeat *ret_repeat)
{
	ret_repeat->metadata_id = event->metadata_id;
	ret_repeat->payload_bytes = event->payload_bytes;
	if (rp_cursor_left(block) >= RP_WIRE_SHORT_BYTES &&
	    rp_wire_event_find_short(block->at, block->end, ret_repeat))
		return true;
	ret_repeat->metadata_id = event->metadata_id;
	ret_repeat->payload_bytes = event->payload_bytes;
	return rp_wire_event_find_any(*block, ret_repeat);
}

/* Take an event that rp_wire_event_find_repeat() has found. */
static inline void rp_wire_event_take_repeat(struct rp_cursor *block, struct rp_wire_event *event,
					     const struct rp_wire_repeat *repeat)
{
	event->sorted = repeat->flags & RP_EVENT_SORTED;
	event->time += repeat->step;
	event->sequence++;
	event->metadata_id = repeat->metadata_id;
	event->payload_bytes = repeat->payload_bytes;
	block->at = repeat->payload + repeat->payload_bytes;
}

/* Put a number, seven bits a byte, the lowest first. Return: where it ends. */
static inline uint8_t *rp_wire_varint_put(uint8_t *p, uint64_t value)
{
	while (value >= 0x80) {
		*p++ = value | 0x80;
		value >>= 7;
	}
	*p++ = value;
	return p;
}

/* The header of a block with compressed event headers: RP_BLOCK_HEADER_BYTES. */
void rp_wire_block_header_put(uint8_t *out, uint64_t first_time, uint64_t last_time);

/* No compressed header is longer. */
#define RP_WIRE_HEADER_MAX 96u

/*
 * Write a compressed header, which contains only what differs from `state`: the previous event of
 * the block, or zeros for the first. Then `state` is this event. `has_labels` is as in struct
 * rp_wire_layout. Return: the size of the header.
 */
size_t rp_wire_event_put(struct rp_wire_event *state, const struct rp_wire_event *event,
			 bool has_labels, uint8_t *out);

#endif
