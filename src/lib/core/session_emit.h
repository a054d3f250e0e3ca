/* SPDX-License-Identifier: MIT */
/* Events of ringpipe itself in a session. On the drain thread, or on the thread of a snapshot. */
#ifndef RP_CORE_SESSION_EMIT_H
#define RP_CORE_SESSION_EMIT_H

#include <stdint.h>

struct rp_event_def;
struct rp_session;

/*
 * Emit an event of ringpipe itself, with the time of the last event emitted. Return: as the sink's
 * event().
 */
int rp_session_emit(struct rp_session *session, const struct rp_event_def *def,
		    const void *payload, uint32_t payload_bytes);
int rp_session_emit_coarse(struct rp_session *session);	/* once, if its times are coarse */

#endif
