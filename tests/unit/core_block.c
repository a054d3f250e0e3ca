/* SPDX-License-Identifier: MIT */
/*
 * Writers that wait for space: which writers wait, and which conditions end the wait. The sink is a
 * gate that refuses events until it is opened. A wait may last an hour: an unwanted wait hangs.
 */
#include "core_support.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/drain_wake.h"
#include "core/event_batch.h"
#include "core/session_setup.h"
#include "core/session_state.h"
#include "core/wait.h"

#define HOUR_MS 3600000u
#define STALLED 2u		/* src/lib/core/wait.c */
RP_PROVIDER(blocked, "Test-Blocked");
RP_EVENT(blocked, mark, 1, RP_LEVEL_INFORMATIONAL, 0x1, RP_BLOB(filling));

static struct gate {
	struct rp_sink sink;
	uint32_t open, fails;
} gate;
static struct rp_session *session;
static struct rp_slot *slot;

static int gate_event(struct rp_sink *sink, const struct rp_record_view *record)
{
	if (rp_load_relaxed(&gate.fails))
		return -EIO;
	if (!rp_load_relaxed(&gate.open))
		return -EAGAIN;
	sink->delivered += record->def->index >= RP_DEF_OWN_COUNT;
	return 0;
}

static int gate_batch(struct rp_sink *sink, struct rp_event_batch *batch)
{
	return rp_event_batch_deliver(batch, sink, gate_event, NULL, NULL);
}

static int gate_point(struct rp_sink *sink, uint64_t time_ns, uint64_t lost)
{
	(void)sink, (void)time_ns, (void)lost;
	return 0;
}

static int gate_flush(struct rp_sink *sink)
{
	(void)sink;
	return 0;
}

static void gate_abandon(struct rp_sink *sink, uint64_t time_ns, uint64_t lost)
{
	(void)sink, (void)time_ns, (void)lost;
}

static void gate_destroy(struct rp_sink *sink)
{
	(void)sink;
}

static const struct rp_sink_ops gate_ops = {
	.batch = gate_batch,
	.event = gate_event,
	.sequence_point = gate_point,
	.flush = gate_flush,
	.finish = gate_point,
	.abandon = gate_abandon,
	.destroy = gate_destroy,
};

static void start(uint32_t block_ms)
{
	struct rp_session_options options = options_for("Test-Blocked");
	const struct rp_session_setup setup = { .options = &options, .sink = &gate.sink };

	options.block_ms = block_ms;
	gate = (struct gate){ .sink = { .ops = &gate_ops, .fd = -1 } };
	cr_assert_eq(rp_session_open(&setup, &session), 0);
	slot = &rp_slots[session->slot];
	free_options(&options);
}

static void stop(struct rp_session_stats *ret_stats)
{
	struct rp_session_stats stats = empty_stats();

	rp_store_relaxed(&gate.open, 1);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	*ret_stats = stats;
}

static int write_mark(void)
{
	static const uint8_t filling[3000];

	return blocked_mark(filling, sizeof(filling));
}

static struct {
	pthread_t thread;
	pid_t tid;
	uint64_t most;			/* events to write; 0: until one is lost */
	uint64_t taken, lost;		/* by the results of the writes */
	uint32_t over;
} writer;

static void *run_writer(void *data)
{
	(void)data;
	rp_store_relaxed(&writer.tid, gettid());
	for (;;) {
		uint64_t most = rp_load_relaxed(&writer.most);
		int ret = write_mark();

		cr_assert(ret == 0 || ret == -ENOBUFS);
		__atomic_fetch_add(ret == 0 ? &writer.taken : &writer.lost, 1, __ATOMIC_RELAXED);
		if (most ? writer.taken + writer.lost >= most : ret || !blocked_mark_enabled())
			break;
	}
	rp_store_release(&writer.over, 1);
	return NULL;
}

static void begin_writer(uint64_t most)
{
	memset(&writer, 0, sizeof(writer));
	writer.most = most;
	cr_assert_eq(pthread_create(&writer.thread, NULL, run_writer, NULL), 0);
}

static void end_writer(void)
{
	wait_until(rp_load_acquire(&writer.over));
	cr_assert_eq(pthread_join(writer.thread, NULL), 0);
}

/* Whether the kernel shows the writer in a futex(2) call on the session's word. */
static bool writer_waits(void)
{
	pid_t tid = rp_load_relaxed(&writer.tid);
	long number = -1;
	void *word = NULL;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	file = tid ? fopen(path, "r") : NULL;
	if (!file)
		return false;
	if (fscanf(file, "%ld %p", &number, &word) != 2)
		number = -1;
	fclose(file);
	return number == SYS_futex && word == &slot->space;
}

/* Writes until every ring is full, whatever processor the caller is on. */
static int write_until_lost(void)
{
	int ret;

	do
		ret = write_mark();
	while (ret == 0);
	return ret;
}

TestSuite(core_block, .timeout = 120);

Test(core_block, writer_waits_for_space_and_loses_nothing)
{
	struct rp_session_stats stats;

	start(HOUR_MS);
	begin_writer(5000);
	wait_until(writer_waits());
	cr_assert_lt(rp_load_relaxed(&writer.taken), 5000u);
	rp_store_relaxed(&gate.open, 1);
	end_writer();
	stop(&stats);
	cr_assert_eq(writer.taken, 5000u);
	cr_assert_eq(stats.delivered, 5000u);
	cr_assert_eq(stats.lost, 0u);
}

Test(core_block, wait_ends_at_its_bound_and_the_loss_is_counted)
{
	struct rp_session_stats stats;
	uint64_t taken = 0;

	start(1);
	while (write_mark() == 0)
		taken++;
	cr_assert(slot->space & STALLED);
	stop(&stats);
	cr_assert_eq(stats.delivered, taken);
	cr_assert_eq(stats.lost, 1u);
	cr_assert_eq(stats.lost_by[RP_LOSS_BLOCKED], 1u);
}

Test(core_block, output_that_stands_still_is_waited_for_once)
{
	struct rp_session_stats stats;

	start(1);
	cr_assert_eq(write_until_lost(), -ENOBUFS);
	/* A writer that waited now would wait for an hour: the loss shows that it does not wait. */
	rp_store_relaxed(&slot->wait_ns, HOUR_MS * 1000000ull);
	cr_assert_eq(write_until_lost(), -ENOBUFS);
	/* The sink takes events again, so the next writer waits again. */
	rp_store_relaxed(&gate.open, 1);
	wait_until((rp_load_relaxed(&slot->space) & STALLED) == 0);
	rp_store_relaxed(&gate.open, 0);
	begin_writer(5000);
	wait_until(writer_waits());
	rp_store_relaxed(&gate.open, 1);
	end_writer();
	stop(&stats);
	cr_assert_eq(writer.lost, 0u);
	cr_assert_eq(stats.lost, 2u);
	cr_assert_eq(stats.lost_by[RP_LOSS_BLOCKED], 2u);
}

Test(core_block, payload_that_no_ring_takes_is_not_waited_for)
{
	static uint8_t bytes[RP_PAYLOAD_MAX + 1];
	struct rp_session_stats stats;

	start(HOUR_MS);
	begin_writer(0);
	wait_until(writer_waits());
	cr_assert_eq(blocked_mark(bytes, sizeof(bytes) - 2), -EMSGSIZE);
	rp_store_relaxed(&gate.open, 1);
	wait_until(!writer_waits());
	stop(&stats);
	end_writer();
	cr_assert_eq(stats.lost_by[RP_LOSS_TOO_BIG], 1u);
	cr_assert_eq(stats.lost, 1u);
}

Test(core_block, stop_ends_the_wait)
{
	struct rp_session_stats stats = empty_stats();

	start(HOUR_MS);
	begin_writer(0);
	wait_until(writer_waits());
	rp_session_discard(session);
	end_writer();
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(writer.lost, 0u);
	/* The waiting event was not offered to the session, yet its call returned success. */
	cr_assert_eq(stats.lost + 1, writer.taken);
	cr_assert_eq(stats.lost_by[RP_LOSS_BLOCKED], 0u);
}

Test(core_block, sink_that_fails_ends_the_wait)
{
	struct rp_session_stats stats = empty_stats();

	start(HOUR_MS);
	begin_writer(0);
	wait_until(writer_waits());
	rp_store_relaxed(&gate.fails, 1);
	end_writer();
	cr_assert_eq(rp_session_stop(session, &stats), -EIO);
}

Test(core_block, event_that_is_not_wanted_any_more_ends_the_wait)
{
	struct rp_session_stats stats;

	start(HOUR_MS);
	begin_writer(0);
	wait_until(writer_waits());
	cr_assert_eq(rp_session_set_providers(session, NULL, 0), 0);
	end_writer();
	stop(&stats);
	cr_assert_eq(stats.lost, 0u);
	cr_assert_eq(stats.delivered + 1, writer.taken);
}

Test(core_block, flagged_thread_does_not_wait)
{
	struct rp_session_stats stats;

	start(HOUR_MS);
	cr_assert_eq(rp_thread_set_blocking(0), 1);
	cr_assert_eq(write_until_lost(), -ENOBUFS);
	cr_assert_eq(rp_thread_set_blocking(1), 0);
	stop(&stats);
	cr_assert_eq(stats.lost_by[RP_LOSS_BLOCKED], 1u);
}

static struct { uint32_t runs; int ret; } handler;

static void on_signal(int number)
{
	(void)number;
	rp_store_relaxed(&handler.ret, write_until_lost());
	__atomic_fetch_add(&handler.runs, 1, __ATOMIC_RELEASE);
}

static void handle(int number, void (*run)(int), int flags)
{
	struct sigaction action = { .sa_handler = run, .sa_flags = flags };

	memset(&handler, 0, sizeof(handler));
	cr_assert_eq(sigaction(number, &action, NULL), 0);
}

Test(core_block, handler_that_interrupts_a_wait_does_not_wait)
{
	struct rp_session_stats stats;

	start(HOUR_MS);
	handle(SIGUSR1, on_signal, 0);
	begin_writer(5000);
	for (uint32_t i = 1; i <= 3; i++) {
		wait_until(writer_waits());
		cr_assert_eq(pthread_kill(writer.thread, SIGUSR1), 0);
		wait_until(rp_load_acquire(&handler.runs) == i);
		cr_assert_eq(rp_load_relaxed(&handler.ret), -ENOBUFS);
	}
	wait_until(writer_waits());
	rp_store_relaxed(&gate.open, 1);
	end_writer();
	stop(&stats);
	cr_assert_eq(writer.lost, 0u);
	cr_assert_eq(stats.lost_by[RP_LOSS_BLOCKED], 3u);
	cr_assert_eq(stats.lost, 3u);
}

Test(core_block, alternate_stack_is_not_waited_on)
{
	stack_t stack = { .ss_size = 256 << 10, .ss_sp = malloc(256 << 10) };
	stack_t none = { .ss_flags = SS_DISABLE };
	struct rp_session_stats stats;

	start(HOUR_MS);
	handle(SIGUSR1, on_signal, SA_ONSTACK);
	cr_assert_eq(sigaltstack(&stack, NULL), 0);
	raise(SIGUSR1);
	cr_assert_eq(rp_load_relaxed(&handler.ret), -ENOBUFS);
	sigaltstack(&none, NULL);
	free(stack.ss_sp);
	stop(&stats);
	cr_assert_eq(stats.lost, 1u);
}

static struct {
	sigjmp_buf before;
	uint32_t inside, left, go;
} leaver;

static void on_leaving(int number)
{
	(void)number;
	siglongjmp(leaver.before, 1);
}

static void *leave_and_write(void *data)
{
	rp_store_relaxed(&writer.tid, gettid());
	if (sigsetjmp(leaver.before, 1) == 0) {
		rp_store_relaxed(&leaver.inside, 1);
		write_until_lost();
		rp_store_relaxed(&leaver.inside, 0);
		for (;;)
			pause();
	}
	rp_store_release(&leaver.left, 1);
	while (!rp_load_acquire(&leaver.go))
		sched_yield();
	return leaver.inside ? run_writer(data) : NULL;
}

/* The thread can wait again after the time at which the aborted wait would have ended. */
Test(core_block, wait_left_by_siglongjmp_comes_to_its_end)
{
	bool inside = false;

	start(200);
	handle(SIGUSR1, on_leaving, 0);
	while (!inside) {
		memset(&writer, 0, sizeof(writer));
		memset(&leaver, 0, sizeof(leaver));
		writer.most = UINT64_MAX;
		cr_assert_eq(pthread_create(&writer.thread, NULL, leave_and_write, NULL), 0);
		wait_until(writer_waits() || (rp_load_relaxed(&slot->space) & STALLED));
		cr_assert_eq(pthread_kill(writer.thread, SIGUSR1), 0);
		wait_until(rp_load_acquire(&leaver.left));
		inside = leaver.inside;
		rp_wait_wake(slot);
		rp_store_relaxed(&slot->wait_ns, (inside ? HOUR_MS : 200) * 1000000ull);
		rp_store_release(&leaver.go, 1);
		if (!inside)
			cr_assert_eq(pthread_join(writer.thread, NULL), 0);
	}
	wait_until(writer_waits());
	rp_store_relaxed(&writer.most, 0);
	rp_session_discard(session);
	end_writer();
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_block, wait_is_no_point_of_cancellation)
{
	struct rp_session_stats stats;

	start(HOUR_MS);
	begin_writer(5000);
	wait_until(writer_waits());
	cr_assert_eq(pthread_cancel(writer.thread), 0);
	wait_until(writer_waits());
	rp_store_relaxed(&gate.open, 1);
	end_writer();
	stop(&stats);
	cr_assert_eq(writer.taken, 5000u);
	cr_assert_eq(stats.delivered, 5000u);
}

static uint32_t listened;

static void on_event(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
	if (write_until_lost() == -ENOBUFS)
		__atomic_fetch_add(&listened, 1, __ATOMIC_RELEASE);
}

Test(core_block, listeners_thread_does_not_wait)
{
	struct rp_session_stats stats;
	struct rp_listener *listener;

	start(HOUR_MS);
	listener = push_to(on_event, NULL, "Test-Blocked", 0);
	rp_thread_set_blocking(0);
	write_until_lost();
	rp_thread_set_blocking(1);
	wait_until(rp_load_acquire(&listened) > 0);
	rp_store_relaxed(&gate.open, 1);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	stop(&stats);
	cr_assert_eq(stats.lost, stats.lost_by[RP_LOSS_BLOCKED]);
}

static struct rp_provider *reported_provider;
static uint32_t reported;

static void on_change(struct rp_provider *provider, const struct rp_provider_state *state,
		      void *data)
{
	(void)provider, (void)data;
	if (state->source_enabled)
		return;
	if (write_until_lost() == -ENOBUFS)
		rp_store_release(&reported, rp_drain_is_self() ? 2 : 1);
}

static int broken_batch(struct rp_sink *sink, struct rp_event_batch *batch)
{
	(void)sink, (void)batch;
	return -EIO;
}

/* The drain thread reports the end of a failed session to the providers. */
Test(core_block, drain_thread_does_not_wait)
{
	static struct rp_sink_ops broken_ops;
	static struct rp_sink broken = { .ops = &broken_ops, .fd = -1 };
	struct rp_session_options options = options_for("Test-Reported");
	const struct rp_session_setup setup = { .options = &options, .sink = &broken };
	const struct rp_event_decl decl = { .size = sizeof(decl), .name = "told", .id = 1 };
	struct rp_session *other;
	struct rp_session_stats stats;
	struct rp_event *event;

	broken_ops = gate_ops;
	broken_ops.batch = broken_batch;
	start(HOUR_MS);
	cr_assert_eq(rp_provider_create("Test-Reported", on_change, NULL, &reported_provider), 0);
	cr_assert_eq(rp_event_create(reported_provider, &decl, &event), 0);
	cr_assert_eq(rp_session_open(&setup, &other), 0);
	free_options(&options);
	cr_assert_eq(rp_event_write(event, NULL, 0), 0);
	wait_until(rp_load_acquire(&reported));
	cr_assert_eq(reported, 2u);
	cr_assert_eq(rp_session_stop(other, NULL), -EIO);
	cr_assert_eq(rp_provider_destroy(reported_provider), 0);
	stop(&stats);
	cr_assert_eq(stats.lost, 1u);
}

static void *wait_in_callback(void *data)
{
	struct rp_listener **ret_listener = data;

	rp_store_relaxed(&writer.tid, gettid());
	*ret_listener = listen_to("Test-Reported");
	rp_store_release(&writer.over, 1);
	return NULL;
}

static void on_start(struct rp_provider *provider, const struct rp_provider_state *state,
		     void *data)
{
	(void)provider, (void)data;
	for (int i = 0; state->source_enabled && i < 5000; i++)
		cr_assert_eq(write_mark(), 0);
}

static void *destroy_provider(void *data)
{
	cr_assert_eq(rp_provider_destroy(data), 0);
	rp_store_release(&reported, 1);
	return NULL;
}

/* Destroying a provider waits for its callback, which waits for space until the gate opens. */
Test(core_block, provider_whose_callback_waits_can_be_destroyed)
{
	struct rp_listener *listener;
	struct rp_session_stats stats;
	struct rp_provider *provider;
	pthread_t destroyer;

	start(HOUR_MS);
	cr_assert_eq(rp_provider_create("Test-Reported", on_start, NULL, &provider), 0);
	memset(&writer, 0, sizeof(writer));
	cr_assert_eq(pthread_create(&writer.thread, NULL, wait_in_callback, &listener), 0);
	wait_until(writer_waits());
	cr_assert_eq(pthread_create(&destroyer, NULL, destroy_provider, provider), 0);
	/* Meanwhile other providers are created and destroyed. */
	cr_assert_eq(rp_provider_create("Test-Other", NULL, NULL, &reported_provider), 0);
	cr_assert_eq(rp_provider_destroy(reported_provider), 0);
	rp_store_relaxed(&gate.open, 1);
	end_writer();
	wait_until(rp_load_acquire(&reported));
	pthread_join(destroyer, NULL);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	stop(&stats);
	cr_assert_eq(stats.delivered, 5000u);
	cr_assert_eq(stats.lost, 0u);
}

Test(core_block, sessions_that_do_not_wait_have_the_event_first)
{
	struct rp_session_stats stats;
	struct rp_listener_event event;
	struct rp_listener *listener;
	uint64_t heard = 0;

	start(HOUR_MS);
	listener = listen_to("Test-Blocked");
	begin_writer(5000);
	wait_until(writer_waits());
	/* The listener also gets the event of the writer that waited. */
	for (; heard <= rp_load_relaxed(&writer.taken); heard++)
		expect_event(listener, &event);
	rp_store_relaxed(&gate.open, 1);
	end_writer();
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	stop(&stats);
	cr_assert_eq(stats.delivered, 5000u);
}

Test(core_block, fork_during_a_wait_of_a_writer_leaves_both_alone)
{
	struct rp_session_stats stats;
	int status;
	pid_t child;

	start(HOUR_MS);
	begin_writer(5000);
	wait_until(writer_waits());
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0)
		_exit(write_mark() == 0 && slot->space == 0 ? 0 : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert(writer_waits());
	rp_store_relaxed(&gate.open, 1);
	end_writer();
	stop(&stats);
	cr_assert_eq(stats.delivered, 5000u);
	cr_assert_eq(stats.lost, 0u);
}
