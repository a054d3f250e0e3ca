/* SPDX-License-Identifier: MIT */
/* A session's rings and their memory. */
#ifndef RP_CORE_RINGS_H
#define RP_CORE_RINGS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_session;

int rp_session_make_memory(struct rp_session *session);	/* at start, on any thread */
/* Fixed rings below `wanted` that are missing, as far as the session's ceiling goes. */
int rp_session_make_rings(struct rp_session *session, uint64_t wanted);
void rp_session_free_rings(struct rp_session *session);
void rp_session_free_state_rings(struct rp_session *session);	/* nothing without them */
/* Whether more than that part of the session's memory is unread. */
bool rp_session_above(const struct rp_session *session, unsigned int divisor);

#endif
