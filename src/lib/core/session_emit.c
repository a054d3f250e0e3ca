/* SPDX-License-Identifier: MIT */
/* Events of ringpipe itself, which the drain thread passes to a session's sink without a ring. */
#include "core/session_emit.h"

#include "base/thread.h"
#include "core/drain_wake.h"
#include "core/session_state.h"

int rp_session_emit(struct rp_session *session, const struct rp_event_def *def, const void *payload,
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

static const struct rp_field coarse_fields[] = {
	{ "step_ns", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def coarse_def = {
	.index = RP_DEF_COARSE_INDEX,
	.id = 6,
	.serial = 1,
	.provider = "ringpipe",
	.name = "CoarseTime",
	.message = "times are from a clock that advances each {0} ns",
	.fields = coarse_fields,
	.field_count = 1,
	.level = RP_LEVEL_INFORMATIONAL,
};

int rp_session_emit_coarse(struct rp_session *session)
{
	uint64_t step_ns = RP_COARSE_NS;
	int ret = 0;

	if ((session->flags & RP_SESSION_COARSE) && !session->reported.coarse)
		ret = rp_session_emit(session, &coarse_def, &step_ns, sizeof(step_ns));
	if (ret == 0)
		session->reported.coarse = true;
	return ret;
}
