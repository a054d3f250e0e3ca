/* SPDX-License-Identifier: MIT */
/* Which event goes to which of the kernel's tracepoints, as the client of a session has it. */
#ifndef RP_EXPORT_TRACEPOINTS_H
#define RP_EXPORT_TRACEPOINTS_H

#include "core/core.h"
#include "export/user_events.h"

/* One of the client's names, and the word by which it is there without any event. */
struct rp_tracepoint {
	char *command;		/* what the kernel is told to register */
	uint64_t enable;
};

struct rp_tracepoint_id {
	uint32_t id;
	const struct rp_tracepoint *tracepoint;
};

/* What a session wants of one provider. */
struct rp_tracepoint_wish {
	struct rp_config config;
	const struct rp_tracepoint *tracepoint;	/* of ids that are not below; NULL: nowhere */
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

/* Where an event goes; NULL: nowhere, or it is not wanted. */
const struct rp_tracepoint *rp_tracepoint_of(const struct rp_tracepoint_table *table,
					     const struct rp_event_def *def);

#endif
