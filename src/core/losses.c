/* SPDX-License-Identifier: MIT */
/*
 * What a session lost, by ring and reason, and telling it in the stream: as events of the provider
 * `ringpipe`, which no session has to ask for. On the drain thread.
 */
#include <string.h>

#include "base/thread.h"
#include "core/core.h"

#define NO_RING_ID UINT32_MAX		/* of losses that no ring counted */

static uint64_t lost_by(const struct rp_session *session, enum rp_loss_reason reason)
{
	const struct rp_slot *slot = &rp_slots[session->slot];
	uint64_t sum = 0;

	switch (reason) {
	case RP_LOSS_FULL:
		for (uint32_t i = 0; i < session->source_count; i++)
			sum += rp_load_relaxed(&session->sources[i].ring->lost_full);
		return sum;
	case RP_LOSS_BUSY:
		return session->handshaken ? session->account_busy :
		       rp_load_relaxed(&slot->busy) & RP_ACCOUNT_COUNT;
	case RP_LOSS_TOO_BIG:
		return session->handshaken ? session->account_too_big :
		       rp_load_relaxed(&slot->too_big) & RP_ACCOUNT_COUNT;
	case RP_LOSS_SINK:
		return session->lost_sink;
	case RP_LOSS_DAMAGED:
		return session->lost_damaged;
	case RP_LOSS_BLOCKED:
		return session->handshaken ? session->account_blocked :
		       rp_load_relaxed(&slot->blocked) & RP_ACCOUNT_COUNT;
	case RP_LOSS_REASON_COUNT:
		break;
	}
	return 0;
}

uint64_t rp_session_lost_by(const struct rp_session *session, enum rp_loss_reason reason)
{
	return lost_by(session, reason) + (session->kept ? lost_by(session->kept, reason) : 0);
}

uint64_t rp_session_lost(const struct rp_session *session)
{
	uint64_t sum = 0;

	for (int reason = 0; reason < RP_LOSS_REASON_COUNT; reason++)
		sum += rp_session_lost_by(session, (enum rp_loss_reason)reason);
	return sum;
}

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

int rp_session_tell(struct rp_session *session, const struct rp_event_def *def, const void *payload,
		    uint32_t payload_bytes)
{
	const struct rp_record_view view = {
		.def = def,
		.time_ns = session->last_ns,
		.thread = rp_thread_id(),
		.payload = payload,
		.payload_bytes = payload_bytes,
	};

	return session->sink->ops->event(session->sink, &view);
}

/* Tells how many payloads the sink has cut since the last time: such an event is not lost. */
static int tell_cuts(struct rp_session *session)
{
	uint64_t now = session->sink->shortened, count = now - session->cuts_told;
	int ret = count ? rp_session_tell(session, &cut_def, &count, sizeof(count)) : 0;

	if (ret == 0)
		session->cuts_told = now;
	return ret;
}

static const struct rp_field coarse_fields[] = {
	{ "step_ns", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def coarse_def = {
	.index = RP_DEF_COARSE_INDEX,
	.id = 6,
	.serial = 1,
	.provider = "ringpipe",
	.name = "CoarseTime",
	.message = "times are of a clock that moves each {0} ns",
	.fields = coarse_fields,
	.field_count = 1,
	.level = RP_LEVEL_INFORMATIONAL,
};

int rp_session_tell_coarse(struct rp_session *session)
{
	uint64_t step_ns = RP_COARSE_NS;
	int ret = 0;

	if ((session->flags & RP_SESSION_COARSE) && !session->coarse_told)
		ret = rp_session_tell(session, &coarse_def, &step_ns, sizeof(step_ns));
	if (ret == 0)
		session->coarse_told = true;
	return ret;
}

/* One EventsLost event: `count` more than were told before. */
static int tell_loss(struct rp_session *session, uint32_t ring, enum rp_loss_reason reason,
		     uint64_t count)
{
	const char *name = rp_loss_reason_name(reason);
	size_t name_bytes = strlen(name) + 1;
	uint8_t payload[64];

	memcpy(payload, &ring, 4);
	memcpy(payload + 4, name, name_bytes);
	memcpy(payload + 4 + name_bytes, &count, 8);
	return rp_session_tell(session, &lost_def, payload, (uint32_t)(4 + name_bytes + 8));
}

/* Tells what was lost since the last time, by ring and reason. */
int rp_session_tell_losses(struct rp_session *session)
{
	for (uint32_t i = 0; i < session->source_count; i++) {
		struct rp_source *source = &session->sources[i];
		uint64_t now = rp_load_relaxed(&source->ring->lost_full);
		int ret;

		if (now == source->lost_told)
			continue;
		ret = tell_loss(session, source->ring->id, RP_LOSS_FULL, now - source->lost_told);
		if (ret != 0)
			return ret;
		source->lost_told = now;
	}
	for (int reason = RP_LOSS_FULL + 1; reason < RP_LOSS_REASON_COUNT; reason++) {
		uint64_t now = rp_session_lost_by(session, (enum rp_loss_reason)reason);
		int ret;

		if (now == session->told[reason])
			continue;
		ret = tell_loss(session, NO_RING_ID, (enum rp_loss_reason)reason,
				now - session->told[reason]);
		if (ret != 0)
			return ret;
		session->told[reason] = now;
	}
	return tell_cuts(session);
}

uint64_t rp_session_told(const struct rp_session *session)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < session->source_count; i++)
		sum += session->sources[i].lost_told;
	for (int reason = RP_LOSS_FULL + 1; reason < RP_LOSS_REASON_COUNT; reason++)
		sum += session->told[reason];
	return sum;
}
