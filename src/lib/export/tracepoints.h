/* SPDX-License-Identifier: MIT */
/* The tracepoint of each event, as a session's client assigns them. */
#ifndef RP_EXPORT_TRACEPOINTS_H
#define RP_EXPORT_TRACEPOINTS_H

#include "core/enable.h"
#include "core/event_def.h"
#include "export/user_events.h"

/*
 * A tracepoint that the client named. It has a separate enable word, so that it exists even without
 * an event.
 */
struct rp_tracepoint {
	char *command;		/* the text that registers it with the kernel */
	uint64_t enable;
};

struct rp_tracepoint_id {
	uint32_t id;
	const struct rp_tracepoint *tracepoint;
};

/* A session's configuration of one provider. */
struct rp_tracepoint_wish {
	struct rp_config config;
	const struct rp_tracepoint *tracepoint;	/* for ids not in `ids`; NULL: none */
	struct rp_tracepoint_id *ids;		/* sorted */
	size_t id_count;
};

struct rp_tracepoint_table {
	struct rp_tracepoint_wish *wishes;
	size_t wish_count;
	struct rp_tracepoint *tracepoints;
	size_t tracepoint_count;
};

/* Return: 0; -EINVAL and -ENOMEM as rp_user_events_open(). */
int rp_tracepoint_table_make(struct rp_tracepoint_table *table,
			     const struct rp_user_events_setup *setup);
void rp_tracepoint_table_fini(struct rp_tracepoint_table *table);

/*
 * Get the tracepoint of an event. Return: NULL: the event has none, or the session does not want
 * it.
 */
const struct rp_tracepoint *rp_tracepoint_of(const struct rp_tracepoint_table *table,
					     const struct rp_event_def *def);

#endif
