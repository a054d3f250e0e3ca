/* SPDX-License-Identifier: MIT */
/* Writers while every fallback lock is held. */
#include "core_support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/session_state.h"
#include "ring/slot.h"

RP_PROVIDER(locked, "Test-Locked");
RP_EVENT(locked, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(filling));

static uint32_t ticks;
static uint64_t late_ns;

static int write_large(void)
{
	static const uint8_t filling[8192];

	return locked_mark(filling, sizeof(filling));
}

static void write_at_tick(int signal)
{
	(void)signal;
	/* Simulates a machine that runs the thread again only after its wait should be over. */
	while (ticks == 0 && rp_clock_monotonic_ns() < late_ns)
		;
	cr_assert_eq(write_large(), -ENOBUFS);
	ticks++;
}

static struct rp_session *start(uint32_t block_ms)
{
	struct rp_session_options options = options_for("Test-Locked");
	struct rp_session *session = NULL;

	options.block_ms = block_ms;
	options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	cr_assert_geq(options.output_fd, 0);
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	return session;
}

/* Holds the locks without a holder that the drain thread knows. */
static void hold_locks(struct rp_slot *slot)
{
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		rp_or_seq_cst(&slot->fallback[i].lock, 1);
}

static void release_locks(struct rp_slot *slot)
{
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		rp_add_seq_cst(&slot->fallback[i].lock, 1);
}

TestSuite(core_locks, .timeout = 60);

/* The wait ends at its limit, however many interruptions occur. */
Test(core_locks, handlers_that_write_at_each_tick_do_not_prolong_a_wait)
{
	const char *preloaded = getenv("LD_PRELOAD");
	const struct itimerval tick = { { 0, 5000 }, { 0, 5000 } }, none = { { 0, 0 }, { 0, 0 } };
	struct rp_session *session = start(20);
	struct rp_slot *slot = &rp_slots[session->slot];
	struct rp_session_stats stats = empty_stats();

	if (preloaded && strstr(preloaded, "vgpreload"))
		cr_skip_test("in valgrind, a handler may take longer than a tick");
	hold_locks(slot);
	late_ns = rp_clock_monotonic_ns() + 100 * 1000000;
	signal(SIGALRM, write_at_tick);
	cr_assert_eq(setitimer(ITIMER_REAL, &tick, NULL), 0);
	cr_assert_eq(write_large(), -ENOBUFS);
	cr_assert_eq(setitimer(ITIMER_REAL, &none, NULL), 0);
	release_locks(slot);
	cr_expect_gt(ticks, 0u);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_expect_eq(stats.lost, ticks + 1u);
	cr_expect_eq(stats.lost_by[RP_LOSS_BLOCKED], ticks + 1u);
}
