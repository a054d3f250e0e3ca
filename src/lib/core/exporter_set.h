/* SPDX-License-Identifier: MIT */
/* The registered exporters, as the engine calls them. */
#ifndef RP_CORE_EXPORTER_SET_H
#define RP_CORE_EXPORTER_SET_H

#include <stdint.h>

#include <ringpipe/event.h>

#include "core/exporters.h"

struct rp_provider;

/* One of core.exporters. */
struct rp_exporter {
	const struct rp_exporter_ops *ops;
	uint64_t id;		/* from the ids of sessions */
	uint32_t slot;		/* its index in core.exporters */
};

/* The state of an exporter that a provider's callback received last. */
struct rp_export_state {
	uint64_t keywords;	/* union over the events that the exporter enabled */
	uint64_t lost;		/* includes events that are disabled now */
	uint32_t events;
	uint8_t level;		/* the highest of these events */
};

/* Without the lock, but with the exporters' lock. */
void rp_exporters_settle(void);		/* announces new sites */
void rp_exporters_withdraw(struct rp_provider *provider);
void rp_exporters_withdraw_event(struct rp_event *event);

/* With the lock held. */
void rp_export_state_get(const struct rp_provider *provider, const struct rp_exporter *exporter,
			 struct rp_export_state *ret_state);
void rp_exporters_replay(struct rp_provider *provider);	/* for a new callback */
uint64_t rp_exporters_kernel_bits(void);

/* On the writer's thread. */
void rp_export_write(const struct rp_event *event, uint64_t bit, const struct rp_part *parts,
		     unsigned int part_count, uint64_t payload_bytes);

/* The handlers that ringpipe.c registers, around those of the engine. */
void rp_exporters_fork_prepare(void);
void rp_exporters_fork_parent(void);
void rp_exporters_fork_child(void);

#endif
