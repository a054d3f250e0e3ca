/* SPDX-License-Identifier: MIT */
/*
 * A queue of events to write: {event, bytes, payload}, one after another. The counters' thread
 * builds the payloads with the counters' lock held and writes the events without it, because a
 * session in block mode may make the writer wait.
 */
#ifndef RP_COUNTER_OUTBOX_H
#define RP_COUNTER_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

struct rp_event;

struct rp_outbox {
	uint8_t *bytes;
	size_t size, space;
	size_t start;			/* of the last event; SIZE_MAX: it was left out */
};

/* Begin an event. If there is no memory for the event or its payload, it is left out. */
void rp_outbox_begin(struct rp_outbox *out, struct rp_event *event);
void rp_outbox_put(struct rp_outbox *out, const void *bytes, size_t size);
void rp_outbox_text(struct rp_outbox *out, const char *text);
void rp_outbox_double(struct rp_outbox *out, double value);
void rp_outbox_u32(struct rp_outbox *out, uint32_t value);
/* Write and free all events. Context: without a lock. */
void rp_outbox_write(struct rp_outbox *out);

#endif
