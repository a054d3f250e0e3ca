/* SPDX-License-Identifier: MIT */
/*
 * The buffers of a session that does not overwrite. All functions except the first run on the drain
 * thread. They do nothing for sessions with fixed rings.
 */
#ifndef RP_CORE_BUFFERS_H
#define RP_CORE_BUFFERS_H

#include <stdbool.h>

struct rp_session;

void rp_session_open_pool(const struct rp_session *session);	/* with the lock held */
void rp_session_note_owners(struct rp_session *session);	/* which lock owns which */
void rp_session_retire_buffers(struct rp_session *session);	/* after the pass's fence */
bool rp_session_free_buffers(struct rp_session *session);	/* true: more retire */
void rp_session_close_pool(struct rp_session *session);

#endif
