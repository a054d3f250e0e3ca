/* SPDX-License-Identifier: MIT */
/* The window: the time for which an overwriting session has all events. */
#ifndef RP_CORE_SESSION_WINDOW_H
#define RP_CORE_SESSION_WINDOW_H

#include <stdint.h>

struct rp_clock_map;
struct rp_session;

/*
 * Let each source begin with its oldest record. Return: ticks from which on all sources are
 * complete; 0: since the session's start.
 */
uint64_t rp_session_complete_from(struct rp_session *session);
void rp_session_set_window(struct rp_session *session, uint64_t from, uint64_t until,
			   struct rp_clock_map *map);

/* Do both at the end of a session, for a window up to now. */
void rp_session_begin_at_oldest(struct rp_session *session, struct rp_clock_map *map);

int rp_session_emit_window(struct rp_session *session);		/* result as the sink's event() */
void rp_session_define_window(struct rp_session *session);	/* stores that event for recovery */

#endif
