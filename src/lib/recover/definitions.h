/* SPDX-License-Identifier: MIT */
/* The file of definitions: written when an event is enabled, read when no process is left. */
#ifndef RP_RECOVER_DEFINITIONS_H
#define RP_RECOVER_DEFINITIONS_H

#include "base/cursor.h"
#include "base/event_definition.h"
#include "nettrace/outbuf.h"

/* Appends one; a failure is in out->failed. */
void rp_definition_put(struct rp_outbuf *out, uint32_t index,
		       const struct rp_definition *definition);

/*
 * Take the next definition from untrusted bytes. Its texts point into them. rp_definition_fini()
 * frees its fields.
 * Return: 0; -ENODATA: the definition is incomplete, as if its writer was killed; -EBADMSG;
 * -ENOMEM. `cursor` advances after 0 only.
 */
int rp_definition_take(struct rp_cursor *cursor, uint32_t *ret_index,
		       struct rp_definition *ret_definition);
void rp_definition_fini(struct rp_definition *definition);

#endif
