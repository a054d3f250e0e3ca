/* SPDX-License-Identifier: MIT */
/* Sessions whose rings are files: what they record for recovery, and when. */
#include "core/session_recovery.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "core/activity_slots.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "core/session_stats.h"
#include "core/session_window.h"
#include "recover/files.h"
#include "ring/slot.h"

/*
 * The files keep the session's rings after the end of the process. An overwriting session needs no
 * output for that, and has rings of two kinds.
 */
int rp_session_make_recovery(struct rp_session *session, const struct rp_session_setup *setup)
{
	const bool overwrites = session->flags & RP_SESSION_OVERWRITE;
	struct rp_recovery_setup recovery = {
		.parent = setup->options->recover_path,
		.name = session->name,
		.ring_space = overwrites ? 2 * (rp_slot_ring_count() + RP_FALLBACKS) : RP_POOL_MAX,
		.output_fd = setup->sink->fd,
		.start_ns = setup->sink->start_ns,
		.start_utc_ns = setup->sink->start_utc_ns,
		.format = setup->format,
		.own_ids = rp_activity_own_ids(),
	};
	struct timespec utc;

	if (!recovery.parent)
		return 0;
	setup->sink->is_recoverable = true;
	if (overwrites && recovery.output_fd < 0) {
		clock_gettime(CLOCK_REALTIME, &utc);
		recovery.start_utc_ns = (int64_t)utc.tv_sec * 1000000000 + utc.tv_nsec;
		recovery.start_ns = rp_clock_monotonic_ns();
	}
	return recovery.start_ns ? rp_recovery_create(&recovery, &session->recovery) : -EINVAL;
}

static uint64_t lost_besides(const struct rp_session *session)
{
	uint64_t lost = 0;

	for (int reason = 0; reason < RP_LOSS_REASON_COUNT; reason++)
		lost += rp_session_lost_elsewhere(session, (enum rp_loss_reason)reason);
	return lost;
}

static void record_tails(const struct rp_session *session, struct rp_recover_record *record)
{
	record->ring_count += session->source_count;
	for (uint32_t i = 0; i < session->source_count; i++)
		record->tails[session->sources[i].file] = session->sources[i].position;
}

static void record_output(struct rp_session *session, const struct rp_clock_map *map, uint64_t lost)
{
	struct rp_recover_record *record = rp_recovery_next_record(session->recovery);
	const struct rp_clock_point *point = rp_clock_map_newest(map);

	record->output_bytes = session->sink->bytes;
	record->last_ns = session->last_ns;
	record->lost_reported = session->reported.point_lost;
	record->lost_besides = lost;
	record->clock_ticks = point->ticks;
	record->clock_ns = point->ns;
	record->clock_ns_per_tick = point->ns_per_tick;
	record->from_ns = session->window.from_ns ? session->window.from_ns : session->begun_ns;
	record->ring_count = 0;
	record_tails(session, record);
	if (session->state_rings)
		record_tails(session->state_rings, record);
	rp_recovery_commit(session->recovery);
}

void rp_session_record(struct rp_session *session, const struct rp_clock_map *map)
{
	record_output(session, map, lost_besides(session));
}

/* The directory becomes valid after its first record is complete. */
void rp_session_start_recovery(struct rp_session *session)
{
	struct rp_clock_map map;

	if (!session->recovery)
		return;
	if (session->state_rings)
		rp_session_define_window(session);
	rp_clock_map_init(&map);
	record_output(session, &map, 0);
	rp_recovery_begin(session->recovery);
}

void rp_session_record_lost(struct rp_session *session)
{
	if (session->recovery)
		rp_recovery_set_lost(session->recovery, lost_besides(session));
}

void rp_session_leave_recovery(struct rp_session *session)
{
	if (session->recovery)
		rp_recovery_leave(session->recovery);
	session->recovery = NULL;
}
