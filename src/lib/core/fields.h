/* SPDX-License-Identifier: MIT */
/* Descriptions of an event's fields: checked, compared, copied. */
#ifndef RP_CORE_FIELDS_H
#define RP_CORE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

/* Bytes of a value; 0: no fixed size. Any thread. */
size_t rp_type_bytes(uint8_t type);

/* Whether an event may have them: see struct rp_field. */
bool rp_fields_are_valid(const struct rp_field *fields, size_t count);

/* For valid fields, like the three below. */
bool rp_fields_are_same(const struct rp_field *a, const struct rp_field *b, size_t count);

uint64_t rp_fields_hash(uint64_t hash, const struct rp_field *fields, size_t count);

/* With all that they point to. NULL: no memory. */
struct rp_field *rp_fields_copy(const struct rp_field *fields, size_t count);

/* Frees a copy. */
void rp_fields_free(struct rp_field *fields, size_t count);

#endif
