/* SPDX-License-Identifier: MIT */
/* A session's stats. session_stats.c is the only file that writes them. */
#ifndef RP_CORE_SESSION_STATS_H
#define RP_CORE_SESSION_STATS_H

#include <stdint.h>

#include <ringpipe/session.h>

struct rp_event_batch;
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

/* With the lock: the session's memory is freed. */
void rp_session_clear_memory_stats(struct rp_session *session);
/* With the lock: the session ceases to exist, and rp_sessions_total() includes its stats. */
void rp_session_add_to_past(const struct rp_session *session);

/* Count events as lost, by the reasons RP_LOSS_SINK and RP_LOSS_DAMAGED. */
void rp_session_count_lost(struct rp_session *session, enum rp_loss_reason reason, uint64_t count);
/* Move the counts of a batch to the session. */
void rp_session_count_batch(struct rp_session *session, struct rp_event_batch *batch);
/* At the end: add the counts of a session's rings of state events. */
void rp_session_add_counts(struct rp_session *session, const struct rp_session *state_rings);
/* Set the counts of a snapshot's copy to those of its session. */
void rp_session_copy_counts(struct rp_session *copy, const struct rp_session *session);

#endif
