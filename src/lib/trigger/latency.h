/* SPDX-License-Identifier: MIT */
/* Beginnings that wait for their end. */
#ifndef RP_TRIGGER_LATENCY_H
#define RP_TRIGGER_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/types.h>

#define RP_LATENCY_WAYS 4u
#define RP_LATENCY_SETS 1024u

struct rp_latency_start {
	struct rp_guid key;
	uint64_t time_ns;	/* 0: free */
};

/* Zeroed: empty. */
struct rp_latency {
	struct rp_latency_start starts[RP_LATENCY_SETS][RP_LATENCY_WAYS];
	uint64_t forgotten;	/* for lack of space, the oldest first */
};

void rp_latency_begin(struct rp_latency *latency, const struct rp_guid *key, uint64_t time_ns);

/* False where nothing began. */
bool rp_latency_end(struct rp_latency *latency, const struct rp_guid *key, uint64_t *ret_start_ns);

#endif
