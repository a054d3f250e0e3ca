/* SPDX-License-Identifier: MIT */
/* The content of the open LabelList block: each distinct list of ids once. */
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
 * Find or make the label list of an event with these ids, each of which may be NULL or zero. The
 * list contains them as activity ids. If the process did not make the activity id, that id is a
 * trace id too. The list shows this by the span id that rp_traceparent_parse() put into the related
 * id or, without a span id, by a copy of the trace id.
 *
 * Return: 0, with id 0 for no ids; -ENOMEM.
 */
int rp_label_set_intern(struct rp_label_set *set, const struct rp_guid *activity,
			const struct rp_guid *related, uint32_t *ret_id);

/* Find or make a copy of a list that another stream has. Return: 0; -ENOMEM. */
int rp_label_set_intern_list(struct rp_label_set *set, const uint8_t *bytes, size_t size,
			     uint32_t *ret_id);

/*
 * Whether the block must be closed before the next list.
 * @bytes: of that list, if it is a copy; otherwise 0.
 */
bool rp_label_set_full(const struct rp_label_set *set, size_t bytes);

/* The block was written: begin the next one. Its ids continue, or start at 1 if `from_one`. */
void rp_label_set_next(struct rp_label_set *set, bool from_one);

/* Return: the bytes that the set has allocated. */
size_t rp_label_set_memory(const struct rp_label_set *set);

#endif
