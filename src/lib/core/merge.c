/* SPDX-License-Identifier: MIT */
/*
 * Merge the rings of one session: all events up to the sequence point go to the sink in time order.
 *
 * Rules, which the tests of loss accounting check:
 *  - The merge only emits records with ticks <= T. Between T and a ring's head, records of other
 *    rings may still be missing.
 *  - The time of a record is never before the time of the previous one. The time of a late record
 *    is moved, and the record is counted.
 *  - Records that the sink does not take remain in the ring. They are lost only in one place, in a
 *    ring that is full.
 */
#include "core/merge.h"

#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/drain_wake.h"
#include "core/event_batch.h"
#include "core/missing.h"
#include "core/session_emit.h"
#include "core/session_recovery.h"
#include "core/session_state.h"
#include "core/wait.h"
#include "ring/slot.h"

#define PUBLISH_BYTES (64u << 10)

/*
 * Return the record at the source's position, with its length checked. Skip a damaged ring to its
 * head.
 */
static const struct rp_record *peek(struct rp_session *session, struct rp_source *source)
{
	const struct rp_record *record;
	uint64_t end;

	if (source->position >= source->limit)
		return NULL;
	end = rp_ring_batch_end(source->ring, source->position, source->limit);
	if (source->position == end) {
		source->position = rp_ring_next_batch(source->ring, end);
		if (source->position >= source->limit)
			return NULL;
		end = rp_ring_batch_end(source->ring, source->position, source->limit);
	}
	record = rp_ring_record(source->ring, source->position, end);
	if (!record) {
		session->lost_damaged++;
		source->position = source->limit;
	}
	return record;
}

static void publish_tail(const struct rp_session *session, struct rp_source *source)
{
	bool freed = source->ring->tail != source->position;

	/* A buffer becomes free after all of it has been read: buffers.c. */
	if (session->pool_count)
		return;
	rp_store_release(&source->ring->tail, source->position);	/* [RING-ROOM] */
	if (freed && session->wait_ns)
		rp_wait_wake(&rp_slots[session->slot]);
}

static void publish_tails(struct rp_session *session)
{
	for (uint32_t i = 0; i < session->source_count; i++)
		publish_tail(session, &session->sources[i]);
}

void rp_session_publish(struct rp_session *session, const struct rp_clock_map *map)
{
	rp_session_record(session, map);
	publish_tails(session);
}

static void snapshot_stats(struct rp_session *session, struct rp_event_batch *run)
{
	session->last_ns = run->last_ns;
	session->clamped += run->clamped;
	session->lost_damaged += run->damaged;
	session->lost_sink += run->refused;
	run->clamped = 0;
	run->damaged = 0;
	run->refused = 0;
}

/*
 * Flush the output and free the space. A session whose rings are files frees space only after its
 * output contains the records.
 */
static int hand_over(struct rp_session *session, struct rp_event_batch *run)
{
	int ret = session->sink->ops->flush(session->sink);

	snapshot_stats(session, run);
	if (ret == 0)
		rp_session_publish(session, run->map);
	return ret;
}

/* Move a source to its place by time, after sources with the same time. */
static void put_active(struct rp_session *session, uint32_t at, struct rp_source *source)
{
	struct rp_source **active = session->active;

	/* From the near end, because a source usually moves by few places. */
	while (at + 1 < session->active_count && active[at + 1]->ticks <= source->ticks) {
		active[at] = active[at + 1];
		at++;
	}
	active[at] = source;
}

static void add_active(struct rp_session *session, struct rp_source *source)
{
	struct rp_source **active = session->active;
	uint32_t at = session->active_count++;

	for (; at > 0 && active[at - 1]->ticks > source->ticks; at--)
		active[at] = active[at - 1];
	active[at] = source;
}

static void drop_first(struct rp_session *session)
{
	session->active_count--;
	memmove(session->active, session->active + 1,
		session->active_count * sizeof(*session->active));
}

/*
 * Return the source with the earliest next record, and in *ret_next the time of the second source.
 */
static struct rp_source *earliest(struct rp_session *session, uint64_t bound, uint64_t *ret_next)
{
	struct rp_source **active = session->active;

	if (session->active_count == 0 || active[0]->ticks > bound)
		return NULL;
	*ret_next = session->active_count > 1 && active[1]->ticks < bound ? active[1]->ticks :
		    bound;
	return active[0];
}

/* Emit records of the first source while no other source has an earlier record. */
static int give_run(struct rp_session *session, struct rp_source *source,
		    struct rp_event_batch *run)
{
	const struct rp_record *record;
	int ret;

	run->ring = source->ring;
	run->position = source->position;
	run->limit = rp_ring_batch_end(source->ring, source->position, source->limit);
	do {
		/* Free space for writers at intervals. */
		run->pause = source->position + PUBLISH_BYTES;
		if (run->pause > run->limit)
			run->pause = run->limit;
		ret = session->sink->ops->run(session->sink, run);
		source->position = run->position;
		rp_drain_move_coarse();
		if (run->position < run->pause)
			break;
		if (!session->recovery)
			publish_tail(session, source);
		else if (ret == 0)
			ret = hand_over(session, run);
	} while (ret == 0 && run->position < run->limit);
	record = peek(session, source);
	if (record) {
		source->ticks = record->ticks;
		put_active(session, 0, source);
	} else {
		drop_first(session);
	}
	return ret;
}

int rp_session_merge(struct rp_session *session, uint64_t bound, struct rp_clock_map *map)
{
	struct rp_event_batch run = { .map = map, .last_ns = session->last_ns };
	struct rp_source *source;
	int ret;

	session->active_count = 0;
	for (uint32_t i = 0; i < session->source_count; i++) {
		const struct rp_record *record;

		source = &session->sources[i];
		if (!source->given_up)
			source->limit = rp_load_acquire(&source->ring->head);	/* [RING-PUB] */
		record = peek(session, source);
		if (record) {
			source->ticks = record->ticks;
			add_active(session, source);
		}
	}
	ret = rp_session_emit_coarse(session);
	if (ret == 0)
		ret = rp_missing_emit(session);
	while (ret == 0 && (source = earliest(session, bound, &run.until_ticks)) != NULL)
		ret = give_run(session, source, &run);
	snapshot_stats(session, &run);
	if (!session->recovery)
		publish_tails(session);
	return ret;
}

uint64_t rp_session_skip_rest(struct rp_session *session)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < session->source_count; i++) {
		struct rp_source *source = &session->sources[i];
		const struct rp_record *record;

		if (!source->given_up)
			source->limit = rp_load_acquire(&source->ring->head);
		while ((record = peek(session, source)) != NULL) {
			source->position += rp_record_step(record->length);
			count++;
		}
	}
	return count;
}

