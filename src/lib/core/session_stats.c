/* SPDX-License-Identifier: MIT */
/* A session's stats: its losses by reason, from its rings and its slot, and other values. */
#include "core/session_stats.h"

#include "base/atomic.h"
#include "core/limit.h"
#include "core/session_state.h"
#include "ring/slot.h"

static uint64_t full_without_ring(const struct rp_session *session)
{
	return session->quiesced ? session->stats_full :
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
		return session->quiesced ? session->stats_busy :
		       rp_load_relaxed(&slot->busy) & RP_STATS_COUNT;
	case RP_LOSS_TOO_BIG:
		return session->quiesced ? session->stats_too_big :
		       rp_load_relaxed(&slot->too_big) & RP_STATS_COUNT;
	case RP_LOSS_SINK:
		return session->lost_sink;
	case RP_LOSS_DAMAGED:
		return session->lost_damaged;
	case RP_LOSS_BLOCKED:
		return session->quiesced ? session->stats_blocked :
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

/* Call it after the bits are off and every writer has left. The counts are then final. */
void rp_session_close_stats(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	session->stats_busy = rp_exchange_seq_cst(&slot->busy, 0) & RP_STATS_COUNT;
	session->stats_too_big = rp_exchange_seq_cst(&slot->too_big, 0) & RP_STATS_COUNT;
	session->stats_blocked = rp_exchange_seq_cst(&slot->blocked, 0) & RP_STATS_COUNT;
	session->stats_full = rp_exchange_seq_cst(&slot->full, 0) & RP_STATS_COUNT;
	session->quiesced = true;
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
		stats->lost += stats->lost_by[reason];
	}
	stats->delivered = session->sink->delivered;
	stats->bytes = session->sink->bytes;
	stats->memory_bytes = session->used_bytes + session->sink->memory_bytes;
	stats->clamped = session->clamped;
	stats->shortened = session->sink->shortened;
	stats->skipped = session->skipped + rp_limits_unreported(session);
	stats->rings = session->source_count;
	if (state_rings) {
		stats->memory_bytes += state_rings->used_bytes;
		stats->rings += state_rings->source_count;
	}
}
