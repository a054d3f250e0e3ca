/* SPDX-License-Identifier: MIT */
/*
 * One clock reading for all sessions that want an event. The writer reuses it, except after an
 * interruption. The test makes the slots and the rings, as in ring_aborts.c. An event that was not
 * in its ring at an interruption must have a later time than the interruption; otherwise a sequence
 * point at that moment would be wrong.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "base/clock.h"
#include "core/enable.h"
#include "core/own.h"
#include "ring/regs.h"
#include "ring/ring.h"
#include "ring/rseq.h"
#include "ring/slot.h"
#include "traps.h"

#define RINGS_MAX 4096u
#define RING_BYTES (1u << 16)
#define SESSIONS 3u
#define FIRST_SLOT 2u
#define BITS (((1ull << SESSIONS) - 1) << FIRST_SLOT)
#define TRIES 100000u	/* repeated until no chance interruption */

static struct rp_event event = { .index = 7 };
static struct rp_ring *rings[SESSIONS][RINGS_MAX], *fallbacks[SESSIONS][RP_FALLBACKS];
static uint32_t ring_count;
static uint8_t *page;		/* a test may make it inaccessible */

static struct rp_slot *slot_of(unsigned int session)
{
	return &rp_slots[FIRST_SLOT + session];
}

static void reset(void)
{
	for (unsigned int s = 0; s < SESSIONS; s++) {
		for (uint32_t i = 0; i < ring_count; i++)
			rings[s][i]->head = rings[s][i]->tail = 0;
		for (unsigned int i = 0; i < RP_FALLBACKS; i++)
			fallbacks[s][i]->head = fallbacks[s][i]->tail = 0;
	}
}

static void set_up(void)
{
	ring_count = rp_slot_ring_count() < RINGS_MAX ? rp_slot_ring_count() : RINGS_MAX;
	for (unsigned int s = 0; s < SESSIONS; s++) {
		struct rp_slot *slot = slot_of(s);

		for (uint32_t i = 0; i < ring_count; i++)
			cr_assert_eq(rp_ring_create(RING_BYTES, i, &rings[s][i]), 0);
		for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
			cr_assert_eq(rp_ring_create(RING_BYTES, i, &fallbacks[s][i]), 0);
			slot->fallback[i].ring = fallbacks[s][i];
		}
		slot->lock_count = RP_FALLBACKS;
		slot->ring_count = ring_count;
		slot->rings = rings[s];
		slot->clock = RP_SLOT_CLOCK_TICKS;
	}
	event.enable = BITS;
	rp_regs_slow_mask = ~RP_SESSION_BITS;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(page, MAP_FAILED);
	reset();
}

/* Return: the only record of a session, or NULL. */
static const struct rp_record *record_of(unsigned int session)
{
	for (uint32_t i = 0; i < ring_count; i++) {
		if (rings[session][i]->head)
			return rp_ring_record(rings[session][i], 0, rings[session][i]->head);
	}
	for (unsigned int i = 0; i < RP_FALLBACKS; i++) {
		const struct rp_ring *ring = fallbacks[session][i];

		if (ring->head)
			return rp_ring_record(ring, 0, ring->head);
	}
	return NULL;
}

static uint64_t time_of(unsigned int session)
{
	const struct rp_record *record = record_of(session);

	cr_assert_not_null(record, "session %u has no event", session);
	return record->ticks;
}

static bool in_words;	/* else as a part of a payload */

static void write_event(void)
{
	const struct rp_part part = { page, 40 };

	cr_assert_eq(in_words ? rp_event_write_regs(1, 2, 3, 4, &event, 32) :
				rp_event_write(&event, &part, 1), 0);
}

/* The sessions that had the event at the interruption, and its time. */
static volatile uint64_t interrupted;
static volatile bool was_there[SESSIONS];

static void note(void)
{
	for (unsigned int s = 0; s < SESSIONS; s++)
		was_there[s] = record_of(s) != NULL;
	interrupted = rp_clock_ticks_ordered();
}

static void check_times(const char *where)
{
	cr_assert_null((void *)(uintptr_t)rp_rseq_area()->rseq_cs, "%s: it points there yet",
		       where);
	for (unsigned int s = 0; s < SESSIONS; s++) {
		uint64_t time = time_of(s);

		cr_assert(was_there[s] ? time < interrupted : time > interrupted,
			  "%s: session %u, %s there, is stamped %lld ticks behind", where, s,
			  was_there[s] ? "was" : "was not", (long long)(time - interrupted));
	}
}

static bool has_sections(void)
{
	if (!rp_rseq_usable)
		cr_skip_test("no restartable sequences here");
	return rp_rseq_usable;
}

/* Runs the check for both ways to write an event. */
static void each_way(void (*check)(void))
{
	if (!has_sections())
		return;
	set_up();
	check();
	in_words = true;
	check();
}

static void check_one_time(void)
{
	unsigned int tries = 0;

	do {
		reset();
		write_event();
	} while ((time_of(0) != time_of(1) || time_of(1) != time_of(2)) && ++tries < TRIES);
	cr_assert_lt(tries, TRIES);
	cr_assert_eq(rp_rseq_area()->rseq_cs, 0);
}

Test(core_clock, an_event_has_one_time_in_all_sessions)
{
	each_way(check_one_time);
}

/*
 * The first clock read is fenced: without the fence, the time could precede the event's cause. A
 * session whose write is interrupted gets a later time than the others.
 */
static void check_causal(void)
{
	unsigned int tries = 0;

	slot_of(1)->clock = RP_SLOT_CLOCK_CAUSAL;
	do {
		reset();
		write_event();
		cr_assert_neq(time_of(1), time_of(0));
	} while ((time_of(1) < time_of(0) || time_of(2) != time_of(1)) && ++tries < TRIES);
	cr_assert_lt(tries, TRIES);
}

Test(core_clock, a_causal_session_reads_the_clock_itself)
{
	each_way(check_causal);
}

/*
 * A write from registers leaves coarse sessions to the general path, which reads the clock. After
 * too many interruptions the fallback writes the event, and also reads the clock for coarse
 * sessions.
 */
static void check_coarse(void)
{
	unsigned int tries = 0;

	slot_of(1)->clock = RP_SLOT_CLOCK_COARSE;
	rp_clock_coarse = 1;
	do {
		reset();
		write_event();
	} while ((time_of(1) >= time_of(0) || (!in_words && time_of(2) != time_of(0))) &&
		 ++tries < TRIES);
	cr_assert_lt(tries, TRIES);
}

Test(core_clock, a_coarse_session_between_others_keeps_its_own_time)
{
	each_way(check_coarse);
}

static struct trap_places places;

static void check_interruptions(void)
{
	unsigned int between = 0;

	for (size_t i = 0; i < places.count; i++) {
		struct trap_place *place = &places.list[i];

		reset();
		traps_plant(place, 1, note);
		write_event();
		if (!traps_take_out())
			continue;
		between += was_there[0] && !was_there[1];
		check_times(place->text);
	}
	cr_assert_geq(between, 3, "%u instructions between two sessions", between);
}

Test(core_clock, what_an_interruption_does_not_find_gets_a_later_time)
{
	static const char *const functions[] = {
		"rp_slot_try_rseq_multi", "write_multi", "write_slots", "rp_event_write",
		"rp_event_write_regs", "rp_event_write_miss", "rp_event_write_multi", NULL,
	};
	int ret;

	if (!has_sections())
		return;
	ret = traps_find(functions, &places);
	if (ret != 0) {
		cr_skip_test("%s", traps_explain(ret));
		return;
	}
	each_way(check_interruptions);
	traps_free(&places);
}

static void *taken;
static size_t taken_bytes;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if ((uintptr_t)info->si_addr - (uintptr_t)taken >= taken_bytes)
		signal(number, SIG_DFL);
	mprotect(taken, taken_bytes, PROT_READ | PROT_WRITE);
	note();
}

static void fault_once(void *what, size_t bytes, const char *where)
{
	interrupted = 0;
	taken = (void *)((uintptr_t)what & ~(uintptr_t)4095);
	taken_bytes = bytes;
	reset();
	cr_assert_eq(mprotect(taken, taken_bytes, PROT_NONE), 0);
	write_event();
	cr_assert_neq(interrupted, 0, "no fault");
	check_times(where);
}

/*
 * A chance interruption may abort the first session's write as well. write_multi() retries that
 * session after all others, so the fault does not find its event.
 */
static void fault_at(void *what, size_t bytes, const char *where)
{
	unsigned int tries = 0;

	do {
		fault_once(what, bytes, where);
	} while (!was_there[0] && ++tries < TRIES);
	cr_assert_lt(tries, TRIES);
}

/* Faults in the second session's write, and in the third's. */
static void check_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
	for (unsigned int s = 1; s < SESSIONS; s++) {
		struct rp_ring **table = mmap(NULL, sizeof(rings[s]), PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		cr_assert_neq((void *)table, MAP_FAILED);
		memcpy(table, rings[s], sizeof(rings[s]));
		slot_of(s)->rings = table;
		fault_at(table, sizeof(rings[s]), "where the rings are found");
		slot_of(s)->rings = rings[s];
		munmap(table, sizeof(rings[s]));
	}
	signal(SIGSEGV, SIG_DFL);
}

Test(core_clock, what_a_fault_does_not_find_gets_a_later_time)
{
	each_way(check_faults);
}

/* Tests the kernel's guarantee on which the rest depends. */

static const struct trap_section *multi_section(void)
{
	cr_assert_neq((void *)__start___rseq_cs, (void *)__stop___rseq_cs);
	return __start___rseq_cs;
}

static void point_there(void)
{
	*(volatile uint64_t *)&rp_rseq_area()->rseq_cs = (uintptr_t)multi_section();
}

static uint64_t points(void)
{
	return *(volatile uint64_t *)&rp_rseq_area()->rseq_cs;
}

static volatile uint64_t pointed;

static void on_breakpoint(int number)
{
	(void)number;
	pointed = points();
}

Test(core_clock, kernel_reports_of_a_signal_outside_of_the_section)
{
	if (!has_sections())
		return;
	signal(SIGTRAP, on_breakpoint);
	pointed = 1;
	point_there();
	__asm__ volatile("int3");
	cr_assert_eq(pointed, 0);
	cr_assert_eq(points(), 0);
}

static bool over;

static void *run_on_it(void *data)
{
	(void)data;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		;
	return NULL;
}

/* Waits for a preemption: the other thread needs the same processor. */
Test(core_clock, kernel_reports_of_a_preemption_outside_of_the_section)
{
	pthread_t thread;
	cpu_set_t set;

	if (!has_sections())
		return;
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	cr_assert_eq(pthread_create(&thread, NULL, run_on_it, NULL), 0);
	point_there();
	while (points())
		;
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static void *fence(void *data)
{
	(void)data;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		rp_fence_heavy();
	return NULL;
}

Test(core_clock, kernel_reports_of_a_fence_outside_of_the_section)
{
	pthread_t thread;

	if (!has_sections())
		return;
	cr_assert_eq(pthread_create(&thread, NULL, fence, NULL), 0);
	point_there();
	while (points())
		;
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}
