/* SPDX-License-Identifier: MIT */
/*
 * Events with limits: the events that a session has, plus those that it reports as skipped, equal
 * those offered while it ran.
 */
#include "core_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ringpipe/reader.h>

#define THREADS 4u
#define EACH 10001u

RP_PROVIDER(limited, "Test-Limited");
RP_EVENT_EX(limited, tenth, (RP_ID(1), RP_ONE_IN(10)), RP_U64(serial));
RP_EVENT_EX(limited, few, (RP_ID(2), RP_PER_SECOND(5)));
RP_EVENT_EX(limited, both, (RP_ID(3), RP_ONE_IN(3), RP_PER_SECOND(1000000)), RP_STRING(text));
RP_EVENT_EX(limited, all, (RP_ID(4), RP_ONE_IN(1)), RP_U64(serial));

struct count {
	uint64_t written, skipped, reports;
};

/* The EventsSkipped of one event: provider, event and count. */
static void add_skipped(const struct rp_listener_event *event, const char *name,
			struct count *count)
{
	const char *provider = event->payload, *skipped = provider + strlen(provider) + 1;
	const char *end = skipped + strlen(skipped) + 1;
	uint64_t number;

	cr_assert_str_eq(provider, "Test-Limited");
	cr_assert_eq(event->payload_bytes, (size_t)(end - provider) + sizeof(number));
	if (strcmp(skipped, name) != 0)
		return;
	memcpy(&number, end, sizeof(number));
	count->skipped += number;
	count->reports++;
}

/* Counts all events up to the listener's end. Its stats contain the skipped events of all kinds. */
static struct count count_to_end(struct rp_listener *listener, const char *name,
				 uint64_t *ret_skipped)
{
	struct rp_session_stats stats = empty_stats();
	struct rp_listener_event event;
	struct count count = { 0, 0, 0 };

	cr_assert_eq(rp_listener_drain(listener), 0);
	while (next_event(listener, &event) == 1) {
		if (strcmp(event.name, "EventsSkipped") == 0)
			add_skipped(&event, name, &count);
		else
			count.written += strcmp(event.name, name) == 0;
	}
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.lost, 0);
	*ret_skipped = stats.skipped;
	return count;
}

static void *offer(void *data)
{
	(void)data;
	for (uint64_t i = 0; i < EACH; i++)
		cr_assert_eq(limited_tenth(i), 0);
	return NULL;
}

Test(core_limit, one_in_ten_of_all_threads_and_the_others_counted)
{
	struct rp_listener *listener = listen_to("Test-Limited");
	pthread_t threads[THREADS];
	struct count count;
	uint64_t skipped;

	for (unsigned int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, offer, NULL), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	count = count_to_end(listener, "tenth", &skipped);
	cr_assert_eq(count.written, (THREADS * EACH + 9) / 10);
	cr_assert_eq(count.written + count.skipped, THREADS * EACH);
	cr_assert_eq(skipped, count.skipped);
}

Test(core_limit, each_session_counts_its_own_time)
{
	struct rp_listener *first = listen_to("Test-Limited"), *second;
	struct count in_first, in_second;
	uint64_t skipped;

	for (uint64_t i = 0; i < 995; i++)
		cr_assert_eq(limited_tenth(i), 0);
	second = listen_to("Test-Limited");
	for (uint64_t i = 0; i < 1000; i++)
		cr_assert_eq(limited_tenth(i), 0);
	in_first = count_to_end(first, "tenth", &skipped);
	cr_assert_eq(in_first.written + in_first.skipped, 1995);
	for (uint64_t i = 0; i < 77; i++)
		cr_assert_eq(limited_tenth(i), 0);
	in_second = count_to_end(second, "tenth", &skipped);
	cr_assert_eq(in_second.written + in_second.skipped, 1077);
	cr_assert_eq(skipped, in_second.skipped);
}

/* Other threads continue between a session's end and its last event. */
Test(core_limit, a_session_that_ends_does_not_count_what_others_skip)
{
	struct rp_listener *first = listen_to("Test-Limited"), *second = listen_to("Test-Limited");
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct count in_first = { 0, 0, 0 };

	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(limited_tenth(i), 0);
	cr_assert_eq(rp_listener_drain(first), 0);
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(limited_tenth(i), 0);
	while (next_event(first, &event) == 1) {
		if (strcmp(event.name, "EventsSkipped") == 0)
			add_skipped(&event, "tenth", &in_first);
		else
			in_first.written++;
	}
	cr_assert_eq(in_first.written + in_first.skipped, 100);
	stop_listening(first);
	stop_listening(second);
}

Test(core_limit, a_rate_holds_in_each_second_and_the_others_are_counted)
{
	struct rp_listener *listener = listen_to("Test-Limited");
	struct timespec begin, now;
	uint64_t offered = 0, skipped, seconds;
	struct count count;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (unsigned int i = 0; i < 1000; i++, offered++)
			cr_assert_eq(limited_few(), 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < begin.tv_sec + 2);
	count = count_to_end(listener, "few", &skipped);
	seconds = (uint64_t)(now.tv_sec - begin.tv_sec) + 1;
	cr_assert_gt(count.written, 5, "the second window writes again");
	cr_assert_leq(count.written, 5 * seconds);
	cr_assert_eq(count.written + count.skipped, offered);
	cr_assert_eq(skipped, count.skipped);
}

Test(core_limit, two_limits_and_none)
{
	struct rp_listener *listener = listen_to("Test-Limited");
	struct count count;
	uint64_t skipped;

	for (uint64_t i = 0; i < 30; i++) {
		cr_assert_eq(limited_both("text"), 0);
		cr_assert_eq(limited_all(i), 0);
	}
	count = count_to_end(listener, "both", &skipped);
	cr_assert_eq(count.written, 10);
	cr_assert_eq(count.skipped, 20);
	cr_assert_eq(skipped, 20, "an event that is one in one skips nothing");
}

Test(core_limit, dynamic_events_ask_themselves)
{
	struct rp_event_decl decl = RP_EVENT_DECL_INIT;
	struct rp_listener *listener = listen_to("Test-Limited");
	struct rp_event *event;
	struct count count;
	uint64_t skipped;

	decl.id = 9;
	decl.name = "made";
	decl.level = RP_LEVEL_INFORMATIONAL;
	decl.one_in = 4;
	cr_assert_eq(rp_event_create(limited_provider(), &decl, &event), 0);
	for (unsigned int i = 0; i < 100; i++) {
		if (rp_event_admit(event))
			cr_assert_eq(rp_event_write(event, NULL, 0), 0);
	}
	rp_event_destroy(event);
	count = count_to_end(listener, "made", &skipped);
	cr_assert_eq(count.written, 25);
	cr_assert_eq(count.skipped, 75, "what was skipped outlives the event");
}

static void listen_again(struct rp_listener *listener, const char *list)
{
	struct rp_session_provider *providers;
	size_t count;

	cr_assert_eq(rp_providers_parse(list, &providers, &count, NULL), 0);
	cr_assert_eq(rp_listener_set_providers(listener, providers, count), 0);
	free(providers);
}

Test(core_limit, a_listener_counts_only_while_its_providers_have_the_event)
{
	struct rp_listener *listener = listen_to("Test-Limited");
	struct rp_listener *other = listen_to("Test-Limited");
	struct count count;
	uint64_t skipped;

	for (uint64_t i = 0; i < 45; i++)
		cr_assert_eq(limited_tenth(i), 0);
	listen_again(listener, "Test-Limited,Test-More");
	for (uint64_t i = 0; i < 50; i++)
		cr_assert_eq(limited_tenth(i), 0);
	listen_again(listener, "Test-More");
	for (uint64_t i = 0; i < 1000; i++)
		cr_assert_eq(limited_tenth(i), 0);
	listen_again(listener, "Test-Limited");
	for (uint64_t i = 0; i < 30; i++)
		cr_assert_eq(limited_tenth(i), 0);
	count = count_to_end(listener, "tenth", &skipped);
	cr_assert_eq(count.written + count.skipped, 125);
	cr_assert_eq(skipped, count.skipped);
	stop_listening(other);
}

Test(core_limit, nothing_is_counted_while_no_session_wants_the_event)
{
	struct rp_listener *listener;
	struct count count;
	uint64_t skipped;

	for (uint64_t i = 0; i < 1000; i++)
		cr_assert_eq(limited_tenth(i), 0);
	listener = listen_to("Test-Other");
	for (uint64_t i = 0; i < 1000; i++)
		cr_assert_eq(limited_tenth(i), 0);
	count = count_to_end(listener, "tenth", &skipped);
	cr_assert_eq(count.written + count.skipped + skipped, 0);
	listener = listen_to("Test-Limited");
	for (uint64_t i = 0; i < 5; i++)
		cr_assert_eq(limited_tenth(i), 0);
	count = count_to_end(listener, "tenth", &skipped);
	cr_assert_eq(count.written + count.skipped, 5);
}

/* The number of events that a trace reports as skipped: the last field of each EventsSkipped. */
static uint64_t skipped_in(const char *path)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t count, sum = 0;
	struct rp_reader *reader;

	cr_assert_eq(rp_reader_open(path, &reader), 0);
	while (rp_reader_next(reader, &event) == 1) {
		if (strcmp(event.type->name, "EventsSkipped") != 0)
			continue;
		memcpy(&count, (const char *)event.payload + event.payload_bytes - 8, 8);
		sum += count;
	}
	rp_reader_close(reader);
	cr_assert_eq(unlink(path), 0);
	return sum;
}

Test(core_limit, a_snapshot_reports_what_its_session_reports_as_well)
{
	char directory[] = "/tmp/rp-limit-XXXXXX", snapshot[64], output[64];
	struct rp_session_options options = options_for("Test-Limited");
	struct rp_session_stats stats = empty_stats();
	struct rp_session *session;

	cr_assert_not_null(mkdtemp(directory));
	snprintf(snapshot, sizeof(snapshot), "%s/snapshot", directory);
	snprintf(output, sizeof(output), "%s/output", directory);
	options.flags = RP_SESSION_OVERWRITE;
	options.output_path = output;
	options.buffer_bytes = RP_SESSION_OVERWRITE_MIN;
	cr_assert_eq(rp_session_start(&options, &session), 0);
	free_options(&options);
	for (uint64_t i = 0; i < 1000; i++)
		cr_assert_eq(limited_tenth(i), 0);
	for (uint64_t i = 0; i < 9; i++)
		cr_assert_eq(limited_both("text"), 0);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(rp_session_snapshot(session, snapshot, -1, NULL), 0);
		cr_assert_eq(skipped_in(snapshot), 900 + 6);
		/* A running session has the stats of its last pass. */
		wait_until(rp_session_get_stats(session, &stats) == 0 && stats.skipped >= 900 + 6);
		cr_assert_eq(stats.skipped, 900 + 6);
	}
	cr_assert_eq(rp_session_stop(session, &stats), 0);
	cr_assert_eq(stats.skipped, 900 + 6);
	cr_assert_eq(skipped_in(output), 900 + 6);
	cr_assert_eq(rmdir(directory), 0);
}
