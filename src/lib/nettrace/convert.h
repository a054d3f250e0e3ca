/* SPDX-License-Identifier: MIT */
/*
 * Conversion of payloads from the layout of types.h to the layout of nettrace. A plan is made once
 * per definition, and each event only follows it. Lengths and counts in a payload are untrusted.
 */
#ifndef RP_NETTRACE_CONVERT_H
#define RP_NETTRACE_CONVERT_H

#include <stdbool.h>

#include <ringpipe/types.h>

struct rp_plan_op;

enum rp_plan_kind {
	RP_PLAN_VERBATIM,	/* no fields: the caller defines the payload */
	RP_PLAN_COPY,		/* fixed size, the same in both layouts */
	RP_PLAN_CONVERT,
};

struct rp_plan {
	struct rp_plan_op *ops;
	uint32_t op_count;
	uint32_t op_capacity;
	uint32_t min_bytes;	/* on the wire, with every string and array empty */
	enum rp_plan_kind kind;
};

/*
 * Make a plan for payloads with these fields.
 * Return: 0; -EMSGSIZE: a payload would be too long even if all strings and arrays were empty;
 * -EINVAL and -ENOMEM, as rp_encoder_define().
 */
int rp_plan_make(struct rp_plan *plan, const struct rp_field *fields, size_t field_count);
void rp_plan_fini(struct rp_plan *plan);

/* Return the bytes of memory that the plan uses. */
size_t rp_plan_memory(const struct rp_plan *plan);

/* Return the maximum size on the wire of a payload of `payload_bytes` bytes. */
size_t rp_plan_bound(const struct rp_plan *plan, size_t payload_bytes);

/*
 * Write the wire's payload to `out` (which holds rp_plan_bound() bytes) and return its size.
 * Missing bytes become zeros. A payload that is too long is cut at the end of a character or
 * element. `*ret_cut` is whether that happened.
 */
size_t rp_plan_run(const struct rp_plan *plan, const void *payload, size_t payload_bytes,
		   uint8_t *out, bool *ret_cut);

/* Convert a GUID to the wire's byte order, or from it. */
void rp_guid_swap(const uint8_t *in, uint8_t *out);

#endif
