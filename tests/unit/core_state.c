/* SPDX-License-Identifier: MIT */
/* State events: overwriting sessions keep them. */
#include "core_support.h"
#include "trace_path.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringpipe/reader.h>

RP_PROVIDER(shop, "Test-State");
RP_STATE_EVENT(shop, configured, 1, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_U64(thread));
RP_EVENT(shop, sold, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U64(serial), RP_U64(thread), RP_BLOB(bytes));

#define THREADS 4u
#define BLOB_BYTES 4000u

static const uint8_t blob[BLOB_BYTES];

TestSuite(core_state, .init = make_directory, .fini = remove_directory, .timeout = 120);

static int try_recording(const char *output, uint32_t flags, struct rp_session **ret_session)
{
	struct rp_session_options options = options_for("Test-State");
	int ret;

	options.flags = RP_SESSION_OVERWRITE | flags;
	options.output_path = output;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	ret = rp_session_start(&options, ret_session);
	free_options(&options);
	return ret;
}

static struct rp_session *record(const char *output)
{
	struct rp_session *session;

	cr_assert_eq(try_recording(output, 0, &session), 0);
	return session;
}

/* Contents of a file. */
struct content {
	uint64_t states[THREADS];	/* of each thread: serials from 0 on, without a gap */
	uint64_t first;			/* of all threads: events before any other event */
	uint64_t others;
	uint64_t lost;			/* as reported by EventsLost events */
	uint32_t frames;		/* of the last state event */
	bool process_info;
};

static void take_event(struct content *content, const struct rp_reader_event *event)
{
	const char *payload = event->payload;
	uint64_t numbers[2];

	if (strcmp(event->type->name, "ProcessInfo") == 0)
		content->process_info = event->payload_bytes > 0;
	if (strcmp(event->type->name, "EventsLost") == 0) {
		memcpy(numbers, payload + event->payload_bytes - 8, 8);
		content->lost += numbers[0];
	}
	if (strcmp(event->type->provider, "Test-State") != 0)
		return;
	memcpy(numbers, payload, sizeof(numbers));
	if (event->type->id == 2) {
		content->others++;
		return;
	}
	cr_assert_lt(numbers[1], THREADS);
	cr_assert_eq(numbers[0], content->states[numbers[1]]++);
	content->first += content->others == 0;
	content->frames = event->frame_count;
}

static struct content read_file(void)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct content content = { 0 };
	struct rp_reader *reader;
	int ret;

	cr_assert_eq(rp_reader_open(path, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1)
		take_event(&content, &event);
	cr_assert_eq(ret, 0, "%s", rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	cr_assert_eq(stats.ended, 1u);
	cr_assert_eq(stats.unordered, 0u);
	cr_assert_eq(stats.lost, content.lost);
	cr_assert(content.process_info);
	rp_reader_close(reader);
	return content;
}

static struct content snapshot_of(struct rp_session *session)
{
	struct rp_snapshot_info info = RP_SNAPSHOT_INFO_INIT;
	struct content content;

	cr_assert_eq(rp_session_snapshot(session, path, -1, &info), 0);
	content = read_file();
	cr_assert_eq(info.lost, content.lost);
	return content;
}

/* Fills several rings, whatever the number of processors. */
static void wrap(unsigned int times)
{
	for (uint64_t i = 0; i < times * (RP_SESSION_OVERWRITE_MIN / 4 / BLOB_BYTES); i++)
		cr_assert_eq(shop_sold(i, 0, blob, sizeof(blob)), 0);
}

Test(core_state, state_written_first_is_in_each_snapshot_after_a_hundred_wraps)
{
	struct rp_session *session = record(NULL);
	struct content content;

	for (uint64_t i = 0; i < 10; i++)
		cr_assert_eq(shop_configured(i, 0), 0);
	for (unsigned int i = 0; i < 4; i++) {
		wrap(25);
		content = snapshot_of(session);
		cr_assert_eq(content.states[0], 10u);
		cr_assert_eq(content.first, 10u);
		cr_assert_gt(content.others, 100u);
		cr_assert_eq(content.lost, 0u);
	}
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_state, later_state_has_its_place_in_the_order_of_time)
{
	struct rp_session *session = record(NULL);
	struct content content;

	cr_assert_eq(shop_configured(0, 0), 0);
	cr_assert_eq(shop_sold(0, 0, blob, 1), 0);
	cr_assert_eq(shop_configured(1, 0), 0);
	content = snapshot_of(session);
	cr_assert_eq(content.states[0], 2u);
	cr_assert_eq(content.first, 1u);
	cr_assert_eq(content.others, 1u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_state, dynamic_state_event_is_not_overwritten_either)
{
	static const struct rp_field fields[] = {
		{ "serial", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
		{ "thread", NULL, 0, RP_TYPE_U64, 0, 0, NULL },
	};
	const struct rp_event_decl decl = {
		.size = sizeof(decl), .id = 7, .level = RP_LEVEL_INFORMATIONAL, .name = "made",
		.fields = fields, .field_count = 2, .flags = RP_EVENT_STATE,
	};
	struct rp_session *session = record(NULL);
	uint64_t payload[2] = { 0, 1 };
	struct rp_part part = { payload, sizeof(payload) };
	struct rp_provider *provider;
	struct rp_event *event;

	cr_assert_eq(rp_provider_create("Test-State", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_event_create(provider, &decl, &event), 0);
	cr_assert_eq(rp_event_write(event, &part, 1), 0);
	rp_event_destroy(event);
	cr_assert_eq(rp_provider_destroy(provider), 0);
	wrap(3);
	cr_assert_eq(snapshot_of(session).states[1], 1u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_state, state_events_without_space_are_counted_and_the_first_stay)
{
	struct rp_session *session = record(NULL);
	struct rp_session_stats stats = empty_stats();
	uint64_t written = 0, lost = 0;
	struct content content;

	while (lost < 1000) {
		if (shop_configured(written, 0) == 0)
			written++;
		else
			lost++;
	}
	cr_assert_gt(written, 500u);
	content = snapshot_of(session);
	cr_assert_eq(content.states[0], written);
	cr_assert_eq(content.lost, lost);
	cr_assert_eq(shop_sold(0, 0, blob, 8), 0, "others have room");
	cr_assert_eq(snapshot_of(session).others, 1u);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.lost, lost);
	cr_assert_eq(stats.lost_by[RP_LOSS_FULL] + stats.lost_by[RP_LOSS_FULL_FALLBACK], lost);
}

Test(core_state, output_of_the_session_has_them_too)
{
	struct rp_session *session = record(path);
	struct rp_session_stats stats = empty_stats();
	struct content content;

	cr_assert_eq(shop_configured(0, 0), 0);
	wrap(3);
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	content = read_file();
	cr_assert_eq(content.states[0], 1u);
	cr_assert_eq(content.first, 1u);
	cr_assert_eq(stats.delivered, content.others + 1);
}

Test(core_state, stack_stays_with_the_event)
{
	struct rp_session *session;

	cr_assert_eq(try_recording(NULL, RP_SESSION_STACKS | RP_SESSION_NO_RUNDOWN, &session), 0);
	cr_assert_eq(shop_configured(0, 0), 0);
	wrap(1);
	cr_assert_gt(snapshot_of(session).frames, 0u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_state, session_that_does_not_overwrite_takes_it_as_any_event)
{
	struct rp_listener *listener = listen_to("Test-State");
	uint64_t expected[2] = { 5, 1 };

	cr_assert_eq(shop_configured(5, 1), 0);
	expect_payload(listener, expected, sizeof(expected));
	expect_end(listener);
}

Test(core_state, memory_stays_below_what_was_asked_for)
{
	struct rp_session *session = record(NULL);
	struct rp_session_stats stats = empty_stats();

	cr_assert_eq(shop_configured(0, 0), 0);
	wait_until(rp_session_get_stats(session, &stats) == 0 && stats.memory_bytes > 0);
	cr_assert_leq(stats.memory_bytes, RP_SESSION_OVERWRITE_MIN);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

Test(core_state, session_that_overwrites_counts_as_two)
{
	struct rp_session *sessions[RP_SESSIONS_MAX / 2], *more;

	for (unsigned int i = 0; i < RP_SESSIONS_MAX / 2; i++)
		sessions[i] = record(NULL);
	cr_assert_eq(try_recording(NULL, 0, &more), -ENOSPC);
	cr_assert_eq(shop_configured(0, 0), 0);
	for (unsigned int i = 0; i < RP_SESSIONS_MAX / 2; i++) {
		cr_assert_eq(snapshot_of(sessions[i]).states[0], 1u);
		cr_assert_eq(rp_session_stop(sessions[i], NULL), 0);
	}
}

Test(core_state, forked_child_has_nothing_of_it)
{
	struct rp_session *session = record(NULL);
	int status;
	pid_t child;

	cr_assert_eq(shop_configured(0, 0), 0);
	child = fork();
	if (child == 0) {
		(void)shop_configured(1, 0);
		_exit(shop_configured_enabled() || rp_session_stop(session, NULL) != 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert_eq(snapshot_of(session).states[0], 1u);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}

struct writer {
	pthread_t thread;
	uint64_t number;
	uint64_t written;	/* state events, read by other threads */
	bool stop;
};

static void *write_both(void *data)
{
	struct writer *writer = data;

	for (uint64_t i = 0; !__atomic_load_n(&writer->stop, __ATOMIC_RELAXED); i++) {
		/* The ring is full while the drain thread does not run. */
		if (i % 64 == 0 && writer->written < 1000 &&
		    shop_configured(writer->written, writer->number) == 0)
			__atomic_store_n(&writer->written, writer->written + 1, __ATOMIC_RELEASE);
		(void)shop_sold(i, writer->number, blob, i % BLOB_BYTES);
	}
	return NULL;
}

Test(core_state, snapshot_under_load_has_what_was_written_before_it)
{
	struct rp_session *session = record(NULL);
	struct writer writers[THREADS] = { 0 };

	for (uint64_t i = 0; i < THREADS; i++) {
		writers[i].number = i;
		cr_assert_eq(pthread_create(&writers[i].thread, NULL, write_both, &writers[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		wait_until(__atomic_load_n(&writers[i].written, __ATOMIC_ACQUIRE) > 0);
	for (unsigned int round = 0; round < 10; round++) {
		uint64_t before[THREADS];
		struct content content;

		for (unsigned int i = 0; i < THREADS; i++)
			before[i] = __atomic_load_n(&writers[i].written, __ATOMIC_ACQUIRE);
		content = snapshot_of(session);
		for (unsigned int i = 0; i < THREADS; i++)
			cr_assert_geq(content.states[i], before[i]);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		__atomic_store_n(&writers[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(writers[i].thread, NULL);
	}
	cr_assert_eq(rp_session_stop(session, NULL), 0);
}
