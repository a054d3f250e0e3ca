/* SPDX-License-Identifier: MIT */
/*
 * Sessions that request EventCounters. Context: the counters' thread, with the counters' lock held.
 */
#ifndef RP_COUNTER_EVENT_COUNTERS_H
#define RP_COUNTER_EVENT_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

struct rp_outbox;
struct rp_request;

/* Create the events that the requests need. Context: the counters' thread, without a lock. */
void rp_event_counters_prepare(const struct rp_request *requests, size_t count);
void rp_event_counters_refresh(const struct rp_request *requests, size_t count, uint64_t now_ns);
uint64_t rp_event_counters_next(void);		/* time of the next event; 0: no request */
void rp_event_counters_publish(uint64_t now_ns, uint64_t poll, struct rp_outbox *out);
void rp_event_counters_forget(void);		/* in a forked child */

#endif
