/* SPDX-License-Identifier: MIT */
/* Activity ids: per thread, carried in events, and never mixed between two settings. */
#include "../in_valgrind.h"
#include "core_support.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/activity_slots.h"
#include "ring/slot.h"

RP_PROVIDER(activities, "Test-Activity");
RP_EVENT(activities, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U32(number));

static const struct rp_activity none;

static bool same(const struct rp_guid *a, const struct rp_guid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static struct rp_activity filled(uint8_t id, uint8_t related)
{
	struct rp_activity activity;

	memset(&activity.id, id, sizeof(activity.id));
	memset(&activity.related, related, sizeof(activity.related));
	return activity;
}

Test(core_activity, thread_begins_with_none)
{
	struct rp_activity now = filled(1, 1);

	rp_activity_get(&now);
	cr_assert_eq(memcmp(&now, &none, sizeof(now)), 0);
}

Test(core_activity, begin_nests_and_end_goes_back)
{
	struct rp_activity outer, inner, now, first, second;

	rp_activity_begin(&outer);
	rp_activity_get(&first);
	cr_assert(same(&first.related, &none.id));
	cr_assert_not(same(&first.id, &none.id));
	rp_activity_begin(&inner);
	rp_activity_get(&second);
	cr_assert(same(&second.related, &first.id));
	cr_assert_not(same(&second.id, &first.id));
	rp_activity_end(&inner);
	rp_activity_get(&now);
	cr_assert_eq(memcmp(&now, &first, sizeof(now)), 0);
	rp_activity_end(&outer);
	rp_activity_get(&now);
	cr_assert_eq(memcmp(&now, &none, sizeof(now)), 0);
}

Test(core_activity, events_carry_the_ids_that_are_not_zero)
{
	static const uint8_t pairs[][2] = { { 0, 0 }, { 1, 0 }, { 0, 2 }, { 3, 4 }, { 0, 0 } };
	struct rp_listener *listener = listen_to("Test-Activity");

	for (uint32_t i = 0; i < 5; i++) {
		struct rp_activity activity = filled(pairs[i][0], pairs[i][1]);
		struct rp_listener_event event;

		rp_activity_set(&activity);
		cr_assert_eq(activities_mark(i), 0);
		expect_event(listener, &event);
		cr_assert(same(&event.activity, &activity.id), "pair %u", i);
		cr_assert(same(&event.related_activity, &activity.related), "pair %u", i);
		cr_assert_eq(event.payload_bytes, 4u);
		cr_assert_eq(*(const uint32_t *)event.payload, i);
	}
	expect_end(listener);
}

static void *write_in_thread(void *data)
{
	(void)data;
	cr_assert_eq(activities_mark(7), 0);
	return NULL;
}

Test(core_activity, other_threads_do_not_inherit_the_ids)
{
	struct rp_listener *listener = listen_to("Test-Activity");
	struct rp_activity activity = filled(9, 9);
	struct rp_listener_event event;
	pthread_t thread;

	rp_activity_set(&activity);
	cr_assert_eq(pthread_create(&thread, NULL, write_in_thread, NULL), 0);
	pthread_join(thread, NULL);
	expect_event(listener, &event);
	cr_assert(same(&event.activity, &none.id));
	cr_assert(same(&event.related_activity, &none.id));
	expect_end(listener);
}

struct job {
	struct rp_activity activity;
	struct rp_activity before, after;
};

static void *work(void *data)
{
	struct job *job = data;

	rp_activity_get(&job->before);
	rp_activity_set(&job->activity);
	cr_assert_eq(activities_mark(2), 0);
	rp_activity_set(&job->before);
	cr_assert_eq(activities_mark(3), 0);
	rp_activity_get(&job->after);
	return NULL;
}

Test(core_activity, work_handed_to_another_thread_takes_its_ids_along)
{
	struct rp_listener *listener = listen_to("Test-Activity");
	struct rp_activity outer;
	struct rp_listener_event event;
	struct job job;
	pthread_t thread;

	rp_activity_begin(&outer);
	rp_activity_get(&job.activity);
	rp_activity_end(&outer);
	cr_assert_eq(pthread_create(&thread, NULL, work, &job), 0);
	pthread_join(thread, NULL);
	expect_event(listener, &event);
	cr_expect(same(&event.activity, &job.activity.id));
	expect_event(listener, &event);
	cr_expect(same(&event.activity, &none.id));
	cr_expect_eq(memcmp(&job.after, &none, sizeof(none)), 0, "and the thread is as it was");
	expect_end(listener);
}

static void *set_ids(void *data)
{
	struct rp_activity activity = filled(5, 6), now = filled(1, 1);

	rp_activity_get(&now);
	cr_assert_eq(memcmp(&now, &none, sizeof(now)), 0, "begins without ids");
	rp_activity_set(&activity);
	rp_activity_get(&now);
	cr_assert_eq(memcmp(&now, &activity, sizeof(now)), 0);
	(void)data;
	return NULL;
}

/* Valgrind needs milliseconds for a thread or a signal. It checks their memory accesses. */
static unsigned int count_for(unsigned int usual, unsigned int in_valgrind)
{
	return runs_in_valgrind() ? in_valgrind : usual;
}

#define LIVE 100u
#define BLOCKS (4 * LIVE)

/* 2,000 threads, 100 at a time: each starts without ids and keeps those that it sets. */
Test(core_activity, memory_of_threads_that_ended_is_used_again)
{
	const unsigned int rounds = count_for(20, BLOCKS / LIVE + 1);
	pthread_t threads[LIVE];

	for (unsigned int round = 0; round < rounds; round++) {
		for (unsigned int i = 0; i < LIVE; i++)
			cr_assert_eq(pthread_create(&threads[i], NULL, set_ids, NULL), 0);
		for (unsigned int i = 0; i < LIVE; i++)
			pthread_join(threads[i], NULL);
	}
	cr_assert_leq(rp_activity_block_count, BLOCKS, "%u blocks", rp_activity_block_count);
}

static void *do_nothing(void *data)
{
	struct rp_activity outer;

	rp_activity_get(&outer);
	rp_activity_set(&outer);
	return data;
}

Test(core_activity, thread_without_ids_takes_no_memory)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, do_nothing, NULL), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(rp_activity_block_count, 0u);
}

Test(core_activity, forked_child_keeps_the_ids_of_its_thread)
{
	struct rp_activity activity = filled(7, 8), now;
	int status;
	pid_t child;

	rp_activity_set(&activity);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		pthread_t thread;

		/* No thread of the child takes over the block that had the parent's number. */
		for (int i = 0; i < 8; i++) {
			pthread_create(&thread, NULL, set_ids, NULL);
			pthread_join(thread, NULL);
		}
		rp_activity_get(&now);
		_exit(memcmp(&now, &activity, sizeof(now)) == 0 ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

#define THREADS 4
#define IDS 20000

static struct rp_guid ids[THREADS][IDS];

static void *create_ids(void *data)
{
	struct rp_guid *mine = data;

	for (int i = 0; i < IDS; i++)
		rp_activity_generate(&mine[i]);
	return NULL;
}

static int compare_guids(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rp_guid));
}

Test(core_activity, created_ids_are_unique_over_threads)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, create_ids, ids[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	qsort(ids, THREADS * IDS, sizeof(ids[0][0]), compare_guids);
	for (int i = 1; i < THREADS * IDS; i++)
		cr_assert_not(same(&ids[0][0] + i - 1, &ids[0][0] + i));
	cr_assert_not(same(&ids[0][0], &none.id));
	/* RFC 4122: version 4, variant 1. */
	cr_assert_eq(ids[0][0].bytes[6] >> 4, 4);
	cr_assert_eq(ids[0][0].bytes[8] >> 6, 2);
}

static unsigned int signals;

/* All bytes of an id are equal, and the related id's bytes are those of the id plus 100. */
static void set_others(int signal)
{
	struct rp_activity activity;
	uint8_t value = (uint8_t)(++signals % 50 + 1);

	(void)signal;
	activity = filled(value, (uint8_t)(value + 100));
	rp_activity_set(&activity);
	(void)activities_mark(1);
}

static bool is_whole(const struct rp_guid *id, const struct rp_guid *related)
{
	for (int i = 1; i < 16; i++) {
		if (id->bytes[i] != id->bytes[0] || related->bytes[i] != related->bytes[0])
			return false;
	}
	return related->bytes[0] == id->bytes[0] + 100;
}

struct seen {
	uint64_t events, torn;
};

static void look(const struct rp_listener_event *event, void *data)
{
	struct seen *seen = data;

	if (strcmp(event->provider, "Test-Activity") != 0)
		return;
	seen->events++;
	seen->torn += !is_whole(&event->activity, &event->related_activity);
}

Test(core_activity, ids_set_by_a_signal_handler_are_never_torn)
{
	struct itimerval soon = { { 0, 0 }, { 0, 50 } };
	struct rp_activity activity = filled(1, 101);
	struct sigaction action = { .sa_handler = set_others, .sa_flags = SA_RESTART };
	struct rp_session_stats stats = empty_stats();
	struct seen seen = { .events = 0 };
	struct rp_listener *listener;
	const unsigned int wanted = count_for(3000, 300);
	unsigned int before = UINT_MAX, now;
	uint64_t torn_gets = 0;
	uint8_t value = 0;

	rp_activity_set(&activity);
	listener = push_to(look, &seen, "Test-Activity", 0);
	sigaction(SIGALRM, &action, NULL);
	while ((now = __atomic_load_n(&signals, __ATOMIC_RELAXED)) < wanted) {
		/* One signal at a time: a slow machine would otherwise only handle signals. */
		if (now != before)
			setitimer(ITIMER_REAL, &soon, NULL);
		before = now;
		(void)activities_mark(2);
		value = (uint8_t)(value % 50 + 1);
		activity = filled(value, (uint8_t)(value + 100));
		rp_activity_set(&activity);
		rp_activity_get(&activity);
		torn_gets += !is_whole(&activity.id, &activity.related);
	}
	cr_assert_eq(rp_listener_drain(listener), 0);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_gt(seen.events, wanted / 3);
	cr_assert_eq(seen.torn, 0u, "%lu of %lu", seen.torn, seen.events);
	cr_assert_eq(torn_gets, 0u);
	cr_assert_eq(stats.delivered, seen.events);
}

/* With a sanitizer, a call has a thousand instructions, and a million of steps. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern __thread const void *otel_thread_ctx_v1 __attribute__((tls_model("initial-exec")));

/* Before which instruction of a stepped call the handler sets ids. */
static volatile unsigned int chosen_step, next_step;
static volatile unsigned int torn_ids;

/* Events and profilers would get whole ids now, or none. */
static void check_ids(struct rp_activity *ret_now)
{
	const struct rp_thread_context *record = *(const void *volatile *)&otel_thread_ctx_v1;
	struct rp_activity *now = ret_now, seen = filled(0, 0);

	rp_activity_get(now);
	torn_ids += memcmp(now, &none, sizeof(none)) != 0 && !is_whole(&now->id, &now->related);
	if (!record || !record->is_valid)
		return;
	memcpy(&seen.id, record->trace_id, sizeof(seen.id));
	memcpy(seen.related.bytes, record->span_id, sizeof(record->span_id));
	memcpy(seen.related.bytes + 8, record->span_id, sizeof(record->span_id));
	torn_ids += !is_whole(&seen.id, &seen.related);
}

static void set_at_step(int signal)
{
	struct rp_activity activity;

	(void)signal;
	check_ids(&activity);
	if (next_step++ != chosen_step)
		return;
	activity = filled(1, 101);
	rp_activity_set(&activity);
	check_ids(&activity);
}

/* Begins or ends to execute a trap after each instruction. Leaves the caller's red zone alone. */
static void step(bool on)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "andq $~0x100, (%%rsp)\n\t"
			 "orq %0, (%%rsp)\n\t"
			 "popfq\n\t"
			 "leaq 128(%%rsp), %%rsp"
			 : : "r"(on ? 0x100ull : 0ull) : "cc", "memory");
}

/* Return: false if the call has fewer instructions. */
static bool set_with_handler_at(unsigned int instruction, const struct rp_activity *activity)
{
	chosen_step = instruction;
	next_step = 0;
	step(true);
	rp_activity_set(activity);
	step(false);
	return next_step > instruction;
}

/* All readers of the thread's ids agree. */
static bool is_consistent(const struct rp_activity *now)
{
	const struct rp_thread_context *record = otel_thread_ctx_v1;

	if (memcmp(now, &none, sizeof(none)) == 0)
		return !rp_thread_ring.has_ids && !record->is_valid;
	return rp_thread_ring.has_ids && rp_thread_ring.bit == RP_NO_BIT && record->is_valid &&
	       memcmp(record->trace_id, &now->id, sizeof(now->id)) == 0;
}

Test(core_activity, handlers_at_any_instruction_of_a_setting_see_and_leave_whole_ids)
{
	const struct rp_activity wanted[] = { filled(60, 160), none };
	struct sigaction action = { .sa_handler = set_at_step };
	struct rp_activity now;

	if (count_for(0, 1))
		cr_skip_test("valgrind executes no traps");
	rp_activity_publish();
	sigaction(SIGTRAP, &action, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		unsigned int at = 0;

		for (;; at++) {
			rp_activity_set(&wanted[!i]);
			rp_thread_ring.bit = 0;
			if (!set_with_handler_at(at, &wanted[i]))
				break;
			check_ids(&now);
			cr_assert_eq(torn_ids, 0u, "%u, instruction %u", i, at);
			cr_assert(is_consistent(&now), "%u, instruction %u", i, at);
		}
		cr_assert_gt(at, 30u);
	}
}
#endif
