/* SPDX-License-Identifier: MIT */
/*
 * The bits of enable words. All functions need the lock, except those that copy options.
 */
#ifndef RP_CORE_ENABLE_H
#define RP_CORE_ENABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/session.h>

#include "ring/slot.h"

struct rp_event_def;
struct rp_provider;
struct rp_session;
struct rp_site;

#define RP_SESSION_BITS ((1ull << RP_SLOTS) - 1)
#define RP_OWN_BITS ((1ull << 48) - 1)	/* the upper 16 belong to the kernel */

/* The events of one provider, or of all, that a session wants. */
struct rp_config {
	char *name;
	char *filter_data;
	uint64_t keywords;
	uint32_t *ids;			/* sorted */
	size_t id_count;
	bool has_filter;
	bool filter_enable;
	uint8_t level;
	bool (*wants)(const struct rp_event_def *def, const void *data);	/* or NULL */
	const void *wants_data;
};

/* Copies of options, without the lock. */
int rp_config_copy(struct rp_config *config, const struct rp_session_provider *provider);
void rp_configs_free(struct rp_config *configs, size_t count);

const struct rp_config *rp_session_config(const struct rp_session *session,
					  const struct rp_provider *provider);
bool rp_config_wants(const struct rp_config *config, const struct rp_event_def *def);
void rp_session_switch(struct rp_session *session, bool on);
uint64_t rp_site_session_bits(const struct rp_site *site);	/* also updates recovery files */
void rp_session_attach(struct rp_session *session);	/* fill the slot, then set bits */
void rp_session_detach(struct rp_session *session);	/* clear bits, then empty the slot */

#endif
