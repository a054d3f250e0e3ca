/* SPDX-License-Identifier: MIT */
/* The file of definitions: written when an event is switched on, read when nobody is left. */
#ifndef RP_RECOVER_DEFINITIONS_H
#define RP_RECOVER_DEFINITIONS_H

#include "nettrace/cursor.h"
#include "nettrace/encoder.h"
#include "nettrace/outbuf.h"

/* Appends one; a failure is in out->failed. */
void rp_definition_put(struct rp_outbuf *out, uint32_t index,
		       const struct rp_encoder_definition *definition);

/*
 * Takes the next one, whatever the bytes are. Its texts point into them, its fields are for
 * rp_definition_fini().
 * Return: 0; -ENODATA: it stops before its end, as it does where its writer was killed; -EBADMSG;
 * -ENOMEM. `cursor` stands behind it after 0 only.
 */
int rp_definition_take(struct rp_cursor *cursor, uint32_t *ret_index,
		       struct rp_encoder_definition *ret_definition);
void rp_definition_fini(struct rp_encoder_definition *definition);

#endif
