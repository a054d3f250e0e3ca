/* SPDX-License-Identifier: MIT */
/* A session's stats. */
#ifndef RP_CORE_SESSION_STATS_H
#define RP_CORE_SESSION_STATS_H

#include <stdint.h>

#include <ringpipe/session.h>

struct rp_session;

uint64_t rp_session_lost_by(const struct rp_session *session, enum rp_loss_reason reason);
uint64_t rp_session_lost(const struct rp_session *session);
/*
 * The losses of a reason that no ring counts. They are not computed as a difference, because the
 * counts of rings change meanwhile.
 */
uint64_t rp_session_lost_elsewhere(const struct rp_session *session, enum rp_loss_reason reason);

/* Copy the slot's counts after every writer has left: they are then final. */
void rp_session_close_stats(struct rp_session *session);

/*
 * Update the values that rp_session_get_stats() returns. With the lock. Does nothing after the
 * session has ended.
 */
void rp_session_fill_stats(struct rp_session *session);

#endif
