/* SPDX-License-Identifier: MIT */
/* The stacks or label lists of a stream since its last sequence point, by id. */
#ifndef RP_NETTRACE_POINT_INDEX_H
#define RP_NETTRACE_POINT_INDEX_H

#include "base/cursor.h"
#include "nettrace/outbuf.h"

struct rp_point_index {
	struct rp_outbuf bytes;		/* of all rows */
	struct rp_outbuf entries;	/* struct rp_point_entry, ascending ids */
};

/*
 * Copy a row.
 *
 * Return: 0; -EBADMSG: the id is not above the previous one; -E2BIG: the rows since the last
 * sequence point exceed the reader's limit; -ENOMEM.
 */
int rp_point_index_put(struct rp_point_index *index, uint32_t id, const void *row, uint32_t bytes);

/* Copy the stacks of a StackBlock's content. Return: as above; -EBADMSG also for damage. */
int rp_point_index_add_stacks(struct rp_point_index *index, struct rp_cursor block);

/* Return: the highest id, 0 if there is none. */
uint32_t rp_point_index_last(const struct rp_point_index *index);

/*
 * Find the bytes of a row. NULL and 0 for an empty row or an unknown id. The pointer is valid until
 * the index changes.
 */
const void *rp_point_index_find(const struct rp_point_index *index, uint32_t id, size_t *ret_bytes);

/* Remove all rows: ids start over. */
void rp_point_index_clear(struct rp_point_index *index);
void rp_point_index_fini(struct rp_point_index *index);

#endif
