/* SPDX-License-Identifier: MIT */
/*
 * A thread's ring cache (struct rp_thread_ring) is valid only while its ring, session and space
 * are. Each test writes first, so that the cache is filled.
 */
#include "core_support.h"

#include <sched.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "ring/rseq.h"
#include "ring/slot.h"
#include "traps.h"

RP_PROVIDER(cached, "Test-Known");
RP_EVENT(cached, number, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(number));
RP_PROVIDER(other, "Test-Known-Other");
RP_EVENT(other, number, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(number));

/* Other interruptions may abort tries. */
#define TRIES 1000u

/* Writes until the thread's cache is filled; `count` is the number of events written. */
static bool learn(uint64_t *count)
{
	for (unsigned int i = 0; i < TRIES && rp_rseq_usable; i++) {
		cr_assert_eq(cached_number((*count)++), 0);
		if (rp_thread_ring.bit != RP_NO_BIT &&
		    rp_thread_ring.generation == *rp_slots_generation())
			return true;
	}
	cr_assert_not(rp_rseq_usable, "a thread does not get to know its ring");
	cr_skip_test("no restartable sequences here");
	return false;
}

static void expect_numbers(struct rp_listener *listener, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		expect_payload(listener, &i, sizeof(i));
}

Test(core_ring_cache, a_session_in_the_place_of_one_that_ended_gets_its_own_events)
{
	for (unsigned int i = 0; i < 20; i++) {
		struct rp_listener *listener = listen_to("Test-Known");
		uint64_t count = 0;

		if (!learn(&count))
			return;
		expect_numbers(listener, 0, count);
		expect_end(listener);
	}
}

Test(core_ring_cache, nothing_is_written_when_the_session_has_ended)
{
	struct rp_listener *listener = listen_to("Test-Known");
	uint64_t count = 0;

	if (!learn(&count))
		return;
	stop_listening(listener);
	/* Calls past the test of the enable word, like a thread that tested it just before. */
	cr_assert_eq(rp_event_write_regs(1, 0, 0, 0, &cached_number_event_, 8), 0);
	listener = listen_to("Test-Known-Other");
	cr_assert_eq(rp_event_write_regs(1, 0, 0, 0, &cached_number_event_, 8), 0);
	expect_end(listener);
}

Test(core_ring_cache, a_session_with_stacks_in_the_place_of_one_without_has_them)
{
	struct rp_listener *listener = listen_to("Test-Known");
	struct rp_listener_event event;
	uint64_t count = 0;

	if (!learn(&count))
		return;
	stop_listening(listener);
	listener = push_to(NULL, NULL, "Test-Known", RP_SESSION_STACKS);
	cr_assert_eq(cached_number(1), 0);
	expect_event(listener, &event);
	cr_expect_gt(event.frame_count, 0u);
	expect_end(listener);
}

Test(core_ring_cache, alternating_events_of_two_sessions_reach_each_its_own)
{
	struct rp_listener *first = listen_to("Test-Known");
	struct rp_listener *second = listen_to("Test-Known-Other");
	uint64_t count = 0, before;

	if (!learn(&count))
		return;
	before = count;
	for (uint64_t i = 0; i < 100; i++) {
		cr_assert_eq(cached_number(count++), 0);
		cr_assert_eq(other_number(i), 0);
		cr_assert_eq(other_number(i), 0);
	}
	expect_numbers(first, 0, before + 100);
	for (uint64_t i = 0; i < 100; i++) {
		expect_payload(second, &i, sizeof(i));
		expect_payload(second, &i, sizeof(i));
	}
	expect_end(first);
	expect_end(second);
}

Test(core_ring_cache, an_event_that_a_second_session_wants_reaches_both)
{
	struct rp_listener *first = listen_to("Test-Known"), *second;
	uint64_t count = 0, before, after;

	if (!learn(&count))
		return;
	before = count;
	second = listen_to("Test-Known");
	cr_assert_eq(cached_number(count++), 0);
	cr_assert_eq(cached_number(count++), 0);
	after = count;
	expect_numbers(second, before, after);
	expect_end(second);
	cr_assert_eq(cached_number(count++), 0);
	expect_numbers(first, 0, after + 1);
	expect_end(first);
}

Test(core_ring_cache, ids_are_with_the_events_that_follow_them)
{
	static const struct rp_activity none, ids = { .id.bytes = { 1, 2, 3 } };
	struct rp_listener *listener = listen_to("Test-Known");
	struct rp_listener_event event;
	uint64_t count = 0;

	if (!learn(&count))
		return;
	expect_numbers(listener, 0, count);
	for (unsigned int i = 0; i < 4; i++) {
		rp_activity_set(i % 2 ? &none : &ids);
		cr_expect(i % 2 || rp_thread_ring.bit == RP_NO_BIT);
		for (unsigned int j = 0; j < 3; j++) {
			cr_assert_eq(cached_number(j), 0);
			expect_event(listener, &event);
			cr_expect_eq(memcmp(&event.activity, i % 2 ? &none.id : &ids.id,
					    sizeof(ids.id)), 0, "set %u, event %u", i, j);
		}
	}
	expect_end(listener);
}

/*
 * Rings by processor, as without concurrency ids in the kernel, so that the thread can choose one.
 */
Test(core_ring_cache, a_thread_that_moves_writes_to_the_ring_it_moved_to)
{
	struct rp_listener *listener;
	struct rp_ring **rings;
	cpu_set_t all, one;
	uint64_t count = 0;

	if (!rp_rseq_usable || sched_getaffinity(0, sizeof(all), &all) != 0 ||
	    CPU_COUNT(&all) < 2) {
		cr_skip_test("no restartable sequences here, or one processor alone");
		return;
	}
	rp_rseq_index_offset = offsetof(struct rp_rseq_area, cpu_id);
	listener = listen_to("Test-Known");
	if (!learn(&count))
		return;
	rings = rp_slots[__builtin_ctzll(rp_thread_ring.bit)].rings;
	for (unsigned int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
		/*
		 * Few enough not to fill a buffer, whose end would force a lookup; and without a
		 * pause, in which the drain thread might force one.
		 */
		for (unsigned int j = 0; j < 64 && (!rp_load_acquire(&rings[i]) ||
						    rp_thread_ring.ring != rings[i]); j++)
			cr_assert_eq(cached_number(count++), 0);
		cr_assert_not_null(rp_load_acquire(&rings[i]), "processor %u", i);
		cr_expect_eq(rp_thread_ring.ring, rings[i], "processor %u", i);
		cr_expect_gt(rp_load_relaxed(&rings[i]->head), 0u);
	}
	stop_listening(listener);
}

/* Runs in the child. Return: 0, or the number of the check that failed. */
static int write_as_a_child(uint64_t generation)
{
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_session_options options = options_for("Test-Known");
	struct rp_listener *listener;

	if (*rp_slots_generation() != 0)
		return 1;
	/* The call bypasses the enable word; no session gets the event. */
	if (rp_event_write_regs(1, 0, 0, 0, &cached_number_event_, 8) != 0)
		return 2;
	if (rp_listener_start(&options, NULL, NULL, &listener) != 0)
		return 3;
	if (*rp_slots_generation() <= generation)
		return 4;
	if (cached_number(7) != 0 || rp_listener_next(listener, &event, PATIENCE_MS) != 1)
		return 5;
	return event.thread == (uint32_t)getpid() && *(const uint64_t *)event.payload == 7 ? 0 : 6;
}

Test(core_ring_cache, a_forked_child_knows_nothing_of_its_parents)
{
	struct rp_listener *listener = listen_to("Test-Known");
	uint64_t count = 0;
	int status;
	pid_t child;

	if (!learn(&count))
		return;
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0)
		_exit(write_as_a_child(rp_thread_ring.generation));
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	expect_numbers(listener, 0, count);
	expect_end(listener);
}

static const struct rp_activity handlers_ids = { .id.bytes = { 9, 8, 7 } };
static uint64_t written;	/* also the number of the next */

static bool follows[2048];	/* indexed by number: a handler had set ids before it was written */

static void set_ids(void)
{
	rp_activity_set(&handlers_ids);
	follows[written] = true;
}

static void write_cached(void)
{
	cr_assert_eq(cached_number(written++), 0);
}

static void write_other(void)
{
	cr_assert_eq(other_number(written++), 0);
}

/*
 * For each instruction of both functions that write from registers: calls `before`, then writes an
 * event that `then` interrupts there, then one more event.
 */
static bool at_each_instruction(void (*before)(void), void (*interrupted)(void), void (*then)(void),
				void (*after)(void))
{
	static const char *const functions[] = {
		"rp_event_write_regs", "rp_event_write_miss", NULL,
	};
	struct trap_places places;
	unsigned int hits = 0;
	int ret = rp_rseq_usable ? traps_find(functions, &places) : -ENOENT;

	if (ret != 0) {
		cr_skip_test("%s", rp_rseq_usable ? traps_explain(ret) :
						    "no restartable sequences here");
		return false;
	}
	for (size_t i = 0; i < places.count; i++) {
		rp_thread_ring.bit = RP_NO_BIT;
		before();
		traps_plant(&places.list[i], 1, then);
		interrupted();
		hits += traps_take_out();
		after();
	}
	cr_expect_geq(hits, 60u);
	traps_free(&places);
	return true;
}

static void begin_without_ids(void)
{
	static const struct rp_activity none;

	rp_activity_set(&none);
}

Test(core_ring_cache, ids_that_a_handler_sets_are_with_the_events_that_follow)
{
	struct rp_listener *listener = listen_to("Test-Known");
	struct rp_listener_event event;
	unsigned int with_ids = 0;

	if (!at_each_instruction(begin_without_ids, write_cached, set_ids, write_cached))
		return;
	for (uint64_t i = 0; i < written; i++) {
		expect_event(listener, &event);
		if (!follows[i])
			continue;
		with_ids++;
		cr_expect_eq(memcmp(&event.activity, &handlers_ids.id, sizeof(event.activity)), 0);
	}
	cr_expect_geq(with_ids, 60u);
	expect_end(listener);
}

/* The cache holds the first session's ring; the trap interrupts the lookup of the second's. */
Test(core_ring_cache, an_interrupted_miss_leaves_no_half_filled_cache)
{
	struct rp_listener *first = listen_to("Test-Known");
	struct rp_listener *second = listen_to("Test-Known-Other");
	uint64_t half;

	if (!at_each_instruction(write_cached, write_other, NULL, write_cached))
		return;
	half = written;
	if (!at_each_instruction(write_cached, write_other, NULL, write_other))
		return;
	for (uint64_t i = 0; i < written; i++) {
		bool is_second = i < half ? i % 3 == 1 : i % 3 != 0;

		expect_payload(is_second ? second : first, &i, sizeof(i));
	}
	expect_end(first);
	expect_end(second);
}
