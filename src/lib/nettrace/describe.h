/* SPDX-License-Identifier: MIT */
/* The kinds of events a file describes: parsing metadata blobs, and finding a kind by its id. */
#ifndef RP_NETTRACE_DESCRIBE_H
#define RP_NETTRACE_DESCRIBE_H

#include <ringpipe/reader.h>

#include "base/cursor.h"

struct rp_arena_chunk;

struct rp_type_table {
	struct rp_reader_type **slots;	/* by metadata id, open addressing */
	size_t capacity;
	size_t count;
	struct rp_arena_chunk *chunks;	/* what the types are made of */
};

/*
 * Adds the kind that a metadata event's payload describes. Fields that this library cannot express
 * (arrays of arrays, unknown types, a damaged list) leave the kind without fields.
 *
 * Return: 0; -EBADMSG: the head of the blob is damaged; -EEXIST: the id is taken; -ENOMEM.
 */
int rp_type_table_add(struct rp_type_table *table, struct rp_cursor blob);

/* NULL: not there. */
struct rp_reader_type *rp_type_table_find(const struct rp_type_table *table, uint32_t metadata_id);

void rp_type_table_fini(struct rp_type_table *table);

#endif
