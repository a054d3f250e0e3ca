/* SPDX-License-Identifier: MIT */
/* A session's rings and their memory. */
#ifndef RP_CORE_RINGS_H
#define RP_CORE_RINGS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_session;

int rp_session_make_memory(struct rp_session *session);	/* at the session's start, on any thread */
/*
 * Create the missing fixed rings of concurrency ids below `wanted`, within the limit of the
 * session.
 */
int rp_session_make_rings(struct rp_session *session, uint64_t wanted);
void rp_session_free_rings(struct rp_session *session);
void rp_session_free_state_rings(struct rp_session *session);	/* does nothing without them */
/*
 * Whether more than 1 / `divisor` of the session's memory is unread. Always false for overwriting
 * sessions.
 */
bool rp_session_above(const struct rp_session *session, unsigned int divisor);

#endif
