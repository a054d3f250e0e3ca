/* SPDX-License-Identifier: MIT */
/* The content of the LabelList block under construction: the ids of each activity once. */
#ifndef RP_NETTRACE_LABEL_SET_H
#define RP_NETTRACE_LABEL_SET_H

#include <stdbool.h>

#include <ringpipe/types.h>

#include "nettrace/outbuf.h"

struct rp_label_entry;

struct rp_label_set {
	struct rp_outbuf content;	/* of the block: first id, count, lists */
	struct rp_label_entry *entries;	/* made with the first list */
	uint32_t first_id;
	uint32_t count;
	uint64_t own_ids;		/* as in struct rp_encoder_info */
};

void rp_label_set_init(struct rp_label_set *set);
void rp_label_set_fini(struct rp_label_set *set);

/*
 * Find or make the list of an event with these ids, of which each may be NULL or zero. The list has
 * them as activity ids. If the process did not make the activity id, or if `is_trace`, it is a
 * trace id, and the list also has the span id that rp_traceparent_parse() put into the related id.
 *
 * Return: 0, with id 0 for no ids; -ENOMEM.
 */
int rp_label_set_intern(struct rp_label_set *set, const struct rp_guid *activity,
			const struct rp_guid *related, bool is_trace, uint32_t *ret_id);

/* True: close the block before the next list. */
bool rp_label_set_full(const struct rp_label_set *set);

/* The block was written: begin the next one, whose ids continue, or start at 1 again. */
void rp_label_set_next(struct rp_label_set *set, bool from_one);

size_t rp_label_set_memory(const struct rp_label_set *set);

#endif
