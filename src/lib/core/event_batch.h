/* SPDX-License-Identifier: MIT */
/*
 * A batch: consecutive records of one ring, up to the time of the next record in any other
 * ring. Every sink takes batches with the loop below, into which its function for an event is
 * inlined.
 */
#ifndef RP_CORE_EVENT_BATCH_H
#define RP_CORE_EVENT_BATCH_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "core/sink.h"
#include "ring/ring.h"

#define RP_BATCH_AHEAD_BYTES 2048u	/* distance of the prefetch; the best one measured */

struct rp_event_batch {
	const struct rp_ring *ring;
	uint64_t position;	/* of the first record; afterwards after the last one taken */
	uint64_t pause;		/* records from here on are not taken */
	uint64_t limit;		/* end of the ring's readable bytes */
	uint64_t until_ticks;	/* later records are not taken */
	struct rp_clock_map *map;
	uint64_t last_ns;	/* of the last event taken */
	/* The loop adds to these. */
	uint64_t clamped;	/* late events, moved to the time of the previous one */
	uint64_t damaged;
	uint64_t refused;	/* events that the format cannot hold */
};

/* event.c. Return NULL if no definition has the index. */
const struct rp_event_def *rp_event_def_by_index(uint32_t index);

/* Parse a record of `length` bytes. Return: 0; -EBADMSG: its parts do not fit into the length. */
static inline int rp_record_view(const struct rp_record *record, uint32_t length,
				 struct rp_record_view *ret_view)
{
	const uint8_t *at = record->body;
	uint32_t frames_bytes = record->frames * 8u, ids = record->flags;
	uint32_t prefix = frames_bytes + (ids & RP_RECORD_ACTIVITY ? 16u : 0u) +
			  (ids & RP_RECORD_RELATED ? 16u : 0u);

	if (prefix > length - RP_RECORD_HEADER)
		return -EBADMSG;
	ret_view->record = record;
	ret_view->record_bytes = length;
	ret_view->thread = record->thread;
	ret_view->processor = record->processor;
	ret_view->activity = ids & RP_RECORD_ACTIVITY ? (const void *)at : NULL;
	at += ids & RP_RECORD_ACTIVITY ? 16 : 0;
	ret_view->related_activity = ids & RP_RECORD_RELATED ? (const void *)at : NULL;
	at += ids & RP_RECORD_RELATED ? 16 : 0;
	ret_view->frames = at;
	ret_view->frame_count = record->frames;
	ret_view->payload = at + frames_bytes;
	ret_view->payload_bytes = length - RP_RECORD_HEADER - prefix;
	return 0;
}

/*
 * The common part of a repeat run, whose records differ only in time and payload: length and event;
 * thread, processor and prefix.
 */
struct rp_event_batch_key {
	uint64_t kind, writer;
};

static inline struct rp_event_batch_key rp_event_batch_key_of(const struct rp_record *record)
{
	struct rp_event_batch_key key;

	memcpy(&key.kind, record, sizeof(key.kind));
	memcpy(&key.writer, &record->thread, sizeof(key.writer));
	return key;
}

static inline bool rp_event_batch_has(const struct rp_event_batch_key *key,
				      const struct rp_record *record)
{
	struct rp_event_batch_key its = rp_event_batch_key_of(record);

	return its.kind == key->kind && its.writer == key->writer;
}

/*
 * Deliver the records of a batch to the sink. `event` is the sink's operation of that name.
 *
 * A sink may have a shorter path for a repeat run, in which records differ only in time and
 * payload. `begins` gets the first record of a possible repeat run: after each record that went
 * through `event`, and after each change of the common part. It returns whether this record and its
 * repetitions may go through `repeat`. `repeat` takes a record and returns true, or leaves the
 * record to `event`. Both are NULL if the sink has no shorter path.
 *
 * Return: 0, or the error of the sink for the event at the batch's position.
 *
 * The prefetch assumes that the next record has the length of the previous one. The processor then
 * loads several records simultaneously and does not wait for each length from another CPU's cache.
 */
static inline __attribute__((always_inline)) int
rp_event_batch_deliver(struct rp_event_batch *batch, struct rp_sink *sink,
		       int (*event)(struct rp_sink *sink, const struct rp_record_view *view),
		       bool (*begins)(struct rp_sink *sink, const struct rp_event_def *def,
				      const struct rp_record *record, uint32_t payload_bytes),
		       bool (*repeat)(struct rp_sink *sink, uint64_t time_ns, const void *payload,
				     uint32_t payload_bytes))
{
	const struct rp_ring ring = { .data = batch->ring->data, .size = batch->ring->size };
	uint64_t position = batch->position, limit = batch->limit, last_ns = batch->last_ns;
	struct rp_record_view view = { 0 };
	struct rp_event_batch_key key = { 0, 0 };
	uint32_t length = 0, index = UINT32_MAX, guess;
	bool in_batch = false;
	int ret = 0;

	while (position < batch->pause) {
		const struct rp_record *record = rp_ring_at(&ring, position);

		__builtin_prefetch((const uint8_t *)record + RP_BATCH_AHEAD_BYTES);
		if (!in_batch || limit - position < length || !rp_event_batch_has(&key, record)) {
			record = rp_ring_record(&ring, position, limit);
			if (!record) {
				batch->damaged++;
				position = limit;
				break;
			}
			guess = length;
			__asm__("" : "+r"(guess));	/* hides that both are the same value */
			if (record->length != guess) {
				length = record->length;
				__asm__ volatile("");	/* a branch, not a conditional move */
			}
			if (record->event != index) {
				index = record->event;
				view.def = rp_event_def_by_index(index);
			}
			key = rp_event_batch_key_of(record);
			in_batch = begins && view.def &&
				 begins(sink, view.def, record, length - RP_RECORD_HEADER);
		}
		if (record->ticks > batch->until_ticks)
			break;
		view.time_ns = rp_clock_map_ns(batch->map, record->ticks);
		if (view.time_ns < last_ns) {
			view.time_ns = last_ns;
			batch->clamped++;
		}
		if (in_batch && repeat(sink, view.time_ns, record->body,
				      length - RP_RECORD_HEADER)) {
			last_ns = view.time_ns;
		} else if (__builtin_expect(!view.def ||
					    rp_record_view(record, length, &view) != 0, 0)) {
			batch->damaged++;
		} else {
			in_batch = false;
			ret = event(sink, &view);
			if (ret == 0)
				last_ns = view.time_ns;
			else if (ret != -EMSGSIZE)
				break;
			else
				batch->refused++;
			ret = 0;
		}
		position += rp_record_step(length);
	}
	batch->position = position;
	batch->last_ns = last_ns;
	return ret;
}

#endif
