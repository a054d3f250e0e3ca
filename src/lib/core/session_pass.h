/* SPDX-License-Identifier: MIT */
/* One session, one pass of the drain thread. */
#ifndef RP_CORE_SESSION_PASS_H
#define RP_CORE_SESSION_PASS_H

#include <stdbool.h>
#include <stdint.h>

#define RP_FINISH_NS 2000000000u	/* how long a session waits for a peer that reads nothing */
#define RP_SLOW_NS 10000000000u		/* … for a slow peer */

struct rp_clock_map;
struct rp_merge;
struct rp_session;

enum rp_pass {
	RP_PASS_QUIET,		/* all events taken, the rings nearly empty */
	RP_PASS_BUSY,		/* all taken, but a buffer retires or a quarter is unread again */
	RP_PASS_URGENT,		/* the same, over half of the memory */
	RP_PASS_BLOCKED,	/* the sink takes no more events for now */
	RP_PASS_DONE,		/* the session has ended, its rings are freed */
};
enum rp_pass rp_session_pass(struct rp_session *session, bool finishing, uint64_t now_ticks,
			     struct rp_clock_map *map);

/*
 * Merge the session's rings into its sink, up to `bound`. `publish`: as in struct rp_merge. On the
 * drain thread, or on the thread of a snapshot. Return: as rp_merge().
 */
int rp_session_merge(struct rp_session *session, uint64_t bound, struct rp_clock_map *map,
		     int (*publish)(struct rp_merge *merge));

/* Whether to wait longer for a sink that returned -EAGAIN. */
bool rp_session_may_wait(struct rp_session *session);

#endif
