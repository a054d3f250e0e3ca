/* SPDX-License-Identifier: MIT */
/*
 * One session in one pass of the drain thread: what it merges and reports, and how a session ends.
 */
#include "core/session_pass.h"

#include <errno.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/buffers.h"
#include "core/core.h"
#include "core/holders.h"
#include "core/losses.h"
#include "core/merge.h"
#include "core/missing.h"
#include "core/rings.h"
#include "core/session_emit.h"
#include "core/session_recovery.h"
#include "core/session_state.h"
#include "core/session_stats.h"
#include "core/session_window.h"
#include "core/wait.h"
#include "ring/slot.h"

#define POINT_NS 1000000000u		/* between sequence points of a stream without new losses */
#define STEP_NS 1000000000u		/* longer than between two checks of a blocked output */

/* At the end, the state events are merged with the other events. */
static void take_state_rings(struct rp_session *session)
{
	struct rp_session *state_rings = session->state_rings;

	if (!state_rings)
		return;
	rp_session_wait_for_holders(state_rings, true);
	rp_session_close_stats(state_rings);
	for (uint32_t i = 0; i < state_rings->source_count; i++)
		session->sources[session->source_count++] = state_rings->sources[i];
	state_rings->source_count = 0;
	rp_session_add_counts(session, state_rings);
	session->used_bytes += state_rings->used_bytes;
	rp_session_free_state_rings(session);
}

/* Emit a sequence point into the stream, after new losses or some time after the last one. */
static int mark_point(struct rp_session *session, uint64_t now_ns)
{
	uint64_t total;
	int ret = rp_session_emit_losses(session);

	if (ret != 0)
		return ret;
	total = rp_session_reported(session);
	if (total == session->reported.point_lost && now_ns < session->reported.point_ns + POINT_NS)
		return 0;
	ret = session->sink->ops->sequence_point(session->sink, session->last_ns, total);
	if (ret != 0)
		return ret;
	session->reported.point_lost = total;
	session->reported.point_ns = now_ns;
	return 0;
}

static void init_merge(struct rp_session *session, struct rp_clock_map *map,
		       struct rp_merge *merge)
{
	*merge = (struct rp_merge){
		.sources = session->sources,
		.source_count = session->source_count,
		.active = session->active,
		.sink = session->sink,
		.batch = { .map = map, .last_ns = session->last_ns },
		.data = session,
	};
}

static void take_batch(struct rp_session *session, struct rp_event_batch *batch)
{
	session->last_ns = batch->last_ns;
	rp_session_count_batch(session, batch);
}

/* Record for recovery at intervals what the output contains. */
static int flush_and_record(struct rp_merge *merge)
{
	struct rp_session *session = merge->data;
	int ret = session->sink->ops->flush(session->sink);

	take_batch(session, &merge->batch);
	if (ret == 0)
		rp_session_record(session, merge->batch.map);
	return ret;
}

int rp_session_merge(struct rp_session *session, uint64_t bound, struct rp_clock_map *map,
		     int (*publish)(struct rp_merge *merge))
{
	struct rp_merge merge;
	int ret = rp_session_emit_coarse(session);

	if (ret == 0)
		ret = rp_missing_emit(session);
	if (ret != 0)
		return ret;
	init_merge(session, map, &merge);
	merge.publish = publish;
	ret = rp_merge(&merge, bound);
	take_batch(session, &merge.batch);
	return ret;
}

/* Merge up to `bound`. This frees no space: buffers.c frees a buffer after all of it was read. */
static int merge_until(struct rp_session *session, uint64_t bound, struct rp_clock_map *map)
{
	return rp_session_merge(session, bound, map, session->recovery ? flush_and_record : NULL);
}

static uint64_t skip_remaining(struct rp_session *session)
{
	struct rp_merge merge;
	uint64_t count;

	init_merge(session, NULL, &merge);
	count = rp_merge_skip(&merge);
	take_batch(session, &merge.batch);
	return count;
}

static void end_rings(struct rp_session *session)
{
	pthread_mutex_lock(&rp_core.lock);
	rp_session_fill_stats(session);
	session->ended = true;
	pthread_mutex_unlock(&rp_core.lock);
	/* After a failed output, only the rings hold its missing events, so their files remain. */
	if (session->error)
		rp_session_leave_recovery(session);
	rp_session_free_rings(session);
}

/*
 * End a session whose sink failed. All remaining events count as lost. Recovery finds these events
 * in the rings, so it needs the losses recorded up to here.
 */
static enum rp_pass end_failed(struct rp_session *session)
{
	rp_session_record_lost(session);
	rp_session_count_lost(session, RP_LOSS_SINK, skip_remaining(session));
	session->sink->ops->abandon(session->sink, session->last_ns, rp_session_lost(session));
	rp_session_count_lost(session, RP_LOSS_SINK, session->sink->pending);
	end_rings(session);
	return RP_PASS_DONE;
}

static void fail(struct rp_session *session, int error)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	session->failed = true;
	session->error = error;
	/* No space will become free any more. */
	rp_store_relaxed(&slot->wait_ns, 0);
	rp_wait_wake(slot);
}

/*
 * Limit the wait for a peer that reads nothing and, while the session stops, for a slow peer. If
 * more than STEP_NS have passed since the last call, the process did not run: because of SIGSTOP, a
 * debugger or a paused container. The wait for a peer that reads nothing then begins again.
 */
bool rp_session_may_wait(struct rp_session *session)
{
	struct rp_session_finish *finish = &session->finish;
	const struct rp_sink *sink = session->sink;
	uint64_t now = rp_clock_monotonic_ns(), step = now - finish->checked_ns;
	bool is_new = sink->busy || sink->bytes != finish->sink_bytes || step > STEP_NS;

	finish->checked_ns = now;
	finish->idle_ns = is_new ? 0 : finish->idle_ns + step;
	finish->waited_ns = sink->busy ? 0 : finish->waited_ns + (step < STEP_NS ? step : STEP_NS);
	finish->sink_bytes = sink->bytes;
	return session->no_deadline ||
	       (finish->idle_ns < RP_FINISH_NS && finish->waited_ns < RP_SLOW_NS);
}

/* Keep the clock map for snapshots. */
static void store_map(struct rp_session *session, const struct rp_clock_map *map)
{
	struct rp_clock_map *copy = session->map ? session->map : malloc(sizeof(*copy));

	if (!copy)
		return;
	pthread_mutex_lock(&rp_core.lock);
	*copy = *map;
	if (!session->map)
		pthread_cond_broadcast(&rp_core.changed);
	session->map = copy;
	pthread_mutex_unlock(&rp_core.lock);
}

/* Whether a snapshot copies the session's rings. The session does not end meanwhile. */
static bool is_copied(struct rp_session *session)
{
	bool copied;

	pthread_mutex_lock(&rp_core.lock);
	copied = session->snapshots > 0;
	pthread_mutex_unlock(&rp_core.lock);
	return copied;
}

static enum rp_pass finish_pass(struct rp_session *session, struct rp_clock_map *map)
{
	int ret;

	if (is_copied(session))
		return RP_PASS_BLOCKED;
	if (!session->quiesced) {
		rp_session_wait_for_holders(session, true);
		rp_session_close_pool(session);
		rp_session_close_stats(session);
		take_state_rings(session);
		if (session->flags & RP_SESSION_OVERWRITE)
			rp_session_begin_at_oldest(session, map);
	}
	if (session->failed)
		return end_failed(session);
	ret = merge_until(session, UINT64_MAX, map);
	if (ret == 0)
		ret = rp_session_emit_window(session);
	if (ret == 0)
		ret = rp_session_emit_losses(session);
	if (ret == 0)
		ret = session->sink->ops->finish(session->sink, session->last_ns,
						 rp_session_reported(session));
	if (ret == 0) {
		end_rings(session);
		return RP_PASS_DONE;
	}
	if (ret == -EAGAIN) {
		(void)session->sink->ops->flush(session->sink);
		if (rp_session_may_wait(session))
			return RP_PASS_BLOCKED;
		ret = -ETIMEDOUT;
	}
	fail(session, ret);
	return end_failed(session);
}

enum rp_pass rp_session_pass(struct rp_session *session, bool finishing, uint64_t now_ticks,
			     struct rp_clock_map *map)
{
	const struct rp_slot *slot = &rp_slots[session->slot];
	bool retiring = false;
	int ret, flushed;

	if (session->ended)
		return RP_PASS_DONE;
	if (finishing)
		return finish_pass(session, map);
	if (session->failed)
		return RP_PASS_QUIET;
	if (session->state_rings) {
		(void)rp_session_make_rings(session, rp_load_relaxed(&slot->wanted));
		slot = &rp_slots[session->state_rings->slot];
		(void)rp_session_make_rings(session->state_rings, rp_load_relaxed(&slot->wanted));
		rp_session_wait_for_holders(session, false);
		rp_session_wait_for_holders(session->state_rings, false);
		store_map(session, map);
		if (session->recovery)
			rp_session_record(session, map);
		return RP_PASS_QUIET;
	}
	rp_session_wait_for_holders(session, false);
	rp_session_retire_buffers(session);
	ret = merge_until(session, now_ticks, map);
	if (ret == 0)
		ret = mark_point(session, rp_clock_monotonic_ns());
	flushed = ret == 0 || ret == -EAGAIN ? session->sink->ops->flush(session->sink) : ret;
	if (flushed == 0 && session->recovery)
		rp_session_record(session, map);
	if (flushed == 0 || !session->recovery)
		retiring = rp_session_free_buffers(session);
	if (ret == 0)
		ret = flushed;
	if ((ret != 0 && ret != -EAGAIN) || (flushed != 0 && flushed != -EAGAIN)) {
		fail(session, ret != -EAGAIN && ret != 0 ? ret : flushed);
		return RP_PASS_QUIET;
	}
	if (ret == -EAGAIN)
		return RP_PASS_BLOCKED;
	if (rp_session_above(session, 2))
		return RP_PASS_URGENT;
	return retiring || rp_session_above(session, 4) ? RP_PASS_BUSY : RP_PASS_QUIET;
}
