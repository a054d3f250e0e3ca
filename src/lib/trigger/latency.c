/* SPDX-License-Identifier: MIT */
#include "trigger/latency.h"

#include <string.h>

#include "base/atomic.h"

static struct rp_latency_start *set_of(struct rp_latency *latency, const struct rp_guid *key)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (unsigned int i = 0; i < sizeof(key->bytes); i++)	/* FNV-1a */
		hash = (hash ^ key->bytes[i]) * 0x100000001b3ull;
	return latency->starts[(hash ^ hash >> 32) % RP_LATENCY_SETS];
}

void rp_latency_begin(struct rp_latency *latency, const struct rp_guid *key, uint64_t time_ns)
{
	struct rp_latency_start *set = set_of(latency, key), *place = set;

	/* Use the key's own entry, else a free one, else the oldest. */
	for (unsigned int i = 0; i < RP_LATENCY_WAYS; i++) {
		if (set[i].time_ns && memcmp(&set[i].key, key, sizeof(*key)) == 0) {
			set[i].time_ns = time_ns;
			return;
		}
		if (set[i].time_ns < place->time_ns)
			place = &set[i];
	}
	if (place->time_ns)
		rp_store_relaxed(&latency->forgotten, latency->forgotten + 1);
	*place = (struct rp_latency_start){ *key, time_ns };
}

bool rp_latency_end(struct rp_latency *latency, const struct rp_guid *key, uint64_t *ret_start_ns)
{
	struct rp_latency_start *set = set_of(latency, key);

	for (unsigned int i = 0; i < RP_LATENCY_WAYS; i++) {
		if (set[i].time_ns && memcmp(&set[i].key, key, sizeof(*key)) == 0) {
			*ret_start_ns = set[i].time_ns;
			set[i].time_ns = 0;
			return true;
		}
	}
	return false;
}
