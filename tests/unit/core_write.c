/* SPDX-License-Identifier: MIT */
/*
 * The write path with its section aborted by a planted trap. The kernel restarts a section before
 * it calls the handler, so a trap that stays aborts every try.
 */
#include "core_support.h"

#include <stdint.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "ring/ring.h"
#include "ring/rseq.h"
#include "ring/slot.h"
#include "traps.h"

#define ABORTS_MAX 8u		/* in one write: the contract of the write path */

RP_PROVIDER(aborted, "Test-Aborted");
RP_EVENT(aborted, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial));

static struct trap_place place;

static void plant(uint8_t *at, unsigned int most, bool aborts)
{
	place = (struct trap_place){ .at = at, .aborts = aborts };
	if (traps_allow(&place, 1) != 0)
		cr_skip_test("no program may change its code here");
	traps_plant(&place, most, NULL);
}

/* The section that writes the record also reads the clock. */
static const struct trap_section *writing_section(uint8_t **ret_clock)
{
	static const uint8_t rdtsc_shl[] = { 0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20 };

	for (const struct trap_section *section = __start___rseq_cs; section < __stop___rseq_cs;
	     section++) {
		uint8_t *found = memmem((void *)(uintptr_t)section->start, section->commit_offset,
					rdtsc_shl, sizeof(rdtsc_shl));

		if (!found)
			continue;
		*ret_clock = found;
		return section;
	}
	cr_skip_test("no section of this machine's");
	return NULL;
}

/* The last instruction, which adds rax to the word at r8. */
static uint8_t *commit_of(const struct trap_section *section)
{
	static const uint8_t by_distance[] = { 0x49, 0x01, 0x40 }, direct[] = { 0x49, 0x01, 0x00 };
	uint8_t *end = (uint8_t *)(uintptr_t)section->start + section->commit_offset;

	if (memcmp(end - 4, by_distance, 3) == 0)
		return end - 4;
	cr_assert_arr_eq(end - 3, direct, 3);
	return end - 3;
}

/* Bytes written to fallback rings. */
static uint64_t fallback_bytes(void)
{
	uint64_t bytes = 0;

	for (unsigned int slot = 0; slot < RP_SLOTS; slot++) {
		for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
			const struct rp_ring *ring =
				rp_load_relaxed(&rp_slots[slot].fallback[i].ring);

			bytes += ring ? rp_load_relaxed(&ring->head) : 0;
		}
	}
	return bytes;
}

/* Uses the section for any payload; ring_aborts.c tests the section for registers. */
static int mark(uint64_t number)
{
	const struct rp_part part = { &number, sizeof(number) };

	aborted_mark_data_();	/* this file does not call the event's own functions */
	return rp_event_write(&aborted_mark_event_, &part, 1);
}

static struct rp_listener *listener;

static void set_up(void)
{
	if (!rp_rseq_usable)
		cr_skip_test("no restartable sequences here");
	listener = listen_to("Test-Aborted");
	/* A processor's first event takes a buffer of the pool. */
	cr_assert_eq(mark(0), 0);
	expect_payload(listener, &(uint64_t){ 0 }, sizeof(uint64_t));
}

TestSuite(core_write, .init = set_up, .timeout = 120);

/*
 * Writes one event with the trap, and one without. Return: whether a fallback ring got one of them.
 */
static bool expect_written_once(void)
{
	uint64_t before = fallback_bytes();
	bool ret;

	cr_assert_eq(mark(1), 0);
	ret = fallback_bytes() != before;
	traps_take_out();
	cr_assert_eq(mark(2), 0);
	expect_payload(listener, &(uint64_t){ 1 }, sizeof(uint64_t));
	expect_payload(listener, &(uint64_t){ 2 }, sizeof(uint64_t));
	expect_end(listener);
	return ret;
}

Test(core_write, write_that_is_always_aborted_takes_the_fallback)
{
	uint8_t *clock;

	(void)writing_section(&clock);
	plant(clock, TRAP_HITS_MAX, true);
	cr_expect(expect_written_once());
	cr_expect_geq(place.hits, 1u);
	cr_expect_leq(place.hits, ABORTS_MAX, "it gave up after %llu",
		      (unsigned long long)place.hits);
}

Test(core_write, write_aborted_at_its_very_commit_is_written_once)
{
	uint8_t *clock;

	plant(commit_of(writing_section(&clock)), TRAP_HITS_MAX, true);
	cr_expect(expect_written_once());
	cr_expect_geq(place.hits, 1u);
}

Test(core_write, write_aborted_now_and_then_is_tried_again)
{
	uint8_t *clock;

	plant(commit_of(writing_section(&clock)), ABORTS_MAX / 2, true);
	(void)expect_written_once();
	cr_expect_eq(place.hits, ABORTS_MAX / 2);
}

Test(core_write, write_stopped_right_after_its_commit_is_not_written_again)
{
	const struct trap_section *section;
	uint8_t *clock;

	section = writing_section(&clock);
	plant((uint8_t *)(uintptr_t)section->start + section->commit_offset, 1, false);
	cr_expect_not(expect_written_once());
	cr_expect_eq(place.hits, 1u);
}

/*
 * The caller's ring is in a slot that no drain thread reads. The stamps that an aborted try leaves
 * are restored, so that the try that succeeds counts as the first one.
 */
static enum rp_write_result write_to(struct rp_ring *ring, bool by_fallback, uint8_t *ret_above)
{
	static struct rp_ring *rings[4096];
	static const uint64_t enable = 1;
	struct rp_slot *slot = &rp_slots[RP_SLOTS - 1];
	struct rp_write write = {
		.enable = &enable,
		.bit = 1,
		.slot = slot,
		.step = 64,
		.length_event = 64,
	};
	enum rp_write_result result = RP_WRITE_ABORTED;
	uint64_t of_thread = rp_thread_ring.stamp, of_ring = ring->stamp;

	for (size_t i = 0; i < sizeof(rings) / sizeof(*rings); i++)
		rings[i] = ring;
	slot->rings = rings;
	slot->ring_count = sizeof(rings) / sizeof(*rings);
	slot->fallback[0].ring = ring;
	while (result == RP_WRITE_ABORTED) {
		rp_thread_ring.stamp = of_thread;
		ring->stamp = of_ring;
		result = by_fallback ? rp_slot_write_fallback(&write) : rp_slot_write_rseq(&write);
	}
	*ret_above = write.above;
	return result;
}

Test(core_write, writer_says_that_its_ring_is_above_its_watermark)
{
	for (int by_fallback = 0; by_fallback < 2; by_fallback++) {
		struct rp_ring *ring;
		uint8_t above;

		cr_assert_eq(rp_ring_create(4096, 0, &ring), 0);
		ring->watermark = 64;
		cr_expect_eq(write_to(ring, by_fallback, &above), RP_WRITE_OK);
		cr_expect_eq(above, 0, "at the watermark");
		cr_expect_eq(write_to(ring, by_fallback, &above), RP_WRITE_OK);
		cr_expect_eq(above, 1, "above the watermark");
		rp_ring_destroy(ring);
	}
}

/*
 * Writes an event. `most` is the latest time before it, of thread, ring or clock. Return: its time.
 */
static uint64_t expect_later(struct rp_ring *ring, bool by_fallback, uint64_t most)
{
	const struct rp_record *record;
	uint64_t at = ring->head;
	uint8_t above;

	cr_assert_eq(write_to(ring, by_fallback, &above), RP_WRITE_OK);
	record = rp_ring_record(ring, at, ring->head);
	cr_assert_not_null(record);
	cr_expect_gt(record->ticks, most);
	cr_expect_eq(ring->stamp, record->ticks);
	cr_expect_eq(rp_thread_ring.stamp, record->ticks);
	return record->ticks;
}

/* Every machine has the fallback. */
Test(core_times, coarse_time_is_later_than_the_threads_and_the_rings_before)
{
	const uint64_t far = rp_clock_ticks_ordered() + (1ull << 60);

	rp_slots[RP_SLOTS - 1].clock = RP_SLOT_CLOCK_COARSE;
	for (int by_fallback = !rp_rseq_usable; by_fallback < 2; by_fallback++) {
		struct rp_ring *ring;
		uint64_t last;

		cr_assert_eq(rp_ring_create(4096, 0, &ring), 0);
		rp_clock_coarse = rp_thread_ring.stamp = 1;
		last = expect_later(ring, by_fallback, 1);
		last = expect_later(ring, by_fallback, last);
		/* Another thread has written to this ring. */
		ring->stamp = far;
		last = expect_later(ring, by_fallback, far);
		/* This thread has written to other rings. */
		rp_thread_ring.stamp = last + far;
		last = expect_later(ring, by_fallback, last + far);
		rp_thread_ring.stamp = 1;
		last = expect_later(ring, by_fallback, last);
		rp_ring_destroy(ring);
	}
}

Test(core_times, coarse_time_is_the_clocks_where_that_has_moved_on)
{
	const uint64_t far = rp_clock_ticks_ordered() + (1ull << 60);
	struct rp_ring *ring;

	if (!rp_rseq_usable)
		cr_skip_test("no restartable sequences here");
	rp_slots[RP_SLOTS - 1].clock = RP_SLOT_CLOCK_COARSE;
	cr_assert_eq(rp_ring_create(4096, 0, &ring), 0);
	rp_clock_coarse = far;
	cr_expect_eq(expect_later(ring, false, far - 1), far);
	rp_ring_destroy(ring);
}
