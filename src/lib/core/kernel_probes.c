/* SPDX-License-Identifier: MIT */
#include "core/kernel_probes.h"

#include <string.h>

#include "base/atomic.h"
#include "base/thread.h"
#include "core/def_table.h"
#include "core/enable.h"
#include "core/provider_table.h"
#include "core/sites.h"
#include "ring/regs.h"
#include "ring/slot.h"

/* In .probes, where bpftrace and perf look for semaphores. */
__attribute__((used, section(".probes"), visibility("hidden"), aligned(8)))
uint64_t rp_slow_path_mask = RP_EXPORTER_BITS;

void rp_slow_path_changed(void)
{
	uint64_t slow_mask = rp_load_relaxed(&rp_slow_path_mask) | ~RP_SESSION_BITS;

	rp_store_relaxed(&rp_regs_slow_mask,
			 rp_rseq_usable && rp_thread_id_offset ? slow_mask : UINT64_MAX);
}

#if defined(RP_PLACE_0_)
__attribute__((visibility("hidden")))
void rp_event_probe(const char *provider, const char *event, const void *payload, size_t bytes,
		    size_t whole_bytes);
#endif

uint32_t rp_event_tracers(const struct rp_event *event)
{
	return (uint32_t)(rp_load_relaxed(event->decl ? &event->enable : &rp_slow_path_mask) >> 48);
}

/*
 * Return a payload of one part in place. Copy several parts into one buffer, because a tracer reads
 * from one address.
 */
static const void *gather(const struct rp_part *parts, unsigned int part_count,
			  unsigned char *space, size_t *ret_bytes, size_t *ret_whole_bytes)
{
	size_t bytes = 0, whole_bytes = 0;

	if (part_count == 1) {
		*ret_bytes = *ret_whole_bytes = parts[0].size_bytes;
		return parts[0].base;
	}
	for (unsigned int i = 0; i < part_count; i++) {
		size_t fitting = RP_PROBE_GATHERED_MAX - bytes;

		if (fitting > parts[i].size_bytes)
			fitting = parts[i].size_bytes;
		if (fitting)
			memcpy(space + bytes, parts[i].base, fitting);
		bytes += fitting;
		whole_bytes += parts[i].size_bytes;
	}
	*ret_bytes = bytes;
	*ret_whole_bytes = whole_bytes;
	return space;
}

void rp_probe_fire(const struct rp_event *event, const struct rp_part *parts,
		   unsigned int part_count)
{
	const struct rp_site *site = event->core;
	unsigned char space[RP_PROBE_GATHERED_MAX];
	size_t bytes, whole_bytes;
	const void *payload;

	if (event->decl || !site)
		return;
	payload = gather(parts, part_count, space, &bytes, &whole_bytes);
#if defined(RP_PLACE_0_)
	RP_PROBE_STUB_("rp_event_probe", "rp_slow_path_mask + 6", "ringpipe", "event",
		       "8@" RP_PLACE_0_ " 8@" RP_PLACE_1_ " 8@" RP_PLACE_2_ " 8@" RP_PLACE_3_
		       " 8@" RP_PLACE_4_);
	rp_event_probe(site->provider->name, site->def->public.name, payload, bytes, whole_bytes);
#endif
}
