/* SPDX-License-Identifier: MIT */
/*
 * The window, which is the time for which an overwriting session has all events, and the event that
 * reports it.
 *
 * A ring that discarded records is complete from its first remaining record on; any other ring is
 * complete since the session's start. All rings are therefore complete from the latest of these
 * times up to T. The rings of state events discard nothing; they are copied last.
 */
#include "core/session_window.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "core/session_emit.h"
#include "core/session_state.h"
#include "recover/files.h"

static const struct rp_field window_fields[] = {
	{ "from", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
	{ "to", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
};

static const struct rp_event_def window_def = {
	.index = RP_DEF_SNAPSHOT_INDEX,
	.id = 4,
	.serial = 1,
	.provider = "ringpipe",
	.name = "Snapshot",
	.message = "complete from {0} to {1}",
	.fields = window_fields,
	.field_count = 2,
	.level = RP_LEVEL_INFORMATIONAL,
};

void rp_session_define_window(struct rp_session *session)
{
	const struct rp_definition definition = rp_event_def_plain(&window_def);

	_Static_assert(RP_DEF_SNAPSHOT_INDEX == RP_RECOVER_WINDOW_INDEX, "recovery knows it by it");
	rp_recovery_define(session->recovery, window_def.index, window_def.serial, &definition);
}

int rp_session_emit_window(struct rp_session *session)
{
	uint64_t payload[2] = { session->window.from_ns, session->window.to_ns };
	int ret = payload[1] ? rp_session_emit(session, &window_def, payload, sizeof(payload)) : 0;

	if (ret == 0)
		session->window.to_ns = 0;
	return ret;
}

/*
 * Return the time in ticks since which a ring without writers is complete; 0: since its creation.
 * The result is after the end of the window if no record remains.
 */
static uint64_t complete_from(const struct rp_ring *ring, uint64_t position)
{
	const struct rp_record *record;

	if (position == 0)
		return 0;
	record = rp_ring_record(ring, position, rp_load_acquire(&ring->head));	/* [RING-PUB] */
	return record ? record->ticks : UINT64_MAX;
}

/*
 * Set all sources to their oldest records, and return the time since which all of them are
 * complete.
 */
uint64_t rp_session_complete_from(struct rp_session *session)
{
	uint64_t from = 0;

	for (uint32_t i = 0; i < session->source_count; i++) {
		struct rp_source *source = &session->sources[i];
		uint64_t ticks;

		source->position = rp_ring_oldest(source->ring);
		ticks = complete_from(source->ring, source->position);
		from = ticks > from ? ticks : from;
	}
	return from;
}

/*
 * Convert the window to nanoseconds. One nanosecond may contain several ticks, so the nanosecond of
 * the first tick may contain overwritten events, and that of the last tick events that were not
 * copied. The window excludes both.
 */
void rp_session_set_window(struct rp_session *session, uint64_t from, uint64_t until,
			   struct rp_clock_map *map)
{
	uint64_t begin = session->begun_ns, end = rp_clock_map_ns(map, until) - 1;

	if (from > until)
		begin = end;
	else if (from && rp_clock_map_ns(map, from) >= begin)
		begin = rp_clock_map_ns(map, from) + 1;
	session->window.from_ns = begin < end ? begin : end;
	session->window.to_ns = end;
}

void rp_session_begin_at_oldest(struct rp_session *session, struct rp_clock_map *map)
{
	rp_session_set_window(session, rp_session_complete_from(session),
			      rp_clock_ticks_ordered(), map);
}
