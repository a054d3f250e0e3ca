/* SPDX-License-Identifier: MIT */
/*
 * Emit a session's losses, by ring and reason, as events of the provider `ringpipe`, which every
 * session gets. On the drain thread, or on the thread of a snapshot.
 */
#include "core/losses.h"

#include <string.h>

#include "base/atomic.h"
#include "core/cut_stacks.h"
#include "core/limit.h"
#include "core/session_emit.h"
#include "core/session_state.h"
#include "core/session_stats.h"

#define NO_RING_ID UINT32_MAX		/* for losses that no ring counted */

static const struct rp_field lost_fields[] = {
	{ "ring", NULL, 0, RP_TYPE_U32, 0, 0, NULL },
	{ "reason", NULL, 0, RP_TYPE_STRING, 0, 0, NULL },
	{ "count", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def lost_def = {
	.index = RP_DEF_LOST_INDEX,
	.id = 1,
	.serial = 1,
	.provider = "ringpipe",
	.name = "EventsLost",
	.message = "{2} events lost in ring {0}: {1}",
	.fields = lost_fields,
	.field_count = 3,
	.level = RP_LEVEL_WARNING,
};

static const struct rp_field cut_fields[] = {
	{ "count", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def cut_def = {
	.index = RP_DEF_CUT_INDEX,
	.id = 2,
	.serial = 1,
	.provider = "ringpipe",
	.name = "PayloadsCut",
	.message = "{0} payloads were longer than the format holds",
	.fields = cut_fields,
	.field_count = 1,
	.level = RP_LEVEL_WARNING,
};

/*
 * Emit the number of payloads that the sink shortened since the last report. Such events are not
 * lost.
 */
static int emit_cuts(struct rp_session *session)
{
	uint64_t now = session->sink->shortened, count = now - session->reported.cuts;
	int ret = count ? rp_session_emit(session, &cut_def, &count, sizeof(count)) : 0;

	if (ret == 0)
		session->reported.cuts = now;
	return ret;
}

/* Emit one event EventsLost: `count` losses since the previous one. */
static int emit_loss(struct rp_session *session, uint32_t ring, enum rp_loss_reason reason,
		     uint64_t count)
{
	const char *name = rp_loss_reason_name(reason);
	size_t name_bytes = strlen(name) + 1;
	uint8_t payload[64];

	memcpy(payload, &ring, 4);
	memcpy(payload + 4, name, name_bytes);
	memcpy(payload + 4 + name_bytes, &count, 8);
	return rp_session_emit(session, &lost_def, payload, (uint32_t)(4 + name_bytes + 8));
}

/* Report the growth of a counter since the last report. */
static int emit_more(struct rp_session *session, uint32_t ring, enum rp_loss_reason reason,
		     uint64_t now, uint64_t *reported)
{
	int ret = now == *reported ? 0 : emit_loss(session, ring, reason, now - *reported);

	if (ret == 0)
		*reported = now;
	return ret;
}

static int emit_ring(struct rp_session *session, struct rp_source *source)
{
	const struct rp_ring *ring = source->ring;
	int ret = emit_more(session, ring->id, RP_LOSS_FULL, rp_load_relaxed(&ring->lost_full),
			    &source->lost_reported);

	return ret != 0 ? ret :
	       emit_more(session, ring->id, RP_LOSS_FULL_FALLBACK,
			 rp_load_relaxed(&ring->lost_fallback), &source->lost_fallback_reported);
}

/* Report the losses since the last report, by ring and reason. */
int rp_session_emit_losses(struct rp_session *session)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < session->source_count; i++)
		ret = emit_ring(session, &session->sources[i]);
	for (int reason = 0; ret == 0 && reason < RP_LOSS_REASON_COUNT; reason++) {
		uint64_t now = reason == RP_LOSS_FULL ? 0 : reason == RP_LOSS_FULL_FALLBACK ?
			       rp_session_lost_elsewhere(session, RP_LOSS_FULL_FALLBACK) :
			       rp_session_lost_by(session, (enum rp_loss_reason)reason);

		ret = emit_more(session, NO_RING_ID, (enum rp_loss_reason)reason, now,
				&session->reported.lost[reason]);
	}
	if (ret == 0)
		ret = emit_cuts(session);
	if (ret == 0)
		ret = rp_limits_emit(session);
	return ret != 0 ? ret : rp_stacks_emit(session);
}

uint64_t rp_session_reported(const struct rp_session *session)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < session->source_count; i++)
		sum += session->sources[i].lost_reported +
		       session->sources[i].lost_fallback_reported;
	for (int reason = 0; reason < RP_LOSS_REASON_COUNT; reason++)
		sum += session->reported.lost[reason];
	return sum;
}
