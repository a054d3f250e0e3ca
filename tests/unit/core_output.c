/* SPDX-License-Identifier: MIT */
/* Outputs: invalid paths, files that fill up, and peers that close or never read. */
#include "core_support.h"
#include "trace_path.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ringpipe/reader.h>

RP_PROVIDER(output, "Test-Output");
RP_EVENT(output, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(bytes));
RP_PROVIDER(beside, "Test-Beside");
RP_EVENT(beside, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial));

TestSuite(core_output, .init = make_directory, .fini = remove_directory, .timeout = 120);

static int try_path(const char *output)
{
	struct rp_session_options options = options_for("Test-Output");
	struct rp_session *session = NULL;
	int ret;

	options.output_path = output;
	ret = rp_session_start(&options, &session);
	free_options(&options);
	if (ret == 0)
		(void)rp_session_stop(session, NULL);
	return ret;
}

static struct rp_session *to_path(const char *output, size_t buffer_bytes)
{
	struct rp_session_options options = options_for("Test-Output");
	struct rp_session *session;

	options.output_path = output;
	options.buffer_bytes = buffer_bytes;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	return session;
}

Test(core_output, paths_that_cannot_be_opened_say_why)
{
	char missing[96];

	snprintf(missing, sizeof(missing), "%s/missing/trace", directory);
	cr_assert_eq(try_path(missing), -ENOENT);
	cr_assert_eq(try_path(directory), -EISDIR);
	cr_assert_eq(try_path(""), -ENOENT);
	cr_assert_eq(try_path("/dev/null/trace"), -ENOTDIR);
	if (geteuid() != 0)
		cr_assert_eq(try_path("/proc/version"), -EACCES);
}

Test(core_output, fifo_without_a_reader_does_not_hang)
{
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(try_path(path), -ENXIO);
}

static int try_fd(int fd, uint32_t flags)
{
	struct rp_session_options options = options_for("Test-Output");
	struct rp_session *session = NULL;
	int ret;

	options.output_fd = fd;
	options.flags = flags;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	ret = rp_session_start(&options, &session);
	free_options(&options);
	if (ret == 0)
		(void)rp_session_stop(session, NULL);
	return ret;
}

static int try_snapshot(int fd)
{
	struct rp_session_options options = options_for("Test-Output");
	struct rp_session *session;
	int ret;

	options.output_fd = -1;
	options.flags = RP_SESSION_OVERWRITE;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	ret = rp_session_snapshot(session, NULL, fd, NULL);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	return ret;
}

Test(core_output, descriptor_that_is_not_open_for_writing_is_refused_at_the_start)
{
	int ends[2], written = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int refused[4];

	cr_assert_geq(written, 0);
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	refused[0] = ends[0];
	refused[1] = open(path, O_RDONLY | O_CLOEXEC);
	refused[2] = open(path, O_PATH | O_CLOEXEC);
	refused[3] = fcntl(refused[2], F_DUPFD_CLOEXEC, 500);
	cr_assert_geq(refused[3], 500);
	close(refused[3]);
	for (int i = 0; i < 4; i++) {
		cr_expect_eq(try_fd(refused[i], 0), -EBADF, "%d", i);
		cr_expect_eq(try_fd(refused[i], RP_SESSION_OVERWRITE), -EBADF, "%d", i);
		cr_expect_eq(try_snapshot(refused[i]), -EBADF, "%d", i);
		cr_expect(i == 3 || fcntl(refused[i], F_GETFD) >= 0, "%d is the caller's", i);
	}
	cr_expect_eq(try_snapshot(written), 0);
	cr_expect_eq(try_fd(written, 0), 0);
	close(refused[2]);
	close(refused[1]);
	close(ends[0]);
	close(ends[1]);
}

static void count_file(const char *file, uint64_t *ret_events, uint64_t *ret_lost)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	int ret;

	*ret_events = 0;
	cr_assert_eq(rp_reader_open(file, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1)
		*ret_events += strcmp(event.type->provider, "Test-Output") == 0;
	cr_assert_eq(ret, 0, "%s", rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	cr_assert_eq(stats.ended, 1u);
	*ret_lost = stats.lost;
	rp_reader_close(reader);
}

/*
 * Writes until the session has ended, or `most` events. One thread writes, and a cleared bit stays
 * clear, so the count is exact except for the last write, during which the bit may have changed.
 */
static uint64_t write_until_gone(uint64_t most, size_t size, bool *ret_unsure)
{
	static const char bytes[60000];
	uint64_t serial = 0;

	*ret_unsure = false;
	while (serial < most && output_mark_enabled()) {
		(void)output_mark(serial++, bytes, size);
		if (!output_mark_enabled())
			*ret_unsure = true;
	}
	return serial;
}

static void expect_sum(uint64_t sum, uint64_t offered, bool unsure)
{
	cr_assert(sum == offered || (unsure && sum + 1 == offered), "%lu, not %lu%s", sum, offered,
		  unsure ? " or one less" : "");
}

Test(core_output, file_holds_every_event_and_every_reported_loss)
{
	struct rp_session *session = to_path(path, RP_SESSION_BUFFER_MIN);
	struct rp_session_stats stats = empty_stats();
	uint64_t offered, events, lost;
	bool unsure;

	offered = write_until_gone(20000, 1000, &unsure);
	cr_assert_eq(offered, 20000u);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered + stats.lost, offered);
	count_file(path, &events, &lost);
	cr_assert_eq(events, stats.delivered);
	cr_assert_eq(lost, stats.lost);
	cr_assert_eq(access(path, X_OK), -1, "an output is not a program");
}

Test(core_output, second_session_to_a_file_replaces_it)
{
	uint64_t events, lost;
	struct rp_session *session = to_path(path, RP_SESSION_BUFFER_MIN);

	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(output_mark(i, "x", 1), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	session = to_path(path, RP_SESSION_BUFFER_MIN);
	cr_assert_eq(output_mark(1, "x", 1), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	count_file(path, &events, &lost);
	cr_assert_eq(events, 1u);
	cr_assert_eq(lost, 0u);
}

Test(core_output, refused_session_leaves_an_existing_file_as_it_was)
{
	struct rp_session_options options = options_for("Test-Output");
	struct rp_session *session = NULL;
	struct stat stat_before, stat_after;
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	fputs("precious", file);
	fclose(file);
	cr_assert_eq(stat(path, &stat_before), 0);
	options.output_path = path;
	options.buffer_bytes = 1;
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL);
	cr_assert_eq(stat(path, &stat_after), 0);
	cr_assert_eq(stat_after.st_size, stat_before.st_size);
	free_options(&options);
}

Test(core_output, full_device_ends_the_session_with_enospc)
{
	uint64_t offered = 0;

	/* The session may end before the first event. */
	while (offered == 0) {
		struct rp_session *session = to_path("/dev/full", RP_SESSION_BUFFER_MIN);
		struct rp_session_stats stats = empty_stats();
		bool unsure;

		offered = write_until_gone(1000, 100, &unsure);
		cr_assert_eq(rp_session_stop(session, &stats), -ENOSPC);
		cr_assert_eq(stats.error, -ENOSPC);
		cr_assert_eq(stats.delivered, 0u);
		expect_sum(stats.lost, offered, unsure);
		cr_assert_not(output_mark_enabled());
	}
}

/* Sums the counts in the PayloadsCut events of a file, and counts the provider's events. */
static uint64_t count_cuts(const char *file, const char *provider, uint64_t *ret_events)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint64_t cuts = 0, count;

	*ret_events = 0;
	cr_assert_eq(rp_reader_open(file, &reader), 0);
	while (rp_reader_next(reader, &event) == 1) {
		*ret_events += strcmp(event.type->provider, provider) == 0;
		if (strcmp(event.type->name, "PayloadsCut") != 0)
			continue;
		cr_assert_eq(event.payload_bytes, sizeof(count));
		memcpy(&count, event.payload, sizeof(count));
		cuts += count;
	}
	rp_reader_close(reader);
	return cuts;
}

/* There a string takes two bytes per letter, and the payload is at most 65,400 bytes. */
Test(core_output, payload_a_file_cannot_hold_is_cut_and_reported)
{
	static const size_t lengths[] = { 0, 100, 32698, 32699, 32700, 40000, 65535 };
	static const struct rp_field fields[] = { { "s", NULL, 0, RP_TYPE_STRING, 0, 0, NULL } };
	static char text[65536];
	struct rp_session_options options = options_for("Test-Long");
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 1, .name = "text", .fields = fields, .field_count = 1,
	};
	struct rp_session_stats stats = empty_stats();
	struct rp_provider *provider;
	struct rp_session *session;
	struct rp_event *event;
	uint64_t events;

	memset(text, 'x', sizeof(text) - 1);
	cr_assert_eq(rp_provider_create("Test-Long", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	options.output_path = path;
	options.buffer_bytes = 64u << 20;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	for (size_t i = 0; i < 7; i++) {
		const struct rp_part parts[] = { { text, lengths[i] }, { "", 1 } };

		cr_assert_eq(rp_event_write(event, parts, 2), 0);
	}
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered, 7u);
	cr_assert_eq(stats.lost, 0u);
	cr_assert_eq(stats.shortened, 3u, "32,699 letters and their end fit");
	cr_assert_eq(count_cuts(path, "Test-Long", &events), 3u);
	cr_assert_eq(events, 7u);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}

Test(core_output, deleted_file_ends_the_session_with_enoent)
{
	struct rp_session *session = to_path(path, RP_SESSION_BUFFER_MIN);
	struct rp_session_stats stats = empty_stats();
	uint64_t offered;
	bool unsure;

	cr_assert_eq(unlink(path), 0);
	/* The loop ends when the event is disabled. */
	offered = write_until_gone(UINT32_MAX, 100, &unsure);
	cr_assert_lt(offered, (uint64_t)UINT32_MAX);
	cr_assert_eq(rp_session_stop(session, &stats), -ENOENT);
	expect_sum(stats.delivered + stats.lost, offered, unsure);
	cr_assert_not(output_mark_enabled());
}

Test(core_output, file_that_was_renamed_goes_on)
{
	struct rp_session *session = to_path(path, RP_SESSION_BUFFER_MIN);
	struct rp_session_stats stats = empty_stats();
	uint64_t events, lost;
	char other[sizeof(path) + 8];
	bool unsure;

	snprintf(other, sizeof(other), "%s.1", path);
	cr_assert_eq(rename(path, other), 0);
	cr_assert_eq(write_until_gone(100, 100, &unsure), 100u);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	count_file(other, &events, &lost);
	cr_assert_eq(events + lost, 100u);
	cr_assert_eq(unlink(other), 0);
}

Test(core_output, file_size_limit_does_not_kill_the_host)
{
	struct rlimit before, limit;
	struct rp_session_stats stats = empty_stats();
	struct rp_session *session;
	uint64_t offered, events, lost;
	bool unsure;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 256 << 10;
	/* If rings must be files, the limit also applies to them, from the start. */
	session = to_path(path, 8 << 20);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	offered = write_until_gone(2000, 1000, &unsure);
	cr_assert_eq(rp_session_stop(session, &stats), -EFBIG);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	expect_sum(stats.delivered + stats.lost, offered, unsure);
	cr_assert_gt(stats.lost_by[RP_LOSS_SINK], 0u);
	count_file(path, &events, &lost);
	cr_assert_eq(events, stats.delivered);
	cr_assert_eq(events + lost, stats.delivered + stats.lost);
}

static void expect_peer_gone(int reader, int writer)
{
	struct rp_session *session = stream_to(writer, "Test-Output");
	struct rp_session_stats stats = empty_stats();
	uint64_t offered;
	bool unsure;

	cr_assert(output_mark_enabled());
	close(reader);
	offered = write_until_gone(UINT64_MAX, 100, &unsure);
	cr_assert_eq(rp_session_stop(session, &stats), -EPIPE);
	expect_sum(stats.delivered + stats.lost, offered, unsure);
}

Test(core_output, pipe_whose_reader_goes_ends_the_session)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	expect_peer_gone(fds[0], fds[1]);
}

Test(core_output, socket_whose_peer_goes_ends_the_session)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	expect_peer_gone(fds[0], fds[1]);
}

Test(core_output, descriptor_is_the_sessions_after_success_and_the_callers_after_failure)
{
	struct rp_session_options options = options_for("Test-Output");
	struct rp_session *session;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	options.output_fd = fds[1];
	options.buffer_bytes = 1;
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL);
	cr_assert_eq(fcntl(fds[1], F_GETFD), 0, "closed on failure");
	options.buffer_bytes = 0;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_eq(fcntl(fds[1], F_GETFD), -1, "still open after the stop");
	close(fds[0]);
	free_options(&options);
}

struct stopper {
	struct rp_session *session;
	struct rp_session_stats stats;
	int result;
	bool done;
};

static void *stop_session(void *data)
{
	struct stopper *stopper = data;

	stopper->result = rp_session_stop(stopper->session, &stopper->stats);
	__atomic_store_n(&stopper->done, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* More than the peer's buffer holds, and less than those of sink and rings, even half used. */
#define STUCK 24u

static void expect_never_read(int writer)
{
	struct stopper stopper = { .session = stream_to(writer, "Test-Output"),
				   .stats = { .size = sizeof(stopper.stats) } };
	struct rp_listener *other = listen_to("Test-Beside");
	static const char bytes[20000];
	struct rp_listener_event event;
	uint64_t offered = 0, taken = 0;
	bool before_the_end;
	pthread_t thread;

	while (taken < STUCK) {
		taken += output_mark(offered++, bytes, sizeof(bytes)) == 0;
		poll(NULL, 0, 1);
	}
	cr_assert_eq(pthread_create(&thread, NULL, stop_session, &stopper), 0);
	wait_until(!output_mark_enabled());
	cr_assert_eq(beside_mark(1), 0);
	expect_event(other, &event);
	before_the_end = !__atomic_load_n(&stopper.done, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	cr_assert(before_the_end, "the other session waited for the one that is stuck");
	cr_assert_eq(stopper.result, -ETIMEDOUT, "%d, %lu", stopper.result, offered);
	cr_assert_eq(stopper.stats.delivered + stopper.stats.lost, offered);
	cr_assert_gt(stopper.stats.lost_by[RP_LOSS_SINK], 0u);
	expect_end(other);
}

Test(core_output, pipe_without_a_reader_is_given_up_at_stop)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	expect_never_read(fds[1]);
	close(fds[0]);
}

Test(core_output, socket_without_a_reader_is_given_up_at_stop)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	expect_never_read(fds[1]);
	close(fds[0]);
}

static struct rp_session *to_be_stopped;
static int stop_result = 1;
static pthread_t callback_thread;

static void stop_in_callback(struct rp_provider *provider, const struct rp_provider_state *state,
			     void *data)
{
	(void)provider, (void)data;
	if (state->source_enabled)
		return;
	callback_thread = pthread_self();
	__atomic_store_n(&stop_result, rp_session_stop(to_be_stopped, NULL), __ATOMIC_SEQ_CST);
}

/* The session fails after its start, so the drain thread reports its end. */
static struct rp_session *to_nobody(void)
{
	struct rp_session *session;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	session = stream_to(fds[1], "Test-Output");
	close(fds[0]);
	return session;
}

Test(core_output, session_cannot_be_stopped_on_the_drain_thread)
{
	struct rp_session_stats stats = empty_stats();
	struct rp_session *failing;

	to_be_stopped = to_path("/dev/null", RP_SESSION_BUFFER_MIN);
	cr_assert_eq(rp_provider_set_callback(output_provider(), stop_in_callback, NULL), 0);
	failing = to_nobody();
	wait_until(output_mark(1, "x", 1) <= 0 &&
		   __atomic_load_n(&stop_result, __ATOMIC_SEQ_CST) != 1);
	cr_assert_eq(stop_result, -EDEADLK);
	cr_assert_not(pthread_equal(callback_thread, pthread_self()));
	cr_assert(output_mark_enabled(), "the session is unchanged");
	cr_assert_eq(rp_provider_set_callback(output_provider(), NULL, NULL), 0);
	cr_assert_eq(rp_session_stop(failing, NULL), -EPIPE);
	cr_assert_eq(rp_session_stop(to_be_stopped, &stats), 0);
	cr_assert_eq(stats.lost, 0u);
}

static uint64_t own_bits(void)
{
	return __atomic_load_n(&output_mark_event_.enable, __ATOMIC_SEQ_CST) & ((1ull << 40) - 1);
}

static struct rp_listener *to_be_closed;
static int close_results[2] = { 1, 1 };

static void ignore_event(const struct rp_listener_event *event, void *data)
{
	(void)event, (void)data;
}

static void close_in_callback(struct rp_provider *provider, const struct rp_provider_state *state,
			      void *data)
{
	(void)provider, (void)data;
	if (state->source_enabled || pthread_equal(pthread_self(), callback_thread))
		return;
	close_results[0] = rp_listener_drain(to_be_closed);
	__atomic_store_n(&close_results[1], rp_listener_stop(to_be_closed, NULL),
			 __ATOMIC_SEQ_CST);
}

Test(core_output, listener_cannot_be_ended_on_the_drain_thread, .timeout = 60)
{
	struct rp_session_options options = options_for("Test-Beside");
	struct rp_session *failing;

	callback_thread = pthread_self();
	cr_assert_eq(rp_listener_start(&options, ignore_event, NULL, &to_be_closed), 0);
	free_options(&options);
	cr_assert_eq(rp_provider_set_callback(output_provider(), close_in_callback, NULL), 0);
	failing = to_nobody();
	wait_until(output_mark(1, "x", 1) <= 0 &&
		   __atomic_load_n(&close_results[1], __ATOMIC_SEQ_CST) != 1);
	cr_assert_eq(close_results[0], -EDEADLK);
	cr_assert_eq(close_results[1], -EDEADLK);
	cr_assert(beside_mark_enabled(), "the listener is unchanged");
	cr_assert_eq(rp_session_stop(failing, NULL), -EPIPE);
	cr_assert_eq(rp_listener_stop(to_be_closed, NULL), 0);
}

static struct rp_session *failing_session;
static bool stopped_inside;

/* Stop one session while another one fails and the drain thread has to call this callback. */
static void stop_while_failing(struct rp_provider *provider, const struct rp_provider_state *state,
			       void *data)
{
	(void)provider, (void)data;
	if (!state->source_enabled || stopped_inside)
		return;
	failing_session = to_path("/dev/full", RP_SESSION_BUFFER_MIN);
	/* Both sessions are enabled. After one write the drain thread removes the failing one. */
	wait_until(output_mark(1, "x", 1) <= 0 && __builtin_popcountll(own_bits()) == 1);
	stopped_inside = rp_session_stop(to_be_stopped, NULL) == 0;
}

Test(core_output, callback_stops_a_session_while_another_fails, .timeout = 60)
{
	struct rp_listener *listener;

	to_be_stopped = to_path("/dev/null", RP_SESSION_BUFFER_MIN);
	cr_assert_eq(rp_provider_set_callback(beside_provider(), stop_while_failing, NULL), 0);
	listener = listen_to("Test-Beside");
	cr_assert(stopped_inside);
	cr_assert_eq(rp_provider_set_callback(beside_provider(), NULL, NULL), 0);
	cr_assert_eq(rp_session_stop(failing_session, NULL), -ENOSPC);
	expect_end(listener);
}
