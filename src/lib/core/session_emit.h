/* SPDX-License-Identifier: MIT */
/* Events of ringpipe's own in a session. On the drain thread. */
#ifndef RP_CORE_SESSION_EMIT_H
#define RP_CORE_SESSION_EMIT_H

#include <stdint.h>

struct rp_event_def;
struct rp_session;

/* An event of ringpipe's own, at the time of the last one given out. As a sink's event(). */
int rp_session_emit(struct rp_session *session, const struct rp_event_def *def,
		    const void *payload, uint32_t payload_bytes);
int rp_session_emit_coarse(struct rp_session *session);	/* once, if its times are */

#endif
