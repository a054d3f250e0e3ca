/* SPDX-License-Identifier: MIT */
/* Looks addresses up in the symbol tables of one object, one table after another. */
#ifndef RP_SYMBOLS_SYMBOL_TABLE_H
#define RP_SYMBOLS_SYMBOL_TABLE_H

#include "host/symbols.h"
#include "modules/symbols/object.h"

struct rp_lookup {
	const struct rp_symbols_query *query;
	struct rp_match *matches;	/* one for each address */
	struct rp_edge *edges;		/* likewise */
	uint32_t unnamed;		/* addresses that no table has resolved so far */
};

/* 0 or -ENOMEM. */
int rp_lookup_init(struct rp_lookup *lookup, const struct rp_symbols_query *query);
void rp_lookup_fini(struct rp_lookup *lookup);

/*
 * Look up the addresses that still have no name in the object's table of this type (SHT_SYMTAB,
 * SHT_DYNSYM), and report the functions found. Return: whether there is such a table.
 */
bool rp_lookup_table(struct rp_lookup *lookup, const struct rp_object_file *object, uint32_t type);

#endif
