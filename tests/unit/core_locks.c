/* SPDX-License-Identifier: MIT */
/* Writers and the drain thread while fallback locks are held. */
#include "../in_valgrind.h"
#include "../leave_rseq.h"
#include "core_support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/holders.h"
#include "core/own.h"
#include "core/session_state.h"
#include "ring/slot.h"

#define HOUR_MS 3600000u
#define LARGE_BYTES (64u << 20)	/* enough buffers for more locks */

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

static struct rp_session *start_with(size_t buffer_bytes, uint32_t flags, uint32_t block_ms)
{
	struct rp_session_options options = options_for("Test-Locked");
	struct rp_session *session = NULL;

	options.buffer_bytes = buffer_bytes;
	options.flags = flags;
	options.block_ms = block_ms;
	if (flags == RP_SESSION_OVERWRITE) {
		options.buffer_bytes = 0;	/* the default */
	} else {
		options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		cr_assert_geq(options.output_fd, 0);
	}
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	return session;
}

static struct rp_session *start(uint32_t block_ms)
{
	return start_with(RP_SESSION_BUFFER_MIN, 0, block_ms);
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
	const struct itimerval tick = { { 0, 5000 }, { 0, 5000 } }, none = { { 0, 0 }, { 0, 0 } };
	struct rp_session *session = start(20);
	struct rp_slot *slot = &rp_slots[session->slot];
	struct rp_session_stats stats = empty_stats();
	int set, result, reset;

	if (runs_in_valgrind())
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

/* Holds a lock as a write of this thread does. The mark is in the frame of the caller. */
static uint64_t hold_lock(struct rp_fallback *fallback, struct rp_holder *holder)
{
	const uint64_t held = rp_lock_held_by(rp_load_relaxed(&fallback->lock), holder);

	*holder = (struct rp_holder){
		.lock = held, .fallback = fallback, .thread = rp_thread_id(),
		.not_lock = ~held, .not_thread = ~(uint64_t)rp_thread_id(),
	};
	rp_store_seq_cst(&fallback->lock, held);
	return held;
}

static void release_lock(struct rp_fallback *fallback)
{
	rp_store_seq_cst(&fallback->lock, rp_lock_released(rp_load_relaxed(&fallback->lock)));
}

/* A writer that a signal delays may have chosen such a lock before that session ended. */
Test(core_locks, the_end_of_a_session_waits_for_locks_that_an_earlier_session_added)
{
	struct rp_session *session = start_with(LARGE_BYTES, 0, 0);
	struct rp_slot *slot = &rp_slots[session->slot];
	struct rp_fallback *added = &slot->fallback[RP_FALLBACKS];
	struct rp_session_stats stats = empty_stats();
	struct rp_holder holders[RP_FALLBACKS];
	uint64_t held;

	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		hold_lock(&slot->fallback[i], &holders[i]);
	while (rp_load_acquire(&slot->lock_count) == RP_FALLBACKS)
		cr_assert_eq(rp_sessions_flush(HOUR_MS), 0);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		release_lock(&slot->fallback[i]);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	for (uint32_t flags = 0; flags <= RP_SESSION_OVERWRITE; flags += RP_SESSION_OVERWRITE) {
		session = start_with(RP_SESSION_BUFFER_MIN, flags, 0);
		cr_assert_eq(slot, &rp_slots[session->slot], "a lock is free, so its slot is, too");
		cr_expect_eq(rp_load_relaxed(&slot->lock_count), RP_FALLBACKS);
		held = hold_lock(added, &holders[0]);
		cr_assert_eq(rp_session_stop(session, &stats), 0);
		cr_expect_eq(rp_load_relaxed(&added->left), held);
		release_lock(added);
	}
}

#if !defined(__SANITIZE_THREAD__)	/* it loses track of a thread that leaves a handler */
/* A writer that the fault of its payload interrupts, whose handler or thread then computes. */
static struct {
	uint8_t *payload;		/* unreadable at first */
	bool leaves;			/* by siglongjmp; else it returns */
	bool may_end;
	void *stack;
	sigjmp_buf way_out;
} computing;

static void compute(void)
{
	while (!rp_load_acquire(&computing.may_end))
		;
}

static void on_fault(int signal)
{
	(void)signal;
	if (computing.leaves)
		siglongjmp(computing.way_out, 1);
	compute();
	mprotect(computing.payload, 8192, PROT_READ);
}

static void *write_and_compute(void *data)
{
	int *ret_result = data;

	*ret_result = -EINTR;
	leave_rseq();		/* a section holds no lock */
	if (sigsetjmp(computing.way_out, 1) == 0)
		*ret_result = locked_mark(computing.payload, 8192);
	else
		compute();
	return NULL;
}

static void wait_for_damaged(struct rp_session *session, uint64_t count)
{
	struct rp_session_stats stats = empty_stats();

	do
		cr_assert_eq(rp_session_get_stats(session, &stats), 0);
	while (stats.lost_by[RP_LOSS_DAMAGED] != count);
	cr_expect_eq(stats.lost, count);
}

/* Return: the result of the write, after end_computing_writer(). */
static const int *run_computing_writer(struct rp_session *session, void *(*run)(void *),
				       bool leaves, pthread_t *ret_writer)
{
	static int result;

	if (runs_in_valgrind())
		cr_skip_test("valgrind reports the reads that fault");
	computing.leaves = leaves;
	computing.payload = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(computing.payload, MAP_FAILED);
	signal(SIGSEGV, on_fault);
	cr_assert_eq(pthread_create(ret_writer, NULL, run, &result), 0);
	wait_for_damaged(session, 1);
	return &result;
}

static void end_computing_writer(pthread_t writer)
{
	rp_store_release(&computing.may_end, true);
	cr_assert_eq(pthread_join(writer, NULL), 0);
	signal(SIGSEGV, SIG_DFL);
}

Test(core_locks, event_of_a_writer_that_left_and_computes_is_damaged_meanwhile)
{
	struct rp_session *session = start(0);
	struct rp_session_stats stats = empty_stats();
	pthread_t writer;

	run_computing_writer(session, write_and_compute, true, &writer);
	cr_expect_eq(write_large(), 0);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	end_computing_writer(writer);
	cr_expect_eq(stats.delivered, 1u);
	cr_expect_eq(stats.lost, 1u);
	cr_expect_eq(stats.lost_by[RP_LOSS_DAMAGED], 1u);
}

Test(core_locks, event_of_a_writer_whose_handler_computes_is_damaged_until_it_returns)
{
	struct rp_session *session = start(0);
	struct rp_session_stats stats = empty_stats();
	pthread_t writer;
	const int *result;

	result = run_computing_writer(session, write_and_compute, false, &writer);
	end_computing_writer(writer);
	cr_expect_eq(*result, 0);
	wait_for_damaged(session, 0);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_expect_eq(stats.delivered, 1u);
	cr_expect_eq(stats.lost, 0u);
}

Test(core_locks, snapshot_counts_the_event_of_a_writer_that_computes_once)
{
	struct rp_session *session = start_with(0, RP_SESSION_OVERWRITE, 0);
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct rp_session_stats stats = empty_stats();
	int output = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pthread_t writer;

	run_computing_writer(session, write_and_compute, true, &writer);
	cr_expect_eq(write_large(), 0);
	cr_assert_eq(rp_session_snapshot(session, NULL, output, &info), 0);
	cr_expect_eq(info.events, 1u);
	cr_expect_eq(info.lost, 1u);
	end_computing_writer(writer);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_expect_eq(stats.lost, 1u);
	close(output);
}

#if !defined(__SANITIZE_ADDRESS__)	/* it does not know the stack */
#define STACK_BYTES (256u << 10)

static void write_unreadable(void)
{
	(void)locked_mark(computing.payload, 8192);
}

/* Leaves a write on another stack, which the thread then unmaps. */
static void *write_on_another_stack(void *unused)
{
	ucontext_t context;

	(void)unused;
	computing.stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (computing.stack == MAP_FAILED || getcontext(&context) != 0)
		return NULL;
	context.uc_stack.ss_sp = computing.stack;
	context.uc_stack.ss_size = STACK_BYTES;
	context.uc_link = NULL;
	makecontext(&context, write_unreadable, 0);
	if (sigsetjmp(computing.way_out, 1) == 0)
		setcontext(&context);
	munmap(computing.stack, STACK_BYTES);
	compute();
	return NULL;
}

Test(core_locks, lock_of_a_writer_whose_stack_was_unmapped_serves_others)
{
	struct rp_session *session = start(0);
	struct rp_slot *slot = &rp_slots[session->slot];
	struct rp_session_stats stats = empty_stats();
	pthread_t writer;

	run_computing_writer(session, write_on_another_stack, true, &writer);
	for (unsigned int i = 0; i < RP_FALLBACKS; i++)
		cr_expect_eq(rp_load_acquire(&slot->fallback[i].lock) & 1, 0u);
	end_computing_writer(writer);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_expect_eq(stats.lost_by[RP_LOSS_DAMAGED], 1u);
}
#endif
#endif
