/* SPDX-License-Identifier: MIT */
/* Registered enable words. All functions need the lock. */
#ifndef RP_CORE_SITES_H
#define RP_CORE_SITES_H

#include <stdbool.h>
#include <stdint.h>

#include <ringpipe/event.h>
#include <urcu/list.h>

#include "base/chains.h"
#include "core/exporters.h"

struct rp_def;
struct rp_provider;

/* A registered struct rp_event: one enable word. */
struct rp_site {
	struct cds_list_head node;	/* in provider->sites */
	struct rp_chain_node by_id;	/* in core.sites */
	struct rp_provider *provider;
	struct rp_event *event;
	struct rp_def *def;
	bool heap;			/* allocated by rp_event_create() */
	struct cds_list_head unreported;	/* in core.unreported, until exporters know of it */
	struct rp_export *exports[RP_EXPORTERS_MAX];	/* by exporter; writers read this array */
};

/* Return the provider's event with this id and version, or NULL. */
const struct rp_event_def *rp_provider_event(const struct rp_provider *provider, uint32_t id,
					     uint8_t version);
int rp_site_add(struct rp_provider *provider, struct rp_event *event, struct rp_def *def,
		bool heap);
void rp_site_remove(struct rp_site *site);

#endif
