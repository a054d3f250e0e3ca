/* SPDX-License-Identifier: MIT */
/*
 * One session, one pass: everything stamped up to the sequence point goes to the sink in time
 * order.
 *
 * Rules (each has its proof in the tests of the accounting):
 *  - only records with ticks <= T are given out: between T and a ring's head others may still be
 *    missing from other rings;
 *  - a record's time is never before the one given out last: what comes late is moved and counted;
 *  - what the sink does not take stays in the ring: losses have one place, the ring that is full.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"
#include "core/core.h"
#include "core/run.h"
#include "recover/keep.h"

#define RING_MIN (64u << 10)
#define FALLBACK_MIN (128u << 10)
#define RINGS_AT_START 8u
#define FALLBACK_IDS (1u << 16)		/* ids of fallback rings begin here */
#define STATE_IDS (1u << 17)		/* … of rings for state events */
#define PUBLISH_BYTES (64u << 10)
#define HOLDER_NS 10000000u		/* a running session waits this long for a lock's holder */
#define LEAVER_NS 1000000000u		/* a finishing one this long, before it gives the ring up */
#define POINT_NS 1000000000u		/* between sequence points of a stream without losses */

_Static_assert(FALLBACK_MIN >= RP_RECORD_MAX, "a fallback ring takes the largest record");

static size_t power_of_two_below(size_t value)
{
	size_t power = 1;

	while (power * 2 <= value)
		power *= 2;
	return power;
}

static int add_source(struct rp_session *session, size_t bytes, uint32_t id)
{
	struct rp_source *source = &session->sources[session->source_count];
	int ret;

	id += session->keeps_state ? STATE_IDS : 0;
	ret = session->keep ?
	      rp_keep_make_ring(session->keep, bytes, id, &source->ring, &source->file) :
	      rp_ring_create(bytes, id, &source->ring);
	if (ret != 0)
		return ret;
	if (session->flags & RP_SESSION_OVERWRITE)
		rp_ring_set_overwrite(source->ring);
	if (session->keeps_state)
		source->ring->watermark = source->ring->size;
	session->used_bytes += bytes;
	rp_store_release(&session->source_count, session->source_count + 1);
	return 0;
}

/* Makes the rings below `wanted` that are missing, as far as the session's ceiling goes. */
static int make_rings(struct rp_session *session, uint64_t wanted)
{
	for (uint64_t cid = 0; cid < wanted && cid < session->ring_count; cid++) {
		int ret;

		if (session->rings[cid] ||
		    session->used_bytes + session->ring_bytes > session->budget_bytes)
			continue;
		ret = add_source(session, session->ring_bytes, (uint32_t)cid);
		if (ret != 0)
			return ret;
		rp_store_release(&session->rings[cid],
				 session->sources[session->source_count - 1].ring);
	}
	return 0;
}

int rp_session_make_fallbacks(struct rp_session *session)
{
	unsigned int count = rp_rseq_usable ? RP_FALLBACKS / 2 : RP_FALLBACKS;
	size_t bytes = power_of_two_below(session->budget_bytes / RP_FALLBACKS), sources;
	int ret = 0;

	/* Rings of state events take the place of one. */
	count -= session->kept != NULL;
	session->ring_count = rp_slot_ring_count();
	session->rings = calloc(session->ring_count ? session->ring_count : 1,
				sizeof(*session->rings));
	sources = session->ring_count + RP_FALLBACKS;
	session->sources = calloc(session->kept ? 2 * sources : sources, sizeof(*session->sources));
	if (!session->rings || !session->sources)
		return -ENOMEM;
	for (unsigned int i = 0; ret == 0 && i < count; i++)
		ret = add_source(session, bytes, FALLBACK_IDS + i);
	session->fallback_count = session->source_count;
	if (session->ring_count)
		session->ring_bytes = power_of_two_below(session->budget_bytes / 2 /
							 session->ring_count);
	if (session->ring_bytes < RING_MIN)
		session->ring_bytes = RING_MIN;
	if (session->kept)
		session->budget_bytes -= session->kept->budget_bytes;
	/*
	 * The ids every process uses have theirs before the first event: on the fallback, many
	 * threads that begin at once lose to each other. Pages nobody wrote to cost nothing.
	 */
	return ret == 0 ? make_rings(session, RINGS_AT_START) : ret;
}

void rp_session_free_rings(struct rp_session *session)
{
	if (!session->keeps_state)
		rp_keep_destroy(session->keep);
	session->keep = NULL;
	for (uint32_t i = 0; session->sources && i < session->source_count; i++)
		rp_ring_destroy(session->sources[i].ring);
	free(session->sources);
	free(session->rings);
	session->sources = NULL;
	session->rings = NULL;
	session->source_count = 0;
	session->used_bytes = 0;
}

static bool above(const struct rp_ring *ring, uint64_t position, unsigned int divisor)
{
	return rp_load_acquire(&ring->head) - position > ring->size / divisor;	/* [RING-PUB] */
}

bool rp_session_above(const struct rp_session *session, unsigned int divisor)
{
	if (session->flags & RP_SESSION_OVERWRITE)
		return false;
	for (uint32_t i = 0; i < session->source_count; i++) {
		if (above(session->sources[i].ring, session->sources[i].position, divisor))
			return true;
	}
	return false;
}

/*
 * Waits for a writer that holds a fallback lock to give it back, not past `until_ns`. A holder
 * that does not is late: in a running session its event is moved, in a finishing one its ring is
 * given up.
 */
static bool wait_for_lock(const struct rp_fallback *fallback, uint32_t lock, uint64_t until_ns)
{
	struct timespec pause = { 0, 20000 };

	while (rp_load_acquire(&fallback->lock) == lock) {
		if (rp_clock_monotonic_ns() > until_ns)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/*
 * The ring of a writer that left (siglongjmp out of a signal handler) while holding the lock: the
 * writer may come back, so the memory stays; its lock stays odd, so nobody else takes it.
 */
static void give_up_ring(struct rp_session *session, unsigned int index, uint32_t lock)
{
	struct rp_source *source = &session->sources[index];

	rp_slots[session->slot].fallback[index].left = lock;
	source->limit = rp_load_acquire(&source->ring->head);
	source->given_up = true;
	session->lost_damaged += rp_load_relaxed(&source->ring->intent) > source->limit;
}

/* Nobody is waited for twice in a running session, nor for what an earlier one gave up. */
static void wait_for_holders(struct rp_session *session, bool finishing)
{
	struct rp_slot *slot = &rp_slots[session->slot];
	uint64_t until = rp_clock_monotonic_ns() + (finishing ? LEAVER_NS : HOLDER_NS);

	for (unsigned int i = 0; i < session->fallback_count; i++) {
		struct rp_fallback *fallback = &slot->fallback[i];
		uint32_t lock = rp_load_seq_cst(&fallback->lock);	/* [SLOT-LOCK] */

		if (!(lock & 1) || lock == fallback->left ||
		    (!finishing && lock == fallback->late) ||
		    wait_for_lock(fallback, lock, until))
			continue;
		fallback->late = lock;
		if (finishing)
			give_up_ring(session, i, lock);
	}
}

unsigned int rp_session_await_holders(const struct rp_session *session, uint64_t until_ns)
{
	const struct rp_slot *slot = &rp_slots[session->slot];
	unsigned int late = 0;

	for (unsigned int i = 0; i < session->fallback_count; i++) {
		const struct rp_fallback *fallback = &slot->fallback[i];
		uint32_t lock = rp_load_seq_cst(&fallback->lock);	/* [SLOT-LOCK] */

		if ((lock & 1) && lock != fallback->left)
			late += !wait_for_lock(fallback, lock, until_ns);
	}
	return late;
}

/* After the bits are off and every writer is out: what the accounts say now is final. */
static void close_accounts(struct rp_session *session)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	session->account_busy = rp_exchange_seq_cst(&slot->busy, 0) & RP_ACCOUNT_COUNT;
	session->account_too_big = rp_exchange_seq_cst(&slot->too_big, 0) & RP_ACCOUNT_COUNT;
	session->account_blocked = rp_exchange_seq_cst(&slot->blocked, 0) & RP_ACCOUNT_COUNT;
	session->handshaken = true;
}

/* At the end: what was kept is merged with the rest. */
static void take_kept(struct rp_session *session)
{
	struct rp_session *kept = session->kept;

	if (!kept)
		return;
	wait_for_holders(kept, true);
	close_accounts(kept);
	for (uint32_t i = 0; i < kept->source_count; i++)
		session->sources[session->source_count++] = kept->sources[i];
	kept->source_count = 0;
	session->account_busy += kept->account_busy;
	session->account_too_big += kept->account_too_big;
	session->lost_damaged += kept->lost_damaged;
	session->used_bytes += kept->used_bytes;
	session->kept = NULL;
	rp_session_free(kept);
}

/*
 * The record at the source's position, its length checked; a damaged ring is skipped to its head.
 */
static const struct rp_record *peek(struct rp_session *session, struct rp_source *source)
{
	const struct rp_record *record;
	uint64_t end;

	if (source->position >= source->limit)
		return NULL;
	end = rp_ring_row_end(source->ring, source->position, source->limit);
	if (source->position == end) {
		source->position = rp_ring_next_row(source->ring, end);
		if (source->position >= source->limit)
			return NULL;
		end = rp_ring_row_end(source->ring, source->position, source->limit);
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

	rp_store_release(&source->ring->tail, source->position);	/* [RING-ROOM] */
	if (freed && session->wait_ns)
		rp_wait_wake(&rp_slots[session->slot]);
}

static void publish_tails(struct rp_session *session)
{
	for (uint32_t i = 0; i < session->source_count; i++)
		publish_tail(session, &session->sources[i]);
}

static void record_figures(struct rp_session *session, const struct rp_clock_map *map)
{
	rp_session_record(session, map, rp_session_lost(session) -
			  rp_session_lost_by(session, RP_LOSS_FULL));
}

static void record_now(struct rp_session *session, const struct rp_clock_map *map)
{
	record_figures(session, map);
	publish_tails(session);
}

static void take_figures(struct rp_session *session, struct rp_run *run)
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
static int hand_over(struct rp_session *session, struct rp_run *run)
{
	int ret = session->sink->ops->flush(session->sink);

	take_figures(session, run);
	if (ret == 0)
		record_now(session, run->map);
	return ret;
}

/* The source whose next record is the earliest, and the time of the runner-up. */
static struct rp_source *earliest(struct rp_session *session, uint64_t bound, uint64_t *ret_next)
{
	struct rp_source *first = NULL;
	uint64_t next = bound;

	for (uint32_t i = 0; i < session->source_count; i++) {
		struct rp_source *source = &session->sources[i];

		if (source->position >= source->limit || source->ticks > bound)
			continue;
		if (!first || source->ticks < first->ticks) {
			if (first)
				next = first->ticks;
			first = source;
		} else if (source->ticks < next) {
			next = source->ticks;
		}
	}
	*ret_next = next;
	return first;
}

/* Gives out records of one source as long as no other source has an earlier one. */
static int give_run(struct rp_session *session, struct rp_source *source, struct rp_run *run)
{
	const struct rp_record *record;
	int ret;

	run->ring = source->ring;
	run->position = source->position;
	run->limit = rp_ring_row_end(source->ring, source->position, source->limit);
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
		if (!session->keep)
			publish_tail(session, source);
		else if (ret == 0)
			ret = hand_over(session, run);
	} while (ret == 0 && run->position < run->limit);
	record = peek(session, source);
	if (record)
		source->ticks = record->ticks;
	return ret;
}

int rp_session_merge(struct rp_session *session, uint64_t bound, struct rp_clock_map *map)
{
	struct rp_run run = { .map = map, .last_ns = session->last_ns };
	struct rp_source *source;
	int ret;

	for (uint32_t i = 0; i < session->source_count; i++) {
		const struct rp_record *record;

		source = &session->sources[i];
		if (!source->given_up)
			source->limit = rp_load_acquire(&source->ring->head);	/* [RING-PUB] */
		record = peek(session, source);
		if (record)
			source->ticks = record->ticks;
	}
	ret = rp_session_tell_coarse(session);
	while (ret == 0 && (source = earliest(session, bound, &run.until_ticks)) != NULL)
		ret = give_run(session, source, &run);
	take_figures(session, &run);
	if (!session->keep)
		publish_tails(session);
	return ret;
}

/* A sequence point in the stream, when there is news or the last one is old. */
static int mark_point(struct rp_session *session, uint64_t now_ns)
{
	uint64_t total;
	int ret = rp_session_tell_losses(session);

	if (ret != 0)
		return ret;
	total = rp_session_told(session);
	if (total == session->lost_in_stream && now_ns < session->last_point_ns + POINT_NS)
		return 0;
	ret = session->sink->ops->sequence_point(session->sink, session->last_ns, total);
	if (ret != 0)
		return ret;
	session->lost_in_stream = total;
	session->last_point_ns = now_ns;
	return 0;
}

static uint64_t records_left(struct rp_session *session)
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

static void end_rings(struct rp_session *session)
{
	pthread_mutex_lock(&rp_core.lock);
	rp_session_fill_stats(session);
	pthread_mutex_unlock(&rp_core.lock);
	for (uint32_t i = 0; i < session->source_count; i++) {
		if (session->sources[i].given_up)
			session->sources[i].ring = NULL;	/* its writer may come back */
	}
	rp_session_free_rings(session);
	session->ended = true;
}

/* The sink is out of use: everything that is left is lost, and counted. */
static enum rp_pass end_failed(struct rp_session *session)
{
	session->lost_sink += records_left(session);
	session->sink->ops->abandon(session->sink, session->last_ns, rp_session_lost(session));
	session->lost_sink += session->sink->pending;
	end_rings(session);
	return RP_PASS_DONE;
}

static void fail(struct rp_session *session, int error)
{
	struct rp_slot *slot = &rp_slots[session->slot];

	session->failed = true;
	session->error = error;
	/* There will be no room any more. */
	rp_store_relaxed(&slot->wait_ns, 0);
	rp_wait_wake(slot);
}

/* A peer that takes nothing is given up, and in the end one that takes little. */
bool rp_session_may_wait(struct rp_session *session)
{
	const struct rp_sink *sink = session->sink;
	uint64_t now = rp_clock_monotonic_ns();

	if (sink->busy)
		session->until_ns = now + RP_SLOW_NS;
	if (sink->busy || sink->bytes != session->finish_bytes)
		session->deadline_ns = now + RP_FINISH_NS;
	session->finish_bytes = sink->bytes;
	return session->patient || (now < session->deadline_ns && now < session->until_ns);
}

static enum rp_pass finish_pass(struct rp_session *session, struct rp_clock_map *map)
{
	int ret;

	if (rp_session_is_copied(session))
		return RP_PASS_BLOCKED;
	if (!session->handshaken) {
		wait_for_holders(session, true);
		close_accounts(session);
		take_kept(session);
		if (session->flags & RP_SESSION_OVERWRITE)
			rp_session_begin_at_oldest(session, map);
	}
	if (session->failed)
		return end_failed(session);
	ret = rp_session_merge(session, UINT64_MAX, map);
	if (ret == 0)
		ret = rp_session_tell_window(session);
	if (ret == 0)
		ret = rp_session_tell_losses(session);
	if (ret == 0)
		ret = session->sink->ops->finish(session->sink, session->last_ns,
						 rp_session_told(session));
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
	int ret, flushed;

	if (session->ended)
		return RP_PASS_DONE;
	if (finishing)
		return finish_pass(session, map);
	if (session->failed)
		return RP_PASS_QUIET;
	(void)make_rings(session, rp_load_relaxed(&slot->wanted));
	if (session->kept) {
		slot = &rp_slots[session->kept->slot];
		(void)make_rings(session->kept, rp_load_relaxed(&slot->wanted));
		rp_session_keep_map(session, map);
		if (session->keep)
			record_figures(session, map);
		return RP_PASS_QUIET;
	}
	wait_for_holders(session, false);
	ret = rp_session_merge(session, now_ticks, map);
	if (ret == 0)
		ret = mark_point(session, rp_clock_monotonic_ns());
	flushed = ret == 0 || ret == -EAGAIN ? session->sink->ops->flush(session->sink) : ret;
	if (flushed == 0 && session->keep)
		record_now(session, map);
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
	return rp_session_above(session, 4) ? RP_PASS_BUSY : RP_PASS_QUIET;
}

void rp_session_fill_stats(struct rp_session *session)
{
	struct rp_session_stats *stats = &session->stats;
	const struct rp_session *kept = session->kept;

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
	stats->rings = session->source_count;
	if (kept) {
		stats->memory_bytes += kept->used_bytes;
		stats->rings += kept->source_count;
	}
}
