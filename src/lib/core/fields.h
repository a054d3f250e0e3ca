/* SPDX-License-Identifier: MIT */
/* Descriptions of an event's fields: check, compare and copy them. */
#ifndef RP_CORE_FIELDS_H
#define RP_CORE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

/* Return the size of a value in bytes; 0: the type has no fixed size. Context: any thread. */
size_t rp_type_bytes(uint8_t type);

/* Whether an event may have these fields: see struct rp_field. */
bool rp_fields_are_valid(const struct rp_field *fields, size_t count);

/*
 * Whether two arrays of fields are the same. This and the following three functions need valid
 * fields.
 */
bool rp_fields_are_same(const struct rp_field *a, const struct rp_field *b, size_t count);

uint64_t rp_fields_hash(uint64_t hash, const struct rp_field *fields, size_t count);

/* Copy the fields with all objects that they point to. Return NULL without memory. */
struct rp_field *rp_fields_copy(const struct rp_field *fields, size_t count);

/* Free a copy. */
void rp_fields_free(struct rp_field *fields, size_t count);

#endif
