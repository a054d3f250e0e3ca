/* SPDX-License-Identifier: MIT */
/* A session's stats: its losses by reason, from its rings and its slot, and other values. */
#include "core/session_stats.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/event_batch.h"
#include "core/limit.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "ring/slot.h"

static uint64_t full_without_ring(const struct rp_session *session)
{
	return session->quiesced ? session->counts.full :
	       rp_load_relaxed(&rp_slots[session->slot].full) & RP_STATS_COUNT;
}

/* A ring counts losses separately for each way in which writers use it. */
static uint64_t lost_in_rings(const struct rp_session *session, enum rp_loss_reason reason)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < session->source_count; i++) {
		const struct rp_ring *ring = session->sources[i].ring;

		if (reason == RP_LOSS_FULL)
			sum += rp_load_relaxed(&ring->lost_full);
		else if (reason == RP_LOSS_FULL_FALLBACK)
			sum += rp_load_relaxed(&ring->lost_fallback);
	}
	return sum;
}

static uint64_t lost_elsewhere(const struct rp_session *session, enum rp_loss_reason reason)
{
	const struct rp_slot *slot = &rp_slots[session->slot];

	switch (reason) {
	case RP_LOSS_FULL_FALLBACK:
		return full_without_ring(session);
	case RP_LOSS_BUSY:
		return session->quiesced ? session->counts.busy :
		       rp_load_relaxed(&slot->busy) & RP_STATS_COUNT;
	case RP_LOSS_TOO_BIG:
		return session->quiesced ? session->counts.too_big :
		       rp_load_relaxed(&slot->too_big) & RP_STATS_COUNT;
	case RP_LOSS_SINK:
		return session->counts.sink;
	case RP_LOSS_DAMAGED:
		return session->counts.damaged;
	case RP_LOSS_BLOCKED:
		return session->quiesced ? session->counts.blocked :
		       rp_load_relaxed(&slot->blocked) & RP_STATS_COUNT;
	case RP_LOSS_FULL:
	case RP_LOSS_REASON_COUNT:
		break;
	}
	return 0;
}

uint64_t rp_session_lost_by(const struct rp_session *session, enum rp_loss_reason reason)
{
	const struct rp_session *state_rings = session->state_rings;

	return lost_in_rings(session, reason) + lost_elsewhere(session, reason) +
	       (state_rings ? rp_session_lost_by(state_rings, reason) : 0);
}

uint64_t rp_session_lost_elsewhere(const struct rp_session *session, enum rp_loss_reason reason)
{
	const struct rp_session *state_rings = session->state_rings;

	return lost_elsewhere(session, reason) +
	       (state_rings ? lost_elsewhere(state_rings, reason) : 0);
}

uint64_t rp_session_lost(const struct rp_session *session)
{
	uint64_t sum = 0;

	for (int reason = 0; reason < RP_LOSS_REASON_COUNT; reason++)
		sum += rp_session_lost_by(session, (enum rp_loss_reason)reason);
	return sum;
}

/*
 * The session's enable bits must be off, and no writer may be in a write for the session. The
 * function makes the counts final.
 */
void rp_session_close_stats(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	session->counts.busy = rp_exchange_seq_cst(&slot->busy, 0) & RP_STATS_COUNT;
	session->counts.too_big = rp_exchange_seq_cst(&slot->too_big, 0) & RP_STATS_COUNT;
	session->counts.blocked = rp_exchange_seq_cst(&slot->blocked, 0) & RP_STATS_COUNT;
	session->counts.full = rp_exchange_seq_cst(&slot->full, 0) & RP_STATS_COUNT;
	session->quiesced = true;
}

void rp_session_count_lost(struct rp_session *session, enum rp_loss_reason reason, uint64_t count)
{
	if (reason == RP_LOSS_SINK)
		session->counts.sink += count;
	else if (reason == RP_LOSS_DAMAGED)
		session->counts.damaged += count;
}

void rp_session_count_batch(struct rp_session *session, struct rp_event_batch *batch)
{
	session->counts.clamped += batch->clamped;
	session->counts.damaged += batch->damaged;
	session->counts.sink += batch->refused;
	batch->clamped = 0;
	batch->damaged = 0;
	batch->refused = 0;
}

void rp_session_add_counts(struct rp_session *session, const struct rp_session *state_rings)
{
	session->counts.busy += state_rings->counts.busy;
	session->counts.too_big += state_rings->counts.too_big;
	session->counts.full += state_rings->counts.full;
	session->counts.damaged += state_rings->counts.damaged;
}

void rp_session_copy_counts(struct rp_session *copy, const struct rp_session *session)
{
	copy->counts = (struct rp_session_counts){
		.busy = rp_session_lost_by(session, RP_LOSS_BUSY),
		.too_big = rp_session_lost_by(session, RP_LOSS_TOO_BIG),
		.full = rp_session_lost_elsewhere(session, RP_LOSS_FULL_FALLBACK),
	};
	copy->quiesced = true;
}

static uint64_t lost_presumably(const struct rp_session *session)
{
	const struct rp_session *state_rings = session->state_rings;

	return session->counts.presumed + (state_rings ? state_rings->counts.presumed : 0);
}

void rp_session_fill_stats(struct rp_session *session)
{
	struct rp_session_stats *stats = &session->stats;
	const struct rp_session *state_rings = session->state_rings;

	if (session->ended)
		return;
	stats->size = sizeof(*stats);
	stats->error = session->error;
	stats->lost = 0;
	for (int reason = 0; reason < RP_LOSS_REASON_COUNT; reason++) {
		stats->lost_by[reason] = rp_session_lost_by(session, (enum rp_loss_reason)reason);
		if (reason == RP_LOSS_DAMAGED)
			stats->lost_by[reason] += lost_presumably(session);
		stats->lost += stats->lost_by[reason];
	}
	stats->delivered = session->sink->delivered;
	stats->bytes = session->sink->bytes;
	stats->memory_bytes = session->used_bytes + session->sink->memory_bytes;
	stats->clamped = session->counts.clamped;
	stats->shortened = session->sink->shortened;
	stats->skipped = rp_limits_skipped(session);
	stats->rings = session->source_count;
	if (state_rings) {
		stats->memory_bytes += state_rings->used_bytes;
		stats->rings += state_rings->source_count;
	}
}

void rp_session_clear_memory_stats(struct rp_session *session)
{
	session->stats.memory_bytes = 0;
}

void rp_session_add_to_past(const struct rp_session *session)
{
	rp_core.past_delivered += session->stats.delivered;
	rp_core.past_lost += session->stats.lost;
}

void rp_sessions_total(struct rp_totals *ret_totals)
{
	struct rp_session *session;
	bool running = false;

	pthread_mutex_lock(&rp_core.lock);
	*ret_totals = (struct rp_totals){
		.delivered = rp_core.past_delivered,
		.lost = rp_core.past_lost,
	};
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		running |= session->state == RP_SESSION_RUNNING;
		ret_totals->delivered += session->stats.delivered;
		ret_totals->lost += session->stats.lost;
		ret_totals->memory_bytes += session->stats.memory_bytes;
	}
	if (running && rp_core.pass_ns)
		ret_totals->lag_ns = rp_clock_monotonic_ns() - rp_core.pass_ns;
	pthread_mutex_unlock(&rp_core.lock);
}
