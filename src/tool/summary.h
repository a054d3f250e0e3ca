/* SPDX-License-Identifier: MIT */
/* What a trace holds, counted by one pass of the reader. */
#ifndef RP_TOOL_SUMMARY_H
#define RP_TOOL_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

#include <ringpipe/reader.h>

#include "tool/processes.h"

/* A kind of event: all that agree in these names and numbers. */
struct rp_kind {
	char *provider;
	char *name;
	uint32_t id;
	uint32_t version;
	uint32_t level;
	uint32_t opcode;
	uint64_t keywords;
	uint64_t events;
	uint64_t payload_bytes;
};

/* Losses as EventsLost events of provider `ringpipe` tell them. */
struct rp_loss {
	uint32_t ring;
	char *reason;
	uint64_t count;
};

struct rp_provider_sum {
	const char *name;
	struct rp_kind **kinds;		/* most events first; part of summary.kinds */
	size_t kind_count;
	uint64_t events;
	uint64_t payload_bytes;
};

struct rp_summary {
	struct rp_reader_info info;
	struct rp_reader_stats stats;
	uint64_t stacks;		/* events that carry one */
	uint64_t activities;		/* events that carry an activity id */
	int64_t last_ns;		/* the latest event, since the start */
	uint64_t window_from, window_to;	/* as event Snapshot tells them; 0: it is none */
	uint64_t step_ns;		/* times are coarse, as event CoarseTime tells; 0: exact */
	struct rp_kind **kinds;		/* by provider, most events first */
	size_t kind_count;
	struct rp_provider_sum *providers;	/* most events first */
	size_t provider_count;
	struct rp_loss **losses;
	size_t loss_count;
	struct rp_processes processes;
	size_t process;			/* whose the event is that is visited; or SIZE_MAX */
	void *kind_tree;
	void *loss_tree;
};

/* Called for each event; returns 0, or -errno to stop. */
typedef int (*rp_summary_visit)(const struct rp_reader_event *event, void *data);

/*
 * Reads to the end, or to the first damage. The summary holds what came until then, whatever is
 * returned; call rp_summary_fini() in any case. `visit` may be NULL.
 *
 * Return: 0; what rp_reader_next() or `visit` returned; -ENOMEM.
 */
int rp_summary_read(struct rp_reader *reader, rp_summary_visit visit, void *data,
		    struct rp_summary *ret_summary);
void rp_summary_fini(struct rp_summary *summary);

/* When a snapshot of a flight recorder is complete; at no time where both are the same. */
struct rp_summary_window {
	int64_t from_utc_ns, to_utc_ns;
};

/* Return: false where none is told. */
bool rp_summary_get_window(const struct rp_summary *summary, struct rp_summary_window *ret_window);

/* The summary as text on `stream` or as JSON on stdout. `path` and `error` (or NULL) are shown. */
struct rp_summary_view {
	const char *path;
	const char *error;
	uint64_t top;			/* how many kinds of events */
};

void rp_summary_print_text(const struct rp_summary *summary, const struct rp_summary_view *view);
struct json_object *rp_summary_to_json(const struct rp_summary *summary,
				       const struct rp_summary_view *view);

#endif
