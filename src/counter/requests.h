/* SPDX-License-Identifier: MIT */
/*
 * What sessions ask for, and telling them: the counters' thread, and the two forms it speaks in.
 * Payloads are laid out with the counters' lock held, and written without it.
 */
#ifndef RP_COUNTER_REQUESTS_H
#define RP_COUNTER_REQUESTS_H

#include <stddef.h>

#include "core/session.h"
#include "counter/state.h"

/* Events on their way: {event, bytes, payload}, one after another. */
struct rp_outbox {
	uint8_t *bytes;
	size_t size, room;
	size_t start;			/* of the last one */
};

void rp_outbox_begin(struct rp_outbox *out, struct rp_event *event);
void rp_outbox_put(struct rp_outbox *out, const void *bytes, size_t size);
void rp_outbox_text(struct rp_outbox *out, const char *text);
void rp_outbox_double(struct rp_outbox *out, double value);
void rp_outbox_u32(struct rp_outbox *out, uint32_t value);

/* thread.c: wakes the thread, if there is one, to look at the sessions again. Any context. */
void rp_requests_look(void);
/* With the lock held, before it is freed: clients are told that it goes. */
void rp_requests_end_instrument(struct rp_instrument *instrument);
/* With the lock held: runs the callbacks of all the group's counters that were not in this poll. */
void rp_group_observe(struct rp_group *group, uint64_t poll);
/* The number, or `otherwise` when the key is missing or it is none. Takes "0.5", not "0,5". */
double rp_request_number(const char *filter_data, const char *key, double otherwise);

/* event_counters.c, on the thread, with the lock held */
void rp_event_counters_refresh(const struct rp_request *requests, size_t count, uint64_t now_ns);
uint64_t rp_event_counters_next(void);		/* when; 0: nobody asked */
void rp_event_counters_publish(uint64_t now_ns, uint64_t poll, struct rp_outbox *out);
void rp_event_counters_forget(void);		/* in a forked child */

#endif
