/* SPDX-License-Identifier: MIT */
/*
 * The events that report a session's losses. On the drain thread, or on the thread of a snapshot.
 */
#ifndef RP_CORE_LOSSES_H
#define RP_CORE_LOSSES_H

#include <stdint.h>

struct rp_session;

int rp_session_emit_losses(struct rp_session *session);		/* new ones; as event() */
uint64_t rp_session_reported(const struct rp_session *session);	/* so far */

#endif
