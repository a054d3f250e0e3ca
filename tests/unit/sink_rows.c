/* SPDX-License-Identifier: MIT */
/*
 * Repeat runs, which the file's sink encodes on a short path, compared with the same records one by
 * one.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "core/event_batch.h"
#include "sink/sinks.h"

#define RING_BYTES (1u << 20)
#define HEADER_BYTES 80u		/* of a file, with the date in it */
#define KINDS 5u

RP_PROVIDER(rows, "Test-Rows");
RP_EVENT(rows, words, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(rows, other, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d));
RP_EVENT(rows, small, 3, RP_LEVEL_INFORMATIONAL, 0, RP_U32(a));
RP_EVENT(rows, text, 4, RP_LEVEL_INFORMATIONAL, 0, RP_STRING(a));
RP_EVENT(rows, large, 5, RP_LEVEL_INFORMATIONAL, 0, RP_U64(a), RP_U64(b), RP_U64(c), RP_U64(d),
	 RP_U64(e), RP_U64(f));

static const uint32_t sizes[KINDS] = { 32, 32, 4, 9, 48 };

struct output {
	uint8_t *bytes;
	size_t size;
	uint64_t delivered, clamped, damaged, last_ns;
};

static uint32_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

/* The index that the library gave to the event with this id. */
static uint32_t index_of(uint32_t id)
{
	/* The tables contain only events that some code writes. */
	rows_words(0, 0, 0, 0), rows_other(0, 0, 0, 0), rows_small(0), rows_text("");
	rows_large(0, 0, 0, 0, 0, 0);
	for (uint32_t i = RP_DEF_OWN_COUNT; i < 1000; i++) {
		const struct rp_event_def *def = rp_event_def_by_index(i);

		if (def && strcmp(def->provider, "Test-Rows") == 0 && def->id == id)
			return i;
	}
	cr_assert_fail("no event %u", id);
	return UINT32_MAX;
}

static struct rp_record *put_record(struct rp_ring *ring, uint32_t event, uint64_t ticks,
				    uint32_t payload_bytes, uint32_t prefix_bytes)
{
	struct rp_record *record = (void *)(ring->data + (ring->head & (ring->size - 1)));

	*record = (struct rp_record){
		.length = RP_RECORD_HEADER + prefix_bytes + payload_bytes, .event = event,
		.ticks = ticks, .thread = 7,
	};
	memset(record->body, 0, prefix_bytes + payload_bytes);
	ring->head += rp_record_step(record->length);
	return record;
}

/* Repeat runs of all lengths, and everything that may end one. */
static struct rp_ring *fill(uint64_t seed)
{
	struct rp_ring *ring;
	uint32_t indexes[KINDS], kind = 0, thread = 7;
	uint64_t ticks = rp_clock_ticks_ordered();

	for (uint32_t i = 0; i < KINDS; i++)
		indexes[i] = index_of(i + 1);
	cr_assert_eq(rp_ring_create(RING_BYTES, 0, &ring), 0);
	/* One record crosses the end of the ring. */
	ring->head = ring->tail = RING_BYTES / 2 + 8 * (next(&seed) % 8);
	while (ring->head - ring->tail + 256 < RING_BYTES) {
		uint32_t chance = next(&seed) % 200, late = chance == 3 ? 5000 : 0;
		uint32_t prefix = chance == 1 ? 16 : chance == 2 ? 24 : 0;
		uint32_t less = chance == 4 ? next(&seed) % 3 : 0;
		struct rp_record *record;

		if (chance >= 190)
			kind = next(&seed) % KINDS;
		if (chance == 5)
			thread = next(&seed) % 3;
		ticks += next(&seed) % (chance == 6 ? 1u << 30 : 300);
		record = put_record(ring, indexes[kind], ticks - late, sizes[kind] - less, prefix);
		record->thread = thread;
		record->processor = chance == 7;
		record->flags = chance == 1 ? RP_RECORD_ACTIVITY : 0;
		record->frames = chance == 2 ? 3 : 0;
		for (uint32_t i = 0; i + 1 < prefix + sizes[kind] - less; i++)
			record->body[i] = (uint8_t)(1 + next(&seed) % 90);
	}
	return ring;
}

static int one_by_one(struct rp_sink *sink, struct rp_event_batch *batch)
{
	return rp_event_batch_deliver(batch, sink, sink->ops->event, NULL, NULL);
}

/* Delivers the ring to a file, `piece` bytes at a time. */
static struct output give(const struct rp_ring *ring, uint64_t piece,
			  int (*give_batch)(struct rp_sink *sink, struct rp_event_batch *batch))
{
	static struct rp_clock_map map;
	const struct rp_sink_content content = { .start_ns = 1000 };
	struct rp_event_batch batch = {
		.ring = ring, .position = ring->tail, .limit = ring->head, .map = &map,
		.until_ticks = UINT64_MAX,
	};
	int fd = memfd_create("rows", MFD_CLOEXEC);
	struct output output = { 0 };
	struct rp_sink *sink;

	/* One map for all, so that the same ticks are the same times. */
	if (!map.count)
		rp_clock_map_init(&map);
	cr_assert_geq(fd, 0);
	cr_assert_eq(rp_sink_file_create(fd, false, &content, &sink), 0);
	sink->keep_fd = true;
	while (batch.position < batch.limit) {
		batch.pause = batch.position + piece < batch.limit ?
			      batch.position + piece : batch.limit;
		cr_assert_eq((give_batch ? give_batch : sink->ops->batch)(sink, &batch), 0);
		cr_assert_geq(batch.position, batch.pause);
	}
	cr_assert_eq(sink->ops->flush(sink), 0);
	output.size = sink->bytes;
	output.delivered = sink->delivered;
	output.clamped = batch.clamped;
	output.damaged = batch.damaged;
	output.last_ns = batch.last_ns;
	output.bytes = malloc(output.size);
	cr_assert_eq(pread(fd, output.bytes, output.size, 0), (ssize_t)output.size);
	sink->ops->destroy(sink);
	close(fd);
	return output;
}

static void expect_same(const struct rp_ring *ring, uint64_t piece, uint64_t *ret_delivered)
{
	struct output rows = give(ring, piece, NULL), single = give(ring, piece, one_by_one);

	cr_expect_eq(rows.delivered, single.delivered);
	cr_expect_eq(rows.clamped, single.clamped);
	cr_expect_eq(rows.damaged, single.damaged);
	cr_expect_eq(rows.last_ns, single.last_ns);
	cr_assert_eq(rows.size, single.size);
	cr_expect_eq(memcmp(rows.bytes + HEADER_BYTES, single.bytes + HEADER_BYTES,
			    rows.size - HEADER_BYTES), 0);
	*ret_delivered = rows.delivered;
	free(rows.bytes);
	free(single.bytes);
}

Test(rows, short_way_writes_the_file_of_the_long_one)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct rp_ring *ring = fill(seed);
		uint64_t delivered;

		expect_same(ring, 64u << 10, &delivered);
		expect_same(ring, 1, &delivered);
		cr_expect_gt(delivered, RING_BYTES / 100);
		rp_ring_destroy(ring);
	}
}

/* A stray write damages a record in the middle of a repeat batch. */
Test(rows, repeat_run_ends_at_a_damaged_record)
{
	struct rp_ring *ring;
	uint64_t ticks = rp_clock_ticks_ordered(), delivered;
	uint32_t index = index_of(1);
	struct output output;

	cr_assert_eq(rp_ring_create(RING_BYTES, 0, &ring), 0);
	for (int i = 0; i < 100; i++) {
		struct rp_record *record = put_record(ring, index, ticks, 32, 0);

		if (i == 50)
			record->length = 5;
	}
	expect_same(ring, 64u << 10, &delivered);
	cr_expect_eq(delivered, 50);
	/* The last record is truncated. */
	ring->head = 50 * 56 - 8;
	output = give(ring, 64u << 10, NULL);
	cr_expect_eq(output.delivered, 49);
	cr_expect_eq(output.damaged, 1);
	free(output.bytes);
	rp_ring_destroy(ring);
}

/* A record of another event, or from another thread, ends a repeat batch. */
Test(rows, repeat_run_ends_with_its_kind_and_its_writer)
{
	struct rp_ring *ring;
	uint64_t ticks = rp_clock_ticks_ordered(), delivered;
	uint32_t one = index_of(1), two = index_of(2);

	cr_assert_eq(rp_ring_create(RING_BYTES, 0, &ring), 0);
	for (uint32_t i = 0; i < 40; i++)
		put_record(ring, i == 20 ? two : one, ticks, 32, 0)->thread = i == 30 ? 8 : 7;
	expect_same(ring, 64u << 10, &delivered);
	cr_expect_eq(delivered, 40);
	rp_ring_destroy(ring);
}
