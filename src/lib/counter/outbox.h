/* SPDX-License-Identifier: MIT */
/*
 * Events on their way: {event, bytes, payload}, one after another. Payloads are laid out with the
 * counters' lock held, and written without it: a session in block mode may make the writer wait.
 */
#ifndef RP_COUNTER_OUTBOX_H
#define RP_COUNTER_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

struct rp_event;

struct rp_outbox {
	uint8_t *bytes;
	size_t size, space;
	size_t start;			/* of the last one; SIZE_MAX: there is none */
};

/* An event that there is no memory for is left out, and what is put into it. */
void rp_outbox_begin(struct rp_outbox *out, struct rp_event *event);
void rp_outbox_put(struct rp_outbox *out, const void *bytes, size_t size);
void rp_outbox_text(struct rp_outbox *out, const char *text);
void rp_outbox_double(struct rp_outbox *out, double value);
void rp_outbox_u32(struct rp_outbox *out, uint32_t value);
/* Writes and frees all. Without a lock. */
void rp_outbox_write(struct rp_outbox *out);

#endif
