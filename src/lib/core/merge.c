/* SPDX-License-Identifier: MIT */
/*
 * Merge rings into a sink: all events up to the sequence point go to the sink in time order.
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
#include "core/drain_wake.h"
#include "core/ring_source.h"
#include "ring/ring.h"

#define PUBLISH_BYTES (64u << 10)

/*
 * Return the record at the source's position, with its length checked. Skip a damaged ring to its
 * head, and count it in *damaged.
 */
static const struct rp_record *peek(struct rp_source *source, uint64_t *damaged)
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
		(*damaged)++;
		source->position = source->limit;
	}
	return record;
}

/* Move a source to its place by time, after sources with the same time. */
static void put_active(struct rp_merge *merge, uint32_t at, struct rp_source *source)
{
	struct rp_source **active = merge->active;

	/* From the near end, because a source usually moves by few places. */
	while (at + 1 < merge->active_count && active[at + 1]->ticks <= source->ticks) {
		active[at] = active[at + 1];
		at++;
	}
	active[at] = source;
}

static void add_active(struct rp_merge *merge, struct rp_source *source)
{
	struct rp_source **active = merge->active;
	uint32_t at = merge->active_count++;

	for (; at > 0 && active[at - 1]->ticks > source->ticks; at--)
		active[at] = active[at - 1];
	active[at] = source;
}

static void drop_first(struct rp_merge *merge)
{
	merge->active_count--;
	memmove(merge->active, merge->active + 1,
		merge->active_count * sizeof(*merge->active));
}

/*
 * Return the source with the earliest next record, and in *ret_next the time of the second source.
 */
static struct rp_source *earliest(struct rp_merge *merge, uint64_t bound, uint64_t *ret_next)
{
	struct rp_source **active = merge->active;

	if (merge->active_count == 0 || active[0]->ticks > bound)
		return NULL;
	*ret_next = merge->active_count > 1 && active[1]->ticks < bound ? active[1]->ticks :
		    bound;
	return active[0];
}

/* Emit records of the first source while no other source has an earlier record. */
static int give_batch(struct rp_merge *merge, struct rp_source *source)
{
	struct rp_event_batch *batch = &merge->batch;
	const struct rp_record *record;
	int ret;

	batch->ring = source->ring;
	batch->position = source->position;
	batch->limit = rp_ring_batch_end(source->ring, source->position, source->limit);
	do {
		batch->pause = source->position + PUBLISH_BYTES;
		if (batch->pause > batch->limit)
			batch->pause = batch->limit;
		ret = merge->sink->ops->batch(merge->sink, batch);
		source->position = batch->position;
		rp_drain_move_coarse();
		if (batch->position < batch->pause)
			break;
		if (ret == 0 && merge->publish)
			ret = merge->publish(merge);
	} while (ret == 0 && batch->position < batch->limit);
	record = peek(source, &batch->damaged);
	if (record) {
		source->ticks = record->ticks;
		put_active(merge, 0, source);
	} else {
		drop_first(merge);
	}
	return ret;
}

int rp_merge(struct rp_merge *merge, uint64_t bound)
{
	struct rp_source *source;
	int ret = 0;

	merge->active_count = 0;
	for (uint32_t i = 0; i < merge->source_count; i++) {
		const struct rp_record *record;

		source = &merge->sources[i];
		if (!source->given_up)
			source->limit = rp_load_acquire(&source->ring->head);	/* [RING-PUB] */
		record = peek(source, &merge->batch.damaged);
		if (record) {
			source->ticks = record->ticks;
			add_active(merge, source);
		}
	}
	while (ret == 0 && (source = earliest(merge, bound, &merge->batch.until_ticks)) != NULL)
		ret = give_batch(merge, source);
	return ret;
}

uint64_t rp_merge_skip(struct rp_merge *merge)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < merge->source_count; i++) {
		struct rp_source *source = &merge->sources[i];
		const struct rp_record *record;

		if (!source->given_up)
			source->limit = rp_load_acquire(&source->ring->head);
		while ((record = peek(source, &merge->batch.damaged)) != NULL) {
			source->position += rp_record_step(record->length);
			count++;
		}
	}
	return count;
}
