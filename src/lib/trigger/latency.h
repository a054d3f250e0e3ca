/* SPDX-License-Identifier: MIT */
/* Remembers start events until their stop events. */
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

/* A zeroed struct is empty. */
struct rp_latency {
	struct rp_latency_start starts[RP_LATENCY_SETS][RP_LATENCY_WAYS];
	uint64_t forgotten;	/* entries overwritten because the set was full */
};

void rp_latency_begin(struct rp_latency *latency, const struct rp_guid *key, uint64_t time_ns);

/* Return: false if there is no start for this key. */
bool rp_latency_end(struct rp_latency *latency, const struct rp_guid *key, uint64_t *ret_start_ns);

#endif
