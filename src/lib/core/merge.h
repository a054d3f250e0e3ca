/* SPDX-License-Identifier: MIT */
/* Merge rings into a sink. On the drain thread, or on the thread of a snapshot. */
#ifndef RP_CORE_MERGE_H
#define RP_CORE_MERGE_H

#include <stdint.h>

#include "core/event_batch.h"

struct rp_sink;
struct rp_source;

struct rp_merge {
	struct rp_source *sources;
	uint32_t source_count;
	struct rp_source **active;	/* sources with records, by time of the next record */
	uint32_t active_count;
	struct rp_sink *sink;
	struct rp_event_batch batch;	/* the caller sets map and last_ns, and reads the counts */
	/*
	 * Called at intervals, after the sink took all records below the positions of the sources.
	 * May be NULL. Return: 0; or an error, which ends the merge.
	 */
	int (*publish)(struct rp_merge *merge);
	void *data;			/* for `publish` */
};

/*
 * Give the sink all records of the sources up to `bound`. Return: 0; -EAGAIN: some records are
 * left; or another error of the sink or of `publish`.
 */
int rp_merge(struct rp_merge *merge, uint64_t bound);

/* Skip the remaining records of the sources. Return: their number. */
uint64_t rp_merge_skip(struct rp_merge *merge);

#endif
