/* SPDX-License-Identifier: MIT */
/* The tracepoint of each event, as the client of a session assigns them. */
#ifndef RP_EXPORT_TRACEPOINTS_H
#define RP_EXPORT_TRACEPOINTS_H

#include "core/core.h"
#include "export/user_events.h"

/* A tracepoint that the client named. Its own enable word registers it even without an event. */
struct rp_tracepoint {
	char *command;		/* registers it with the kernel */
	uint64_t enable;
};

struct rp_tracepoint_id {
	uint32_t id;
	const struct rp_tracepoint *tracepoint;
};

/* A session's configuration of one provider. */
struct rp_tracepoint_wish {
	struct rp_config config;
	const struct rp_tracepoint *tracepoint;	/* of ids not in `ids`; NULL: none */
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

/* The tracepoint of an event; NULL: it has none, or the session does not want the event. */
const struct rp_tracepoint *rp_tracepoint_of(const struct rp_tracepoint_table *table,
					     const struct rp_event_def *def);

#endif
