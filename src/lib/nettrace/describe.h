/* SPDX-License-Identifier: MIT */
/* Parse the descriptions of event types, in both versions of the format. */
#ifndef RP_NETTRACE_DESCRIBE_H
#define RP_NETTRACE_DESCRIBE_H

#include <stdbool.h>

#include "base/cursor.h"
#include "nettrace/type_table.h"

/*
 * Add the type that the payload of a V4 metadata event describes. Fields that this library cannot
 * express (arrays of arrays, unknown types, a damaged list) leave the type without fields. Parts
 * that no known version of the format allows set `has_unknown` of the table.
 *
 * Return: 0; -EBADMSG: the head of the blob is damaged; -EEXIST: the id is taken; -ENOMEM.
 */
int rp_describe(struct rp_type_table *table, struct rp_cursor blob);

/* Add the type of a row of a V6 Metadata block, without the row's size. Return: as above. */
int rp_describe_row(struct rp_type_table *table, struct rp_cursor row);

/*
 * Look up a type code of the format, except the codes of arrays with a fixed count or a location.
 * `ret_bytes` is 0 for values of variable size. 0; -EBADMSG: unknown.
 */
int rp_describe_code(uint32_t code, uint8_t *ret_type, uint8_t *ret_bytes);

/*
 * Whether elements of this type take at least one byte each. Otherwise an array could claim to hold
 * any number of them.
 */
bool rp_describe_has_size(uint8_t type, const struct rp_reader_field *field);

#endif
