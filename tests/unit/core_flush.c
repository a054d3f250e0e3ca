/* SPDX-License-Identifier: MIT */
/* rp_sessions_flush(): its guarantee when it returns, and the contexts that may call it. */
#include "core_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

RP_PROVIDER(flushed, "Test-Flushed");
RP_EVENT(flushed, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(bytes));
RP_PROVIDER(beside, "Test-Beside");
RP_EVENT(beside, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

#define ROUNDS 50u

static int fd_to(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

static uint64_t delivered(struct rp_session *session)
{
	struct rp_session_stats stats = empty_stats();

	cr_assert_eq(rp_session_get_stats(session, &stats), 0);
	cr_assert_eq(stats.lost, 0u);
	return stats.delivered;
}

Test(core_flush, nothing_is_waited_for_before_the_first_session)
{
	errno = EXDEV;
	cr_assert_eq(rp_sessions_flush(-1), 0);
	cr_assert_eq(errno, EXDEV);
}

Test(core_flush, every_earlier_event_is_delivered_when_it_returns)
{
	struct rp_session *session = stream_to(fd_to("/dev/null"), "Test-Flushed");

	for (uint64_t serial = 1; serial <= ROUNDS; serial++) {
		cr_assert_eq(flushed_mark(serial, "", 0), 0);
		errno = EXDEV;
		cr_assert_eq(rp_sessions_flush(-1), 0);
		cr_assert_eq(errno, EXDEV);
		cr_assert_eq(delivered(session), serial);
	}
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_eq(rp_sessions_flush(-1), 0, "no session is left");
}

static bool is_over;

static void *write_beside(void *data)
{
	uint64_t serial = 0;

	(void)data;
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		(void)beside_mark(serial++);
	return NULL;
}

/* A session that is started in the middle of a pass is not in that pass. */
Test(core_flush, sessions_that_come_and_go_next_to_a_busy_one_are_flushed)
{
	struct rp_session *busy = stream_to(fd_to("/dev/null"), "Test-Beside");
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, write_beside, NULL), 0);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct rp_session *session = stream_to(fd_to("/dev/null"), "Test-Flushed");

		cr_assert_eq(flushed_mark(round, "", 0), 0);
		cr_assert_eq(rp_sessions_flush(-1), 0);
		cr_assert_eq(delivered(session), 1u);
		cr_assert_eq(rp_session_stop(session, NULL), 0);
	}
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	(void)rp_session_stop(busy, NULL);
}

static void *flush_often(void *data)
{
	struct rp_session *session = data;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t before = delivered(session);

		if (flushed_mark(i, "", 0) != 0 || rp_sessions_flush(-1) != 0 ||
		    delivered(session) <= before)
			return data;
	}
	return NULL;
}

Test(core_flush, callers_in_several_threads_all_return)
{
	struct rp_session *session = stream_to(fd_to("/dev/null"), "Test-Flushed");
	pthread_t threads[4];
	void *failed;

	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, flush_often, session), 0);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(pthread_join(threads[i], &failed), 0);
		cr_assert_null(failed);
	}
	cr_assert_eq(delivered(session), 4 * ROUNDS);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

/* Fills a pipe until it accepts no more bytes. */
static void fill(int fd)
{
	static const char bytes[4096];

	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	cr_assert_eq(errno, EAGAIN);
}

static int flush_in_child(bool by_system_call)
{
	pid_t child = by_system_call ? (pid_t)syscall(SYS_fork) : fork();
	int status;

	cr_assert_geq(child, 0);
	if (child == 0) {
		/* In another program, so that no leak of the parent's memory is reported. */
		execl(rp_sessions_flush(-1) == 0 ? "/bin/true" : "/bin/false", "result", NULL);
		_exit(2);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

Test(core_flush, output_that_takes_nothing_ends_the_wait_but_not_in_a_forked_child)
{
	struct rp_session *other = stream_to(fd_to("/dev/null"), "Test-Beside");
	struct rp_session *stalled;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	fill(ends[1]);
	stalled = stream_to(ends[1], "Test-Flushed");
	cr_assert_eq(flushed_mark(1, "", 0), 0);
	cr_assert_eq(beside_mark(1), 0);
	cr_assert_eq(rp_sessions_flush(0), -ETIMEDOUT);
	do	/* other outputs are served meanwhile */
		cr_assert_eq(rp_sessions_flush(100), -ETIMEDOUT);
	while (delivered(other) == 0);
	cr_assert_eq(delivered(other), 1u);
	cr_assert_eq(delivered(stalled), 0u);
	cr_assert_eq(flush_in_child(false), 0);
	cr_assert_eq(flush_in_child(true), 0);
	close(ends[0]);
	cr_assert_eq(rp_session_stop(stalled, NULL), -EPIPE);
	cr_assert_eq(rp_sessions_flush(-1), 0);
	cr_assert_eq(rp_session_stop(other, NULL), 0);
}

/* Like a handler that interrupted a caller which holds the lock. */
Test(core_flush, caller_that_holds_the_engines_lock_times_out)
{
	struct rp_session *session = stream_to(fd_to("/dev/null"), "Test-Flushed");

	pthread_mutex_lock(&rp_core.lock);
	cr_assert_eq(flushed_mark(1, "", 0), 0);
	cr_assert_eq(rp_sessions_flush(100), -ETIMEDOUT);
	pthread_mutex_unlock(&rp_core.lock);
	cr_assert_eq(rp_sessions_flush(-1), 0);
	cr_assert_eq(delivered(session), 1u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

struct heard {
	struct rp_session *session;
	sem_t done;
	int result;
	uint64_t delivered;
};

static void flush_in_listener(const struct rp_listener_event *event, void *data)
{
	struct heard *heard = data;

	if (event->id != 1 || heard->result != 1)
		return;
	heard->result = rp_sessions_flush(-1);
	heard->delivered = delivered(heard->session);
	sem_post(&heard->done);
}

/* More than the listener's chunks hold, so the drain thread cannot deliver the rest. */
Test(core_flush, listener_that_does_not_read_delays_no_flush)
{
	static const char bytes[30000];
	struct heard heard = { .result = 1 };
	struct rp_listener *listener, *unread = listen_to("Test-Flushed");
	struct rp_session_options options = options_for("Test-Flushed");

	options.output_fd = fd_to("/dev/null");
	options.buffer_bytes = 64u << 20;
	sem_init(&heard.done, 0, 0);
	cr_assert_eq(rp_session_start(&options, &heard.session), 0);
	free_options(&options);
	listener = push_to(flush_in_listener, &heard, "Test-Flushed", 0);
	for (uint64_t serial = 0; serial < 100; serial++)
		(void)flushed_mark(serial, bytes, sizeof(bytes));
	cr_assert_eq(rp_sessions_flush(-1), 0);
	cr_assert_eq(delivered(heard.session), 100u);
	while (sem_wait(&heard.done) != 0)
		;
	cr_assert_eq(heard.result, 0);
	cr_assert_gt(heard.delivered, 0u);
	cr_assert_eq(rp_listener_stop(listener, NULL), 0);
	cr_assert_eq(rp_listener_stop(unread, NULL), 0);
	cr_assert_eq(rp_session_stop(heard.session, NULL), 0);
}

static int start_result = 1, end_result = 1;

static void flush_in_callback(struct rp_provider *provider, const struct rp_provider_state *state,
			      void *data)
{
	(void)provider, (void)data;
	__atomic_store_n(state->source_enabled ? &start_result : &end_result,
			 rp_sessions_flush(-1), __ATOMIC_SEQ_CST);
}

/* If its reader closes, the session ends on the drain thread. */
Test(core_flush, callback_on_the_drain_thread_gets_an_error_and_others_flush)
{
	struct rp_session *failing;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	failing = stream_to(ends[1], "Test-Flushed");
	cr_assert_eq(rp_provider_set_callback(flushed_provider(), flush_in_callback, NULL), 0);
	cr_assert_eq(__atomic_load_n(&start_result, __ATOMIC_SEQ_CST), 0);
	close(ends[0]);
	wait_until(flushed_mark(1, "", 0) <= 0 &&
		   __atomic_load_n(&end_result, __ATOMIC_SEQ_CST) != 1);
	cr_assert_eq(end_result, -EDEADLK);
	cr_assert_eq(rp_sessions_flush(-1), 0);
	cr_assert_eq(rp_provider_set_callback(flushed_provider(), NULL, NULL), 0);
	cr_assert_eq(rp_session_stop(failing, NULL), -EPIPE);
}
