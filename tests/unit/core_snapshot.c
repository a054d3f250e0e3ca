/* SPDX-License-Identifier: MIT */
/* Sessions that overwrite: the content of a snapshot, and the time from which it is complete. */
#include "../in_valgrind.h"
#include "../leave_rseq.h"
#include "base/clock.h"
#include "core/holders.h"
#include "core/merge.h"
#include "core/snapshot.h"
#include "core_support.h"
#include "ring/ring.h"
#include "ring/slot.h"
#include "trace_path.h"
#include "traps.h"
#include <pthread.h>
#include <ringpipe/reader.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

RP_PROVIDER(flight, "Test-Flight");
RP_EVENT(flight, mark, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_BLOB(bytes));

#define PATIENCE_SECONDS 60
#define BLOB_MAX 60000u
#define CLOCKS_APART_NS 1000000000u	/* tolerance for clocks that jump */

static uint8_t blob[BLOB_MAX];

static void set_up(void)
{
	make_directory();
	for (size_t i = 0; i < sizeof(blob); i++)
		blob[i] = (uint8_t)(i * 7);
}

TestSuite(core_snapshot, .init = set_up, .fini = remove_directory, .timeout = 120);

static int try_recording(const char *output, size_t buffer_bytes, struct rp_session **ret_session)
{
	struct rp_session_options options = options_for("Test-Flight");
	int ret;

	options.flags = RP_SESSION_OVERWRITE;
	options.output_path = output;
	options.buffer_bytes = buffer_bytes;
	ret = rp_session_start(&options, ret_session);
	free_options(&options);
	return ret;
}

static struct rp_session *record(const char *output)
{
	struct rp_session *session;

	cr_assert_eq(try_recording(output, RP_SESSION_OVERWRITE_MIN, &session), 0);
	return session;
}

static struct rp_snapshot_info snapshot_of(struct rp_session *session)
{
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	uint64_t before = rp_clock_monotonic_ns();

	cr_assert_eq(rp_session_snapshot(session, path, -1, &info), 0);
	cr_assert_geq(info.to_ns + CLOCKS_APART_NS, before);
	cr_assert_leq(info.to_ns, rp_clock_monotonic_ns() + CLOCKS_APART_NS);
	cr_assert_eq(info.lost, 0u);
	cr_assert_leq(info.from_ns, info.to_ns);
	return info;
}

/* Contents of a snapshot file. */
struct content {
	uint64_t events, first, last;	/* serials */
	uint64_t inside;		/* events inside the window: without a gap */
	uint64_t from_ns, to_ns;	/* from its event Snapshot; 0: none */
	uint64_t bytes;			/* of payloads */
};

static uint64_t start_of(const struct rp_reader *reader)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;

	rp_reader_get_info(reader, &info);
	return info.start_ticks;
}

static void take_mark(struct content *content, const struct rp_reader_event *event,
		      uint64_t time_ns, const struct rp_snapshot_info *info)
{
	const uint8_t *payload = event->payload;
	uint64_t serial;
	uint16_t size;

	memcpy(&serial, payload, 8);
	memcpy(&size, payload + 8, 2);
	cr_assert_eq(event->payload_bytes, 10u + size);
	cr_assert_arr_eq(payload + 10, blob, size, "a torn payload");
	if (content->events)
		cr_assert_gt(serial, content->last);
	else
		content->first = serial;
	if (time_ns >= info->from_ns && time_ns <= info->to_ns) {
		cr_assert(content->inside == 0 || serial == content->last + 1,
			  "%lu follows %lu inside the window", serial, content->last);
		content->inside++;
	}
	content->last = serial;
	content->events++;
	content->bytes += event->payload_bytes;
}

static struct content read_content(struct rp_reader *reader, const struct rp_snapshot_info *info)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct content content = { 0 };
	int ret;

	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (strcmp(event.type->provider, "Test-Flight") == 0) {
			cr_assert_geq(event.time_ns, 0);
			take_mark(&content, &event, start_of(reader) + (uint64_t)event.time_ns,
				  info);
		} else if (strcmp(event.type->name, "Snapshot") == 0) {
			cr_assert_eq(event.payload_bytes, 16u);
			memcpy(&content.from_ns, event.payload, 8);
			memcpy(&content.to_ns, (const char *)event.payload + 8, 8);
		}
	}
	cr_assert_eq(ret, 0, "%s", rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	cr_assert_eq(stats.ended, 1u);
	cr_assert_eq(stats.unordered, 0u);
	cr_assert_eq(stats.lost, 0u);
	rp_reader_close(reader);
	return content;
}

static struct content read_file(const struct rp_snapshot_info *info)
{
	struct rp_reader *reader;
	struct content content;

	cr_assert_eq(rp_reader_open(path, &reader), 0);
	content = read_content(reader, info);
	cr_assert_eq(content.from_ns, info->from_ns);
	cr_assert_eq(content.to_ns, info->to_ns);
	return content;
}

static void write_marks(uint64_t *serial, uint64_t count, size_t size)
{
	for (uint64_t i = 0; i < count; i++)
		cr_assert_eq(flight_mark((*serial)++, blob, size), 0);
}

Test(core_snapshot, session_with_space_has_every_event_in_its_window)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info info;
	struct content content;
	uint64_t serial = 0;

	write_marks(&serial, 1000, 16);
	info = snapshot_of(session);
	content = read_file(&info);
	cr_assert_eq(content.events, 1000u);
	cr_assert_eq(content.inside, 1000u);
	cr_assert_eq(info.events, 1000u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, oldest_events_are_overwritten_by_the_newest)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info info;
	struct content content;
	uint64_t serial = 0;

	write_marks(&serial, 300000, 100);
	info = snapshot_of(session);
	content = read_file(&info);
	cr_assert_eq(content.last, serial - 1);
	/* The first event may remain in a ring that got no more events after the thread moved. */
	cr_assert_lt(content.events, serial / 2);
	cr_assert_eq(content.events, info.events);
	/*
	 * At least one ring has seven eighths of a megabyte, and the window is that of this ring.
	 */
	cr_assert_gt(content.inside, 1000u);
	cr_assert_gt(content.bytes, 500000u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

/* The writer pads the rest of each sub-buffer. The sizes produce every multiple of 8. */
Test(core_snapshot, records_of_all_sizes_meet_the_boundaries_of_subbuffers)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info info;
	struct content content;
	uint64_t serial = 0;

	for (size_t i = 0; i < 60000; i++) {
		size_t size = i * 2654435761u % (i % 64 ? 600u : 8000u);

		write_marks(&serial, 1, size);
		if (i % 15000 == 0) {
			info = snapshot_of(session);
			content = read_file(&info);
			cr_assert_eq(content.last, serial - 1);
		}
	}
	info = snapshot_of(session);
	content = read_file(&info);
	cr_assert_eq(content.last, serial - 1);
	cr_assert_gt(content.inside, 100u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, large_payloads_are_overwritten_as_well)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info info;
	struct content content;
	uint64_t serial = 0;

	write_marks(&serial, 1000, BLOB_MAX);
	info = snapshot_of(session);
	content = read_file(&info);
	cr_assert_eq(content.last, serial - 1);
	cr_assert_geq(content.inside, 10u);
	cr_assert_lt(content.events, 200u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

static void *write_in_the_fallback(void *serial)
{
	cr_assert_eq(leave_rseq(), 0);
	write_marks(serial, 1, 8);
	return NULL;
}

/* The ring of the first event gets no further one, so that event is not overwritten. */
Test(core_snapshot, window_begins_after_what_was_overwritten_in_any_ring)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info info;
	struct content content;
	uint64_t serial = 0;
	pthread_t writer;

	cr_assert_eq(pthread_create(&writer, NULL, write_in_the_fallback, &serial), 0);
	cr_assert_eq(pthread_join(writer, NULL), 0);
	write_marks(&serial, 300000, 100);
	info = snapshot_of(session);
	content = read_file(&info);
	cr_assert_eq(content.last, serial - 1);
	cr_assert(content.first == 0 || !rp_rseq_usable);
	cr_assert_gt(content.inside, 1000u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, session_goes_on_and_snapshots_overlap)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info first, second;
	struct content content;
	uint64_t serial = 0;

	write_marks(&serial, 100, 8);
	first = snapshot_of(session);
	write_marks(&serial, 100, 8);
	second = snapshot_of(session);
	content = read_file(&second);
	cr_assert_eq(content.events, 200u);
	cr_assert_eq(first.events, 100u);
	cr_assert_eq(second.from_ns, first.from_ns);
	cr_assert_gt(second.to_ns, first.to_ns);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, output_gets_what_is_there_when_the_session_ends)
{
	struct rp_session *session = record(path);
	struct rp_session_stats stats = empty_stats();
	struct rp_snapshot_info all = { .to_ns = UINT64_MAX };
	struct rp_reader *reader;
	struct content content;
	uint64_t serial = 0;

	write_marks(&serial, 500, 8);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.delivered, 500u);
	cr_assert_eq(stats.lost, 0u);
	cr_assert_eq(rp_reader_open(path, &reader), 0);
	content = read_content(reader, &all);
	cr_assert_eq(content.events, 500u);
	cr_assert_gt(content.from_ns, 0u);
	cr_assert_gt(content.to_ns, content.from_ns);
}

Test(core_snapshot, overwritten_output_is_complete_within_the_window_it_reports)
{
	struct rp_session *session = record(path);
	struct rp_snapshot_info info = { 0 };
	struct rp_reader *reader;
	struct content content;
	uint64_t serial = 0;

	write_marks(&serial, 100000, 200);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_eq(rp_reader_open(path, &reader), 0);
	content = read_content(reader, &info);
	info.from_ns = content.from_ns;
	info.to_ns = content.to_ns;
	content = read_file(&info);
	cr_assert_eq(content.last, serial - 1);
	cr_assert_gt(content.inside, 1000u);
	cr_assert_lt(content.events, 100000u);
}

/* ThreadSanitizer instruments each write and crashes at a write into code. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
static _Atomic uint64_t written;
static _Atomic bool quiet, starved;

static void *write_on(void *data)
{
	uint64_t serial = 0;

	while (!quiet) {
		write_marks(&serial, 1, 8);
		written++;
	}
	return data;
}

/* Blocks the thread that makes the snapshot until another thread has written many events. */
static void await_writer(void)
{
	const uint64_t enough = written + 10000;
	const time_t limit = time(NULL) + PATIENCE_SECONDS;

	while (written < enough && time(NULL) < limit)
		sched_yield();
	starved |= written < enough;
}

/* At each step of a snapshot, writers make progress while the snapshot is blocked there. */
Test(core_snapshot, writers_go_on_whatever_a_snapshot_is_doing)
{
	/* Each is called from another file, so no compiler has inlined a copy. */
	static void *const steps[] = {
		rp_snapshot_take, rp_session_await_holders, rp_ring_create, rp_ring_copy,
		rp_snapshot_write, rp_merge, rp_snapshot_free,
	};
	struct rp_session *session;
	pthread_t writer;

	if (runs_in_valgrind())
		cr_skip_test("valgrind runs code of its own");
	session = record(NULL);
	cr_assert_eq(pthread_create(&writer, NULL, write_on, NULL), 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct trap_place place = { .at = steps[i] };

		if (traps_allow(&place, 1) != 0)
			cr_skip_test("no program may change its own code here");
		traps_plant(&place, 1, await_writer);
		(void)snapshot_of(session);
		cr_assert_eq(traps_take_out(), 1u, "step %zu was not taken", i);
		cr_assert_not(starved, "writers stood still in step %zu", i);
	}
	quiet = true;
	cr_assert_eq(pthread_join(writer, NULL), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}
#endif

Test(core_snapshot, socket_gets_a_whole_recording)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct rp_reader *reader;
	uint64_t serial = 0;
	int fds[2];

	write_marks(&serial, 100, 8);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	cr_assert_eq(rp_session_snapshot(session, NULL, fds[0], &info), 0);
	cr_assert_eq(close(fds[0]), 0, "the descriptor is the caller's");
	cr_assert_eq(rp_reader_open_fd(fds[1], &reader), 0);
	cr_assert_eq(read_content(reader, &info).events, 100u);
	close(fds[1]);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, peer_that_takes_nothing_is_given_up)
{
	struct rp_session *session = record(NULL);
	uint64_t serial = 0;
	int fds[2];

	write_marks(&serial, 100000, 100);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	cr_assert_eq(rp_session_snapshot(session, NULL, fds[0], NULL), -ETIMEDOUT);
	close(fds[0]);
	close(fds[1]);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, failed_snapshot_says_why_and_the_session_goes_on)
{
	struct rp_session *session = record(NULL);
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	char missing[96];
	uint64_t serial = 0;

	write_marks(&serial, 10, 8);
	snprintf(missing, sizeof(missing), "%s/missing/trace", directory);
	cr_assert_eq(rp_session_snapshot(session, missing, -1, &info), -ENOENT);
	cr_assert_eq(rp_session_snapshot(session, directory, -1, &info), -EISDIR);
	cr_assert_eq(rp_session_snapshot(session, "/dev/full", -1, &info), -ENOSPC);
	cr_assert_eq(rp_session_snapshot(session, NULL, -1, &info), -EINVAL);
	cr_assert_eq(info.events, 0u, "a failure left its mark in the result");
	info = snapshot_of(session);
	cr_assert_eq(info.events, 10u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, sessions_that_do_not_overwrite_have_none)
{
	struct rp_session_options options = options_for("Test-Flight");
	struct rp_session *session;
	struct rp_listener *listener;

	cr_assert_eq(try_recording(NULL, RP_SESSION_BUFFER_MIN, &session), -EINVAL);
	options.output_path = "/dev/null";
	cr_assert_eq(rp_session_start(&options, &session), 0);
	cr_assert_eq(rp_session_snapshot(session, path, -1, NULL), -EINVAL);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_eq(rp_session_snapshot(NULL, path, -1, NULL), -EINVAL);
	options.flags = RP_SESSION_OVERWRITE;
	options.recover_path = directory;
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL, "too small for it");
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	options.output_path = "/dev/null";
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL, "an output has to be a file");
	options.recover_path = NULL;
	options.block_ms = 1;
	cr_assert_eq(rp_session_start(&options, &session), -EINVAL, "nobody waits for room");
	options.block_ms = 0;
	cr_assert_eq(rp_listener_start(&options, NULL, NULL, &listener), -EINVAL);
	free_options(&options);
}

Test(core_snapshot, output_that_a_session_writes_to_is_not_taken_away)
{
	struct rp_session *session = record(path);

	cr_assert_eq(rp_session_snapshot(session, path, -1, NULL), -EBUSY);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_snapshot, definition_that_went_is_still_reported)
{
	static const struct rp_field fields[] = {
		{ "serial", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
		{ "size", NULL, 0, RP_TYPE_U16, 0, 0, NULL },
	};
	struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 7, .level = RP_LEVEL_INFORMATIONAL, .name = "gone",
		.fields = fields, .field_count = 2,
	};
	struct rp_session *session = record(NULL), *other;
	struct rp_session_options options = options_for("Test-Flight");
	struct rp_provider *provider;
	struct rp_event *event;
	struct rp_snapshot_info info;
	uint8_t payload[10] = { 5 };
	struct rp_part part = { payload, sizeof(payload) };

	cr_assert_eq(rp_provider_create("Test-Flight", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	rp_event_destroy(event);
	rp_provider_destroy(provider);
	/* Sessions that start and stop make the drain thread free retired objects. */
	options.output_path = "/dev/null";
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(rp_session_start(&options, &other), 0);
		cr_assert_eq(rp_session_stop(other, NULL), 0);
	}
	free_options(&options);
	info = snapshot_of(session);
	cr_assert_eq(read_file(&info).first, 5u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

#define IDLE_THREADS 8u		/* more than an overwriting session has fallback locks */

static __thread sigjmp_buf way_out;
static void *unreadable;
static atomic_uint left_writes;
static atomic_bool is_over;

static void leave_write(int signal)
{
	(void)signal;
	siglongjmp(way_out, 1);
}

/* Afterwards, no call of the thread overwrites the frame of the abandoned write. */
static void *leave_and_idle(void *data)
{
	(void)data;
	if (sigsetjmp(way_out, 1) == 0)
		(void)flight_mark(0, unreadable, BLOB_MAX);
	left_writes++;
	while (!is_over)
		sched_yield();
	return NULL;
}

Test(core_snapshot, large_events_are_stored_while_threads_that_left_writes_are_idle)
{
	struct sigaction action = { .sa_handler = leave_write };
	/* Every 8 MB is for 8 processors: sections write payloads of BLOB_MAX. */
	size_t buffer_bytes = RP_SESSION_OVERWRITE_MIN * ((size_t)get_nprocs_conf() / 8 + 1);
	pthread_t threads[IDLE_THREADS];
	struct rp_session *session;
	struct rp_snapshot_info info;
	uint64_t serial = 1;

	if (!rp_rseq_usable)
		cr_skip_test("without restartable sections, an idle thread keeps the lock");
	cr_assert_eq(try_recording(NULL, buffer_bytes, &session), 0);
	unreadable = mmap(NULL, BLOB_MAX, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(unreadable, MAP_FAILED);
	cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
	for (unsigned int i = 0; i < IDLE_THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, leave_and_idle, NULL), 0);
	while (left_writes < IDLE_THREADS)
		sched_yield();
	write_marks(&serial, 20, BLOB_MAX);
	info = snapshot_of(session);
	cr_assert_eq(read_file(&info).events, 20u);
	is_over = true;
	for (unsigned int i = 0; i < IDLE_THREADS; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}
