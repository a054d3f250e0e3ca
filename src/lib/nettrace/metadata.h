/* SPDX-License-Identifier: MIT */
/* A definition as the payload of a metadata event of V4, and as a row of V6. */
#ifndef RP_NETTRACE_METADATA_H
#define RP_NETTRACE_METADATA_H

#include "base/event_definition.h"
#include "nettrace/outbuf.h"

/* A field as the stream has it. */
struct rp_metadata_field {
	const char *name;		/* NULL counts as the empty text */
	const void *members;		/* if `code` or `element` is RP_WIRE_STRUCT */
	size_t member_count;
	uint8_t code;			/* enum rp_wire_type */
	uint8_t element;		/* of an array, or of text with a length; else 0 */
	uint16_t fixed_count;		/* of RP_WIRE_FIXED_ARRAY */
};

/* A definition as the stream has it. Its fields are in a table of the caller's. */
struct rp_metadata {
	const char *provider, *name;
	const char *suffix;		/* is appended to the name; may be NULL */
	size_t name_bytes;
	uint32_t metadata_id, event_id, version, level, opcode;
	uint64_t keywords;
	const void *fields;
	size_t field_count;
	/* Return: the field at this place of the table `fields`, or of the `members` of a field. */
	struct rp_metadata_field (*get_field)(const void *fields, size_t index, const void *user);
	const void *user;
	const char *message, *description;	/* V6 only; may be NULL */
	struct rp_guid provider_guid;		/* V6 only; zero: none */
};

/* Append a definition as V4 has it. On failure out->failed is set. */
void rp_metadata_put_v4(struct rp_outbuf *out, const struct rp_metadata *metadata);

/*
 * Append a row of V6's Metadata block. On failure out->failed is set.
 * Return: 0; -EMSGSIZE: longer than 64 KB, the limit of a row. The caller removes it from `out`.
 */
int rp_metadata_put_v6(struct rp_outbuf *out, const struct rp_metadata *metadata);

/*
 * Append a definition as V4 has it. rp_plan_make() has accepted its fields. On failure out->failed
 * is set.
 */
void rp_metadata_write(struct rp_outbuf *out, uint32_t metadata_id,
		       const struct rp_definition *definition);

/* Append a row of V6's Metadata block. 0; -EMSGSIZE: longer than 64 KB, the limit of a row. */
int rp_metadata_write_row(struct rp_outbuf *out, uint32_t metadata_id,
			  const struct rp_definition *definition);

#endif
