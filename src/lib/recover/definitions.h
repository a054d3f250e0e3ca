/* SPDX-License-Identifier: MIT */
/*
 * The file of event definitions. The process writes it when an event is enabled; recovery reads it
 * after the process has ended.
 */
#ifndef RP_RECOVER_DEFINITIONS_H
#define RP_RECOVER_DEFINITIONS_H

#include "base/cursor.h"
#include "base/event_definition.h"
#include "nettrace/outbuf.h"

/* Append a definition; on failure, out->failed is set. */
void rp_definition_put(struct rp_outbuf *out, uint32_t index,
		       const struct rp_definition *definition);

/*
 * Take the next definition from untrusted bytes. Its texts point into them. rp_definition_fini()
 * frees its fields.
 * Return: 0; -EBADMSG: the definition is invalid; -ENODATA: the definition is incomplete because
 * its writer was killed, or the bytes have ended; -ENOMEM. `cursor` advances after 0 and -EBADMSG.
 */
int rp_definition_take(struct rp_cursor *cursor, uint32_t *ret_index,
		       struct rp_definition *ret_definition);
void rp_definition_fini(struct rp_definition *definition);

#endif
