/* SPDX-License-Identifier: MIT */
/* A definition as the payload of a metadata event of V4, and as a row of V6. */
#ifndef RP_NETTRACE_METADATA_H
#define RP_NETTRACE_METADATA_H

#include "base/event_definition.h"
#include "nettrace/outbuf.h"

/* Appends the blob; a failure is in out->failed. The definition has passed rp_plan_make(). */
void rp_metadata_write(struct rp_outbuf *out, uint32_t metadata_id,
		       const struct rp_definition *definition);

/* Append a row of a Metadata block, its size included. 0; -EMSGSIZE: a row cannot hold it. */
int rp_metadata_write_row(struct rp_outbuf *out, uint32_t metadata_id,
			  const struct rp_definition *definition);

#endif
