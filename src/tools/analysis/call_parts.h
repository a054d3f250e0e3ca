/* SPDX-License-Identifier: MIT */
/* Shared by the files of the call tree: hash tables of numbers of rows. */
#ifndef RP_TOOL_CALL_PARTS_H
#define RP_TOOL_CALL_PARTS_H

#include "tools/analysis/call_tree.h"

/* Return: the hash of the row with this number. */
typedef uint64_t (*rp_call_index_hash)(const void *rows, uint32_t number);

uint64_t rp_call_hash(uint64_t a, uint64_t b);

/* Make space for another row besides the `count` rows in the table. Return: 0; -ENOMEM. */
int rp_call_index_reserve(struct rp_call_index *index, size_t count, rp_call_index_hash hash,
			  const void *rows);

#endif
