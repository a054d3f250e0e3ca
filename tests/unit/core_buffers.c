/* SPDX-License-Identifier: MIT */
/* Buffers of a session's pool, when the writers of one processor move from a buffer to the next. */
#include "core_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include "base/atomic.h"
#include "base/thread.h"
#include "core/session_state.h"
#include "ring/rseq.h"
#include "ring/slot.h"

RP_PROVIDER(buffers, "Test-Buffers");
RP_EVENT(buffers, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_U64(serial), RP_U64(a), RP_U64(b));

#define MARK_BYTES 48u		/* of a ring */

static uint32_t turn;
static uint64_t serial;

/* Whether the next event of this processor needs a new buffer. */
static bool is_full(void)
{
	const struct rp_slot *slot = rp_slots;
	const struct rp_ring *ring;

	while (!slot->rings)
		slot++;
	if (rp_rseq_usable)
		ring = slot->rings[*(uint32_t *)((char *)rp_rseq_area() + rp_rseq_index_offset)];
	else
		ring = slot->fallback[rp_thread_id() % RP_FALLBACK_STARTS].ring;
	return ring && ring->head - ring->tail + MARK_BYTES > ring->size;
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
