/* SPDX-License-Identifier: MIT */
/* Text in columns, as wide as they need to be. */
#ifndef RP_TOOL_TABLE_H
#define RP_TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define RP_TABLE_COLUMNS_MAX 8

struct rp_table {
	const char *const *titles;	/* ended by NULL */
	const char *alignment;		/* one letter for each column: 'l' or 'r' */
	size_t columns;
	size_t cell_count;
	size_t cell_room;
	char **cells;
	bool failed;			/* no memory: rp_table_print() says so */
};

void rp_table_init(struct rp_table *table, const char *const *titles, const char *alignment);
/* Adds the next cell, row by row; control characters in `text` are made harmless. */
void rp_table_add(struct rp_table *table, const char *text);
void rp_table_addf(struct rp_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Prints all on stdout. Return: 0, or -ENOMEM. */
int rp_table_print(const struct rp_table *table);
void rp_table_fini(struct rp_table *table);

#endif
