/* SPDX-License-Identifier: MIT */
/* Texts by number, each stored once, for formats whose tables refer to texts by number. */
#ifndef RP_TOOL_STRING_TABLE_H
#define RP_TOOL_STRING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Initialise it with zeros. */
struct rp_string_table {
	char **texts;			/* in the order in which they were added */
	size_t count, capacity;
	uint32_t *slots;		/* a text's number and 1, or 0 */
	size_t slot_count;
	size_t bytes;			/* of all texts */
};

/* Find or add the text. Return: 0 with its number, from 0 on; -ENOMEM. */
int rp_string_table_add(struct rp_string_table *table, const char *text, uint32_t *ret_number);
/* Return: whether the table has the text, with its number. */
bool rp_string_table_find(const struct rp_string_table *table, const char *text,
			  uint32_t *ret_number);
void rp_string_table_fini(struct rp_string_table *table);

#endif
