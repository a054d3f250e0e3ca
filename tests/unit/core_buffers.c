/* SPDX-License-Identifier: MIT */
/* Buffers of a session's pool, when the writers of one processor move from a buffer to the next. */
#include "../in_valgrind.h"
#include "core_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/thread.h"
#include "core/core.h"
#include "core/session_state.h"
#include "ring/rseq.h"
#include "ring/slot.h"

RP_PROVIDER(buffers, "Test-Buffers");
RP_EVENT(buffers, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_U64(a), RP_U64(b));
RP_EVENT(buffers, large, 2, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(filling));

#define MARK_BYTES 48u		/* of a ring */

static uint32_t turn;
static uint64_t serial;

/* The slot of the only session. */
static struct rp_slot *the_slot(void)
{
	struct rp_slot *slot = rp_slots;

	while (!slot->rings)
		slot++;
	return slot;
}

/* Whether the next event of this processor goes into a buffer that has none yet. */
static bool is_full(void)
{
	const struct rp_slot *slot = the_slot();
	const struct rp_ring *ring;

	if (rp_rseq_usable)
		ring = slot->rings[*(uint32_t *)((char *)rp_rseq_area() + rp_rseq_index_offset)];
	else
		ring = rp_load_relaxed(
			&slot->fallback[rp_thread_id() % RP_FALLBACK_STARTS].ring);
	return ring && rp_load_relaxed(&ring->head) - rp_load_relaxed(&ring->tail) + MARK_BYTES >
		       ring->size;
}

static void *write_multi(void *data)
{
	const uint32_t *me = data;

	for (uint32_t at = *me; at < 20; at += 2) {
		while (rp_load_acquire(&turn) != at)
			sched_yield();
		/*
		 * One thread fills a buffer, the other writes the first event into the next buffer.
		 */
		do
			cr_assert_eq(buffers_mark(serial++, 0, 0), 0);
		while (at % 2 == 0 && !is_full());
		rp_store_release(&turn, at + 1);
	}
	return NULL;
}

/* With coarse times, which run ahead of the clock while a thread writes many events. */
Test(core_buffers, threads_of_one_processor_keep_their_order_from_buffer_to_buffer)
{
	struct rp_session_options options = options_for("Test-Buffers");
	static uint32_t numbers[2] = { 0, 1 };
	struct rp_listener *listener;
	struct rp_listener_event event;
	cpu_set_t one, before;
	pthread_t threads[2];
	uint64_t got;

	options.flags |= RP_SESSION_COARSE;
	options.buffer_bytes = 8 << 20;
	cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++) {
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &one);
	}
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), 0);
	free_options(&options);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, write_multi, &numbers[i]), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_assert_eq(sched_setaffinity(0, sizeof(before), &before), 0);
	for (uint64_t expected = 0; expected < serial;) {
		expect_event(listener, &event);
		if (strcmp(event.name, "mark") != 0)
			continue;	/* CoarseTime */
		memcpy(&got, event.payload, sizeof(got));
		cr_assert_eq(got, expected, "%lu, not %lu", (unsigned long)got,
			     (unsigned long)expected);
		expected++;
	}
	expect_end(listener);
}

/* Simulates a thread that claimed a buffer while its session ended. */
static void leave_rings(struct rp_ring *ring)
{
	for (unsigned int slot = 0; slot < RP_SLOTS; slot++) {
		for (unsigned int i = 0; i < RP_FALLBACKS; i++)
			rp_slots[slot].fallback[i].ring = ring;
	}
}

Test(core_buffers, session_begins_without_rings_of_the_one_before_it)
{
	static const uint32_t flags[] = { 0, RP_SESSION_OVERWRITE };
	static struct rp_ring left;

	for (unsigned int kind = 0; kind < 2; kind++) {
		struct rp_session_options options = options_for("Test-Buffers");
		struct rp_session *session;

		options.flags |= flags[kind];
		options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
		options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		cr_assert_geq(options.output_fd, 0);
		leave_rings(&left);
		cr_assert_eq(rp_session_start(&options, &session), 0);
		free_options(&options);
		for (unsigned int i = 0; i < RP_FALLBACKS; i++)
			cr_expect_neq(rp_slots[session->slot].fallback[i].ring, &left);
		leave_rings(NULL);
		cr_assert_eq(rp_session_stop(session, NULL), 0);
	}
}

#define LARGE_BYTES 60000u

static uint8_t filling[LARGE_BYTES];

static struct rp_session *start_small(void)
{
	struct rp_session_options options = options_for("Test-Buffers");
	struct rp_session *session;

	options.buffer_bytes = 1 << 20;
	options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	cr_assert_geq(options.output_fd, 0);
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	return session;
}

/* More than the session holds, each read before the next. */
static void events_are_stored(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		cr_assert_eq(buffers_large(filling, LARGE_BYTES), 0, "event %u is lost", i);
		cr_assert_eq(rp_sessions_flush(PATIENCE_MS), 0);
		cr_assert_eq(buffers_mark(i, 0, 0), 0);
	}
}

static void hold_locks(struct rp_slot *slot)
{
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		struct rp_fallback *fallback = &slot->fallback[i];

		if (rp_load_relaxed(&fallback->ring) && !(rp_load_relaxed(&fallback->lock) & 1))
			rp_add_seq_cst(&fallback->lock, 1);
	}
}

static void release_locks(struct rp_slot *slot)
{
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		uint64_t lock = rp_load_relaxed(&slot->fallback[i].lock);

		if (lock & 1)
			rp_exchange_seq_cst(&slot->fallback[i].lock, rp_lock_released(lock));
	}
}

Test(core_buffers, buffers_of_locks_that_were_read_serve_other_events)
{
	struct rp_session *session = start_small();
	struct rp_slot *slot = the_slot();

	/* Each lock has a buffer, and no buffer is free. */
	for (unsigned int i = 0; buffers_large(filling, LARGE_BYTES) == 0; i++) {
		cr_assert_lt(i, RP_FALLBACKS);
		hold_locks(slot);
	}
	/* A lock that is held keeps its buffer. */
	cr_assert_eq(rp_sessions_flush(PATIENCE_MS), 0);
	cr_assert_neq(buffers_large(filling, LARGE_BYTES), 0);
	release_locks(slot);
	cr_assert_eq(rp_sessions_flush(PATIENCE_MS), 0);
	events_are_stored(50);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

/*
 * Writes until an event is lost, each event under another lock if `holds`. The buffers of a session
 * of 1 MB have at least 60,000 bytes. Return: the number of events that were stored.
 */
static unsigned int write_until_loss(struct rp_slot *slot, size_t bytes, bool holds)
{
	unsigned int stored = 0;

	while (buffers_large(filling, bytes) == 0) {
		stored++;
		if (holds)
			hold_locks(slot);
	}
	return stored;
}

/* The drain thread begins no pass, so no buffer becomes free. */
Test(core_buffers, locks_that_were_held_have_space_that_is_used_later_also_by_smaller_events)
{
	struct rp_session *session = start_small();
	struct rp_slot *slot = the_slot();
	unsigned int locks;

	cr_assert_eq(rp_sessions_flush(PATIENCE_MS), 0);
	pthread_mutex_lock(&rp_core.lock);
	locks = write_until_loss(slot, 20000, true);
	release_locks(slot);
	cr_expect_gt(locks, 1u);
	cr_expect_geq(write_until_loss(slot, 20000, false), locks);
	cr_expect_geq(write_until_loss(slot, 4200, false), locks);
	pthread_mutex_unlock(&rp_core.lock);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

static sigjmp_buf way_out;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(way_out, 1);
}

Test(core_buffers, buffers_of_writers_that_left_serve_other_events)
{
	struct sigaction action = { .sa_handler = on_fault }, usual;
	struct rp_session *session;
	uint8_t *unreadable;

	if (runs_in_valgrind())
		cr_skip_test("valgrind reports the reads that fault");
	session = start_small();
	unreadable = mmap(NULL, LARGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(unreadable, MAP_FAILED);
	cr_assert_eq(sigaction(SIGSEGV, &action, &usual), 0);
	for (volatile unsigned int left = 0; left < 100; left++) {
		if (sigsetjmp(way_out, 1) == 0)
			(void)buffers_large(unreadable, LARGE_BYTES);
	}
	cr_assert_eq(sigaction(SIGSEGV, &usual, NULL), 0);
	cr_assert_eq(rp_sessions_flush(PATIENCE_MS), 0);
	events_are_stored(50);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	munmap(unreadable, LARGE_BYTES);
}

static unsigned int owner_of(const struct rp_slot *slot, int buffer)
{
	return rp_load_acquire(&slot->owners[buffer]) & RP_OWNER_MASK;
}

/* As a thread on that concurrency id leaves it that claimed one, wrote a little and went. */
static int make_ring(struct rp_slot *slot, uint64_t cid)
{
	struct rp_write write = { .slot = slot };
	uint64_t token;
	int buffer = rp_pool_claim(&write, RP_OWNER_TAKEN, &token);

	cr_assert_geq(buffer, 0);
	rp_store_release(&slot->rings[cid], slot->pool[buffer]);
	return buffer;
}

Test(core_buffers, buffer_of_an_idle_processor_serves_others_when_none_is_free)
{
	struct rp_session *session;
	struct rp_write write;
	struct rp_slot *slot;
	uint64_t token;
	int buffer;

	if (!rp_rseq_usable || rp_slot_ring_count() == 0)
		cr_skip_test("no concurrency ids");
	session = start_small();
	slot = the_slot();
	write.slot = slot;
	buffer = make_ring(slot, slot->ring_count - 1);
	/* All others are claimed under a lock that stays held. */
	rp_add_seq_cst(&slot->fallback[RP_FALLBACKS - 1].lock, 1);
	do
		write.claimed = 0;
	while (rp_pool_claim(&write, (enum rp_owner)(RP_OWNER_FALLBACK + RP_FALLBACKS - 1),
			     &token) >= 0);
	/* A writer that finds none wakes the drain thread. */
	cr_assert(write.claimed);
	wait_until(owner_of(slot, buffer) == RP_OWNER_FREE);
	cr_assert_null(slot->rings[slot->ring_count - 1]);
	cr_assert_eq(rp_pool_claim(&write, RP_OWNER_TAKEN, &token), buffer);
	release_locks(slot);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}
