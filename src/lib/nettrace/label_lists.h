/* SPDX-License-Identifier: MIT */
/* The label lists of a V6 stream since its last sequence point, and one of them decoded. */
#ifndef RP_NETTRACE_LABEL_LISTS_H
#define RP_NETTRACE_LABEL_LISTS_H

#include <ringpipe/reader.h>

#include "base/chains.h"
#include "nettrace/point_index.h"

/* A decoded list. */
struct rp_labels {
	struct rp_guid activity, related;
	uint8_t trace_id[16];
	uint64_t span_id;
	uint64_t keywords;
	uint16_t replaces;		/* bit 1 << kind: the value below is the event's */
	uint8_t opcode, level, version;
	uint32_t count;			/* of the other labels */
};

/*
 * A small list is decoded for each event that has another list than the event before. Large lists
 * stay decoded, because a stream may have megabytes in a list and a few bytes in each event.
 */
struct rp_label_lists {
	struct rp_point_index index;
	uint32_t id;			/* of the list in `labels`, 0: the empty one */
	struct rp_labels labels;
	struct rp_outbuf others;	/* struct rp_reader_label; texts lie in `texts` */
	struct rp_outbuf texts;
	struct rp_chains large;		/* decoded large lists since the last sequence point */
	size_t large_memory;		/* of these */
	/* Bytes of large lists in the stream so far: those that were added, and decoded. */
	uint64_t large_added, large_decoded;
};

/* Take a LabelList block's content, which has to consist of lists. Return: 0; -EBADMSG. */
int rp_label_lists_check(struct rp_cursor *block);

/* Check and copy the lists of a LabelList block's content. -EBADMSG, -E2BIG, -ENOMEM. */
int rp_label_lists_add(struct rp_label_lists *lists, struct rp_cursor block);

/*
 * Decode a list. The result is valid until the next call. Id 0 is the empty list.
 *
 * Return: 0; -EBADMSG: unknown; -E2BIG: the stream has decoded large lists too often; -ENOMEM.
 */
int rp_label_lists_find(struct rp_label_lists *lists, uint32_t id,
			const struct rp_labels **ret_labels,
			const struct rp_reader_label **ret_others);

/* Remove all lists: ids start over. */
void rp_label_lists_clear(struct rp_label_lists *lists);
void rp_label_lists_fini(struct rp_label_lists *lists);

#endif
