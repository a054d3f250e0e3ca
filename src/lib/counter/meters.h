/* SPDX-License-Identifier: MIT */
/*
 * Sessions of System.Diagnostics.Metrics. Context: the counters' thread, with the counters' lock
 * held.
 */
#ifndef RP_COUNTER_METERS_H
#define RP_COUNTER_METERS_H

#include <stddef.h>
#include <stdint.h>

struct rp_instrument;
struct rp_outbox;
struct rp_request;

/* Create the events that the requests need. Context: the counters' thread, without a lock. */
void rp_meters_prepare(const struct rp_request *requests, size_t count);
void rp_meters_refresh(const struct rp_request *requests, size_t count, uint64_t now_ns,
		       struct rp_outbox *out);
uint64_t rp_meters_next(void);		/* time of the next event; 0: no request */
void rp_meters_publish(uint64_t now_ns, uint64_t poll, struct rp_outbox *out);
/* Emit the end of an instrument that is being destroyed. Context: any thread. */
void rp_meters_end(struct rp_instrument *instrument, struct rp_outbox *out);
void rp_meters_forget(void);		/* in a forked child */

#endif
