/* SPDX-License-Identifier: MIT */
/* One session, one pass of the drain thread. */
#ifndef RP_CORE_SESSION_PASS_H
#define RP_CORE_SESSION_PASS_H

#include <stdbool.h>
#include <stdint.h>

struct rp_clock_map;
struct rp_session;

enum rp_pass {
	RP_PASS_QUIET,		/* all taken, the rings nearly empty */
	RP_PASS_BUSY,		/* all taken, but a ring filled above its watermark meanwhile */
	RP_PASS_URGENT,		/* the same, above half */
	RP_PASS_BLOCKED,	/* the sink takes no more for now */
	RP_PASS_DONE,		/* the session is over, its rings are gone */
};
enum rp_pass rp_session_pass(struct rp_session *session, bool finishing, uint64_t now_ticks,
			     struct rp_clock_map *map);

/* For a sink that said -EAGAIN: whether it is worth waiting for any longer. */
bool rp_session_may_wait(struct rp_session *session);

#endif
