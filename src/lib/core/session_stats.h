/* SPDX-License-Identifier: MIT */
/* A session's stats. */
#ifndef RP_CORE_SESSION_STATS_H
#define RP_CORE_SESSION_STATS_H

#include <stdint.h>

#include <ringpipe/session.h>

struct rp_session;

uint64_t rp_session_lost_by(const struct rp_session *session, enum rp_loss_reason reason);
uint64_t rp_session_lost(const struct rp_session *session);
/* The losses of a reason that no ring counts: not a difference, since counts of rings move. */
uint64_t rp_session_lost_elsewhere(const struct rp_session *session, enum rp_loss_reason reason);

/* Takes the slot's counts over when every writer is out: they are final. */
void rp_session_close_stats(struct rp_session *session);

/* Makes rp_session_get_stats()'s values. With the lock; nothing after the session has ended. */
void rp_session_fill_stats(struct rp_session *session);

#endif
