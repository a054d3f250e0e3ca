/* SPDX-License-Identifier: MIT */
/* A definition as the payload of a metadata event of V4, and as a row of V6. */
#ifndef RP_NETTRACE_METADATA_H
#define RP_NETTRACE_METADATA_H

#include "base/event_definition.h"
#include "nettrace/outbuf.h"

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
