/* SPDX-License-Identifier: MIT */
/* The types of events that a stream describes, found by their metadata ids. */
#ifndef RP_NETTRACE_TYPE_TABLE_H
#define RP_NETTRACE_TYPE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

struct rp_arena_chunk;

/* Writers number the types from 1, so most ids are below this. */
#define RP_TYPE_TABLE_LOW 64u

struct rp_type_table {
	struct rp_reader_type *low[RP_TYPE_TABLE_LOW];	/* by metadata id; also in `slots` */
	struct rp_reader_type **slots;	/* by metadata id, open addressing */
	size_t capacity;
	size_t count;
	struct rp_arena_chunk *chunks;	/* memory of all types, freed with the table */
	bool has_unknown;	/* a description had parts that no known version allows */
};

/* Allocate zeroed memory that lives as long as the table. NULL: no memory. */
void *rp_type_table_alloc(struct rp_type_table *table, size_t size);

/* Add a type that was allocated there. 0; -EEXIST: its id is taken; -ENOMEM. */
int rp_type_table_insert(struct rp_type_table *table, struct rp_reader_type *type);

struct rp_reader_type *rp_type_table_find_high(const struct rp_type_table *table,
					       uint32_t metadata_id);

/* Return: the type; NULL: no type has this id. */
static inline struct rp_reader_type *rp_type_table_find(const struct rp_type_table *table,
							uint32_t metadata_id)
{
	return metadata_id < RP_TYPE_TABLE_LOW ? table->low[metadata_id] :
	       rp_type_table_find_high(table, metadata_id);
}

/* Make the id of a type free again, if there is such a type. The type stays valid. */
void rp_type_table_remove(struct rp_type_table *table, uint32_t metadata_id);

/* Make all ids free again. The types stay valid. */
void rp_type_table_clear(struct rp_type_table *table);

void rp_type_table_fini(struct rp_type_table *table);

#endif
