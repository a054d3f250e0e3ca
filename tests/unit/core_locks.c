/* SPDX-License-Identifier: MIT */
/* Writers and the drain thread while fallback locks are held. */
#include "core_support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "core/holders.h"
#include "core/own.h"
#include "core/session_state.h"
#include "ring/slot.h"

#define HOUR_MS 3600000u

RP_PROVIDER(locked, "Test-Locked");
RP_EVENT(locked, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(filling));

static uint32_t ticks, refused;
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
	refused += write_large() == -ENOBUFS;	/* Criterion may not be called here */
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

/* Set while a test waits for holders. */
static struct rp_slot *waiting;

/* The drain thread waits by this function. A writer takes the second lock meanwhile. */
int nanosleep(const struct timespec *time, struct timespec *ret_rest)
{
	if (waiting)
		rp_or_seq_cst(&waiting->fallback[1].lock, 1);
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, time, ret_rest);
	return errno ? -1 : 0;
}

TestSuite(core_locks, .timeout = 60);

Test(core_locks, a_lock_taken_during_the_wait_for_another_is_not_late)
{
	struct rp_session *session = calloc(1, sizeof(*session));

	cr_assert_not_null(session);
	session->slot = RP_SLOTS - 1;	/* of no session */
	session->fallback_count = 2;
	waiting = &rp_slots[RP_SLOTS - 1];
	waiting->fallback[0].lock = 1;
	rp_session_wait_for_holders(session, false);
	cr_expect_eq(waiting->fallback[0].late, 1u);
	cr_expect_eq(waiting->fallback[1].lock, 1u);
	cr_expect_eq(waiting->fallback[1].late, 0u);
	free(session);
}

/* The wait ends at its limit, however many interruptions occur. */
Test(core_locks, handlers_that_write_at_each_tick_do_not_prolong_a_wait)
{
	const char *preloaded = getenv("LD_PRELOAD");
	const struct itimerval tick = { { 0, 5000 }, { 0, 5000 } }, none = { { 0, 0 }, { 0, 0 } };
	struct rp_session *session = start(20);
	struct rp_slot *slot = &rp_slots[session->slot];
	struct rp_session_stats stats = empty_stats();
	int set, result, reset;

	if (preloaded && strstr(preloaded, "vgpreload"))
		cr_skip_test("in valgrind, a handler may take longer than a tick");
	hold_locks(slot);
	late_ns = rp_clock_monotonic_ns() + 100 * 1000000;
	signal(SIGALRM, write_at_tick);
	set = setitimer(ITIMER_REAL, &tick, NULL);
	result = write_large();
	reset = setitimer(ITIMER_REAL, &none, NULL);
	release_locks(slot);
	cr_assert(set == 0 && reset == 0);
	cr_expect_eq(result, -ENOBUFS);
	cr_expect_gt(ticks, 0u);
	cr_expect_eq(refused, ticks);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_expect_eq(stats.lost, ticks + 1u);
	cr_expect_eq(stats.lost_by[RP_LOSS_BLOCKED], ticks + 1u);
}

/* Stores the result of the write, or -errno if the write changed errno. */
static void *write_once(void *data)
{
	int *ret_result = data, result;

	errno = EXDEV;
	result = write_large();
	*ret_result = errno == EXDEV ? result : -errno;
	return NULL;
}

/* A lock that is released wakes no writer, and the wait would take an hour. */
Test(core_locks, writer_that_waits_for_a_lock_gets_one_that_is_released)
{
	struct rp_session *session = start(HOUR_MS);
	struct rp_slot *slot = &rp_slots[session->slot];
	struct rp_session_stats stats = empty_stats();
	pthread_t writer;
	uint32_t before;
	int result = 1;

	hold_locks(slot);
	before = rp_load_relaxed(&slot->space);
	cr_assert_eq(pthread_create(&writer, NULL, write_once, &result), 0);
	wait_until(rp_load_relaxed(&slot->space) != before);
	release_locks(slot);
	cr_assert_eq(pthread_join(writer, NULL), 0);
	cr_expect_eq(result, 0);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_expect_eq(stats.lost, 0u);
}

Test(core_locks, event_for_another_thread_is_not_waited_for_and_its_loss_is_counted)
{
	static const uint8_t payload[8192];
	const struct rp_part part = { payload, sizeof(payload) };
	const struct rp_origin origin = { .thread = 1 };
	struct rp_session *session = start(HOUR_MS);
	struct rp_slot *slot = &rp_slots[session->slot];
	struct rp_session_stats stats = empty_stats();

	hold_locks(slot);
	cr_expect_eq(rp_event_write_for(&locked_mark_event_, &part, 1, &origin), -ENOBUFS);
	release_locks(slot);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_expect_eq(stats.lost_by[RP_LOSS_BLOCKED], 1u);
}
