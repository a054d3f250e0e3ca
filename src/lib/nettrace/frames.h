/* SPDX-License-Identifier: MIT */
/* The stacks of a stream since its last sequence point, by id. */
#ifndef RP_NETTRACE_FRAMES_H
#define RP_NETTRACE_FRAMES_H

#include "base/cursor.h"
#include "nettrace/outbuf.h"

struct rp_frame_index {
	struct rp_outbuf bytes;		/* all frames */
	struct rp_outbuf entries;	/* struct rp_frame_entry, ascending ids */
};

/*
 * Takes over a StackBlock's content.
 *
 * Return: 0; -EBADMSG: damaged, or ids do not ascend; -E2BIG: more stacks between two sequence
 * points than a reader should hold; -ENOMEM.
 */
int rp_frame_index_add(struct rp_frame_index *index, struct rp_cursor block);

/*
 * The bytes of a stack; NULL and 0 for an empty stack or an unknown id. Valid until the next add or
 * clear.
 */
const void *rp_frame_index_find(const struct rp_frame_index *index, uint32_t id, size_t *ret_bytes);

/* Remove all stacks: ids start over. */
void rp_frame_index_clear(struct rp_frame_index *index);
void rp_frame_index_fini(struct rp_frame_index *index);

#endif
