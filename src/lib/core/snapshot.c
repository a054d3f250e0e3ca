/* SPDX-License-Identifier: MIT */
/*
 * Snapshots of overwriting sessions.
 *
 * The thread that takes a snapshot makes a sequence point of its own: it reads the clock (T),
 * executes a membarrier, and waits until each fallback lock that is held is released. It then
 * copies the rings (rp_ring_copy()). If writers meanwhile overwrote so much that the copies have no
 * common window up to T, the thread begins again with a new T, up to TRIES times. Last, it copies
 * the rings of state events.
 *
 * `copy` is a private struct rp_session with the copies as its rings. It is not in
 * rp_core.sessions. The functions that the drain thread uses for sessions merge its events up to T
 * into the sink.
 */
#include "core/snapshot.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/drain_wake.h"
#include "core/holders.h"
#include "core/losses.h"
#include "core/rings.h"
#include "core/session_pass.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "core/session_stats.h"
#include "core/session_window.h"
#include "recover/files.h"
#include "ring/slot.h"

#define TRIES 8u			/* attempts to copy all rings before they are overwritten */
#define HOLDER_NS 1000000000u		/* maximum wait for the holders of fallback locks */
#define PAUSE_MS 2			/* between two checks of a sink that works by itself */

struct rp_snapshot {
	struct rp_session *session;
	struct rp_session copy;
	struct rp_clock_map map;
	uint64_t until;			/* T, in ticks */
	uint64_t start_ns, end_ns;
	unsigned int late;		/* writers that held a fallback lock during the copying */
	const struct rp_record_view *note;	/* not emitted yet, or NULL */
};

/*
 * Keep the session from ending, and wait for its first pass. With the lock. Return: 0; -EPIPE: the
 * session is ending.
 */
static int hold(struct rp_session *session)
{
	session->snapshots++;
	while (session->state == RP_SESSION_RUNNING && !session->map)
		pthread_cond_wait(&rp_core.changed, &rp_core.lock);
	if (session->state == RP_SESSION_RUNNING)
		return 0;
	session->snapshots--;
	return -EPIPE;
}

size_t rp_snapshot_sessions(uint64_t ret_ids[RP_SESSIONS_MAX])
{
	struct rp_session *session;
	size_t count = 0;

	pthread_mutex_lock(&rp_core.lock);
	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if ((session->flags & RP_SESSION_OVERWRITE) &&
		    session->state == RP_SESSION_RUNNING && count < RP_SESSIONS_MAX)
			ret_ids[count++] = session->id;
	}
	pthread_mutex_unlock(&rp_core.lock);
	return count;
}

/* Find the overwriting session with this id; 0: the only one. With the lock. */
static int find(uint64_t id, struct rp_session **ret_session)
{
	struct rp_session *session, *found = NULL;

	cds_list_for_each_entry(session, &rp_core.sessions, node) {
		if (!(session->flags & RP_SESSION_OVERWRITE) ||
		    session->state != RP_SESSION_RUNNING || (id && session->id != id))
			continue;
		if (found)
			return -ENOTUNIQ;
		found = session;
	}
	if (!found)
		return -EINVAL;
	*ret_session = found;
	return 0;
}

void rp_snapshot_free(struct rp_snapshot *snapshot)
{
	if (!snapshot)
		return;
	rp_session_free_rings(&snapshot->copy);
	pthread_mutex_lock(&rp_core.lock);
	snapshot->session->snapshots--;
	pthread_mutex_unlock(&rp_core.lock);
	free(snapshot);
}

/* Create rings for the copies. The session may have got more rings since the last attempt. */
static int make_copies(struct rp_session *copy, const struct rp_session *session)
{
	uint32_t count = rp_load_acquire(&session->source_count);
	int ret = 0;

	while (ret == 0 && copy->source_count < count) {
		const struct rp_ring *ring = session->sources[copy->source_count].ring;

		ret = rp_ring_create(ring->size, ring->id,
				     &copy->sources[copy->source_count].ring);
		copy->source_count += ret == 0;
	}
	return ret;
}

/* Make one attempt. *ret_from: ticks from which on all rings are complete, perhaps after T. */
static int copy_rings(struct rp_snapshot *snapshot, uint64_t *ret_from)
{
	struct rp_session *copy = &snapshot->copy;
	int ret;

	snapshot->until = rp_clock_ticks_ordered();
	rp_clock_coarse_pass(snapshot->until);
	rp_fence_heavy();
	snapshot->late = rp_session_await_holders(snapshot->session,
						  rp_clock_monotonic_ns() + HOLDER_NS);
	ret = make_copies(copy, snapshot->session);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < copy->source_count; i++)
		rp_ring_copy(copy->sources[i].ring, snapshot->session->sources[i].ring);
	*ret_from = rp_session_complete_from(copy);
	return 0;
}

/* Copy the rings of state events. Events up to T are complete there and are never discarded. */
static int copy_state_rings(struct rp_snapshot *snapshot)
{
	const struct rp_session *state_rings = snapshot->session->state_rings;
	struct rp_session *copy = &snapshot->copy;
	uint32_t count = rp_load_acquire(&state_rings->source_count);
	int ret = 0;

	snapshot->late += rp_session_await_holders(state_rings,
						   rp_clock_monotonic_ns() + HOLDER_NS);
	for (uint32_t i = 0; ret == 0 && i < count; i++) {
		const struct rp_ring *ring = state_rings->sources[i].ring;
		struct rp_ring **to = &copy->sources[copy->source_count].ring;

		ret = rp_ring_create(ring->size, ring->id, to);
		if (ret == 0) {
			rp_ring_copy(*to, ring);
			copy->source_count++;
		}
	}
	return ret;
}

static int init_copy(struct rp_session *copy, const struct rp_session *session)
{
	copy->id = session->id;
	copy->flags = session->flags & RP_SESSION_COARSE;
	copy->slot = session->slot;
	copy->is_snapshot = true;
	copy->begun_ns = session->begun_ns;
	copy->sources = calloc(2 * (session->ring_count + RP_FALLBACKS), sizeof(*copy->sources));
	copy->active = calloc(2 * (session->ring_count + RP_FALLBACKS), sizeof(struct rp_source *));
	return copy->sources && copy->active ? 0 : -ENOMEM;
}

/* Take the current stats, and the clock map of the drain thread's last pass. */
static void settle(struct rp_snapshot *snapshot, uint64_t from)
{
	struct rp_session *session = snapshot->session, *copy = &snapshot->copy;

	rp_session_copy_counts(copy, session);
	rp_session_count_lost(copy, RP_LOSS_DAMAGED, snapshot->late);
	pthread_mutex_lock(&rp_core.lock);
	/* `late` counts the writers that hold a lock now; the drain thread counted earlier ones. */
	rp_session_count_lost(copy, RP_LOSS_DAMAGED, session->stats.lost_by[RP_LOSS_DAMAGED]);
	snapshot->map = *session->map;
	pthread_mutex_unlock(&rp_core.lock);
	rp_session_set_window(copy, from, snapshot->until, &snapshot->map);
	snapshot->end_ns = rp_clock_map_ns(&snapshot->map, snapshot->until);
	snapshot->start_ns = copy->window.from_ns;
	for (uint32_t i = 0; i < copy->source_count; i++) {
		const struct rp_source *source = &copy->sources[i];
		const struct rp_record *record = rp_ring_record(source->ring, source->position,
								source->ring->head);
		uint64_t ns = record ? rp_clock_map_ns(&snapshot->map, record->ticks) : UINT64_MAX;

		if (ns < snapshot->start_ns)
			snapshot->start_ns = ns;
	}
}

/* Copy all rings of a session that is kept from ending. */
static int copy_all(struct rp_snapshot *snapshot)
{
	uint64_t from = UINT64_MAX;
	int ret = init_copy(&snapshot->copy, snapshot->session);

	for (unsigned int i = 0; ret == 0 && i < TRIES && from > snapshot->until; i++)
		ret = copy_rings(snapshot, &from);
	if (ret == 0)
		ret = copy_state_rings(snapshot);
	if (ret == 0)
		settle(snapshot, from);
	return ret;
}

/* Take a snapshot of `session`; NULL: of the session with the id. */
static int take(struct rp_session *session, uint64_t id, struct rp_snapshot **ret_snapshot)
{
	struct rp_snapshot *snapshot;
	int ret = 0;

	if (rp_drain_is_self())
		return -EDEADLK;
	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return -ENOMEM;
	pthread_mutex_lock(&rp_core.lock);
	if (!session)
		ret = find(id, &session);
	if (ret == 0)
		ret = hold(session);
	pthread_mutex_unlock(&rp_core.lock);
	if (ret != 0) {
		free(snapshot);
		return ret;
	}
	snapshot->session = session;
	ret = copy_all(snapshot);
	if (ret != 0) {
		rp_snapshot_free(snapshot);
		return ret;
	}
	*ret_snapshot = snapshot;
	return 0;
}

int rp_snapshot_take(struct rp_session *session, struct rp_snapshot **ret_snapshot)
{
	return session->flags & RP_SESSION_OVERWRITE ? take(session, 0, ret_snapshot) : -EINVAL;
}

int rp_snapshot_take_by_id(uint64_t session_id, struct rp_snapshot **ret_snapshot)
{
	return take(NULL, session_id, ret_snapshot);
}

void rp_snapshot_get_about(const struct rp_snapshot *snapshot, struct rp_snapshot_about *ret_about)
{
	*ret_about = (struct rp_snapshot_about){
		.session_id = snapshot->session->id,
		.start_ns = snapshot->start_ns,
		.session_flags = snapshot->session->flags,
		.sample_interval_ns = snapshot->session->sample_interval_ns,
		.format = snapshot->session->format,
	};
}

static int emit_note(struct rp_snapshot *snapshot)
{
	struct rp_sink *sink = snapshot->copy.sink;
	struct rp_record_view note;
	int ret;

	if (!snapshot->note)
		return 0;
	note = *snapshot->note;
	note.time_ns = snapshot->end_ns;
	ret = sink->ops->event(sink, &note);
	if (ret == 0)
		snapshot->note = NULL;
	return ret;
}

/* Pass everything to the sink, or continue after -EAGAIN. */
static int give_all(struct rp_snapshot *snapshot)
{
	struct rp_session *copy = &snapshot->copy;
	int ret = rp_session_merge(copy, snapshot->until, &snapshot->map, NULL);

	if (ret != 0)
		return ret;
	copy->last_ns = snapshot->end_ns;
	ret = emit_note(snapshot);
	if (ret == 0)
		ret = rp_session_emit_window(copy);
	if (ret == 0)
		ret = rp_session_emit_losses(copy);
	if (ret == 0)
		ret = copy->sink->ops->finish(copy->sink, copy->last_ns, rp_session_reported(copy));
	return ret;
}

static bool is_ending(const struct rp_session *session)
{
	bool ending;

	pthread_mutex_lock(&rp_core.lock);
	ending = session->state != RP_SESSION_RUNNING;
	pthread_mutex_unlock(&rp_core.lock);
	return ending;
}

/* A slow reader has no deadline until the session is being stopped. */
static bool wait_for_sink(struct rp_snapshot *snapshot)
{
	struct rp_session *copy = &snapshot->copy;
	struct pollfd peer = { .fd = copy->sink->busy ? -1 : copy->sink->fd, .events = POLLOUT };

	(void)copy->sink->ops->flush(copy->sink);
	(void)poll(&peer, 1, copy->sink->busy ? PAUSE_MS : 50 * PAUSE_MS);
	if (!is_ending(snapshot->session))
		copy->finish.waited_ns = 0;
	return rp_session_may_wait(copy);
}

void rp_snapshot_note(struct rp_snapshot *snapshot, const struct rp_record_view *note)
{
	snapshot->note = note;
}

int rp_snapshot_write(struct rp_snapshot *snapshot, struct rp_sink *sink,
		      struct rp_snapshot_info *ret_info)
{
	struct rp_session *copy = &snapshot->copy;
	uint64_t from = copy->window.from_ns, to = copy->window.to_ns;
	int ret;

	copy->sink = sink;
	copy->last_ns = snapshot->start_ns;
	copy->finish.checked_ns = rp_clock_monotonic_ns();
	do {
		ret = give_all(snapshot);
	} while (ret == -EAGAIN && wait_for_sink(snapshot));
	if (ret != 0) {
		sink->ops->abandon(sink, copy->last_ns, rp_session_lost(copy));
		return ret == -EAGAIN ? -ETIMEDOUT : ret;
	}
	*ret_info = (struct rp_snapshot_info){
		.size = sizeof(*ret_info),
		.from_ns = from,
		.to_ns = to,
		.events = sink->delivered,
		.lost = rp_session_lost(copy),
		.bytes = sink->bytes,
	};
	return 0;
}
