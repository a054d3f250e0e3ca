/* SPDX-License-Identifier: MIT */
/*
 * Merges the rings of one session: everything stamped up to the sequence point goes to the sink in
 * time order.
 *
 * Rules (each has its proof in the tests of the accounting):
 *  - only records with ticks <= T are given out: between T and a ring's head others may still be
 *    missing from other rings;
 *  - a record's time is never before the one given out last: what comes late is moved and counted;
 *  - what the sink does not take stays in the ring: losses have one place, the ring that is full.
 */
#include "core/merge.h"

#include <string.h>

#include "core/core.h"
#include "core/drain_wake.h"
#include "core/event_batch.h"
#include "core/missing.h"
#include "core/session_emit.h"
#include "core/session_recovery.h"
#include "core/wait.h"

#define PUBLISH_BYTES (64u << 10)

/*
 * The record at the source's position, its length checked; a damaged ring is skipped to its head.
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

	/* The space of a buffer comes back when all of it has been read: buffers.c. */
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

/* A session that keeps files gives no room back before its output has what was there. */
static int hand_over(struct rp_session *session, struct rp_event_batch *run)
{
	int ret = session->sink->ops->flush(session->sink);

	snapshot_stats(session, run);
	if (ret == 0)
		rp_session_publish(session, run->map);
	return ret;
}

/* Puts a source that has records where its time belongs, behind those of the same time. */
static void put_active(struct rp_session *session, uint32_t at, struct rp_source *source)
{
	struct rp_source **active = session->active;

	/* From the end that is near: mostly it moves a place or two, or none. */
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

/* The source whose next record is the earliest, and the time of the runner-up. */
static struct rp_source *earliest(struct rp_session *session, uint64_t bound, uint64_t *ret_next)
{
	struct rp_source **active = session->active;

	if (session->active_count == 0 || active[0]->ticks > bound)
		return NULL;
	*ret_next = session->active_count > 1 && active[1]->ticks < bound ? active[1]->ticks :
		    bound;
	return active[0];
}

/* Gives out records of the first source as long as no other source has an earlier one. */
static int give_run(struct rp_session *session, struct rp_source *source,
		    struct rp_event_batch *run)
{
	const struct rp_record *record;
	int ret;

	run->ring = source->ring;
	run->position = source->position;
	run->limit = rp_ring_batch_end(source->ring, source->position, source->limit);
	do {
		/* Writers get their room back now and then. */
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

