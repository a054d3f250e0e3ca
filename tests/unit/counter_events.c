/* SPDX-License-Identifier: MIT */
/* EventCounters in a session: their contents, their times, and the sessions that get them. */
#include "core_support.h"
#include "hanging_callback.h"

#include <stdio.h>

RP_PROVIDER(reported, "Test-Reported");
RP_COUNTER(reported, sum, "things", "The sum");
RP_UPDOWN_COUNTER(reported, level, NULL, NULL);
RP_GAUGE(reported, heat, NULL, NULL);
RP_HISTOGRAM(reported, spread, "ms", NULL);

/* A parsed EventCounters event. */
struct reported {
	char name[32], display_name[32], scale[32], series[32], type[8], metadata[32], unit[16];
	double mean, deviation, min, max, increment;
	int32_t count;
	float interval_s;
	uint32_t id;
};

static const char *take_text(const char *at, char *text, size_t size)
{
	cr_assert_lt(strlen(at), size);
	strcpy(text, at);
	return at + strlen(at) + 1;
}

static const char *take_bytes(const char *at, void *to, size_t size)
{
	memcpy(to, at, size);
	return at + size;
}

static void take_apart(const struct rp_listener_event *event, struct reported *reported)
{
	const struct rp_field *payload = event->fields[0].members;
	const char *at = event->payload;

	cr_assert_str_eq(event->name, "EventCounters");
	cr_assert_eq(event->level, 0);
	cr_assert_eq(event->keywords, 0u);
	cr_assert_eq(event->field_count, 1);
	cr_assert_str_eq(event->fields[0].name, "");
	cr_assert_str_eq(payload->name, "Payload");
	memset(reported, 0, sizeof(*reported));
	reported->id = event->id;
	at = take_text(at, reported->name, sizeof(reported->name));
	at = take_text(at, reported->display_name, sizeof(reported->display_name));
	if (strcmp(payload->members[2].name, "Mean") == 0) {
		at = take_bytes(at, &reported->mean, 8);
		at = take_bytes(at, &reported->deviation, 8);
		at = take_bytes(at, &reported->count, 4);
		at = take_bytes(at, &reported->min, 8);
		at = take_bytes(at, &reported->max, 8);
		at = take_bytes(at, &reported->interval_s, 4);
		at = take_text(at, reported->series, sizeof(reported->series));
		at = take_text(at, reported->type, sizeof(reported->type));
		at = take_text(at, reported->metadata, sizeof(reported->metadata));
	} else {
		at = take_text(at, reported->scale, sizeof(reported->scale));
		at = take_bytes(at, &reported->increment, 8);
		at = take_bytes(at, &reported->interval_s, 4);
		at = take_text(at, reported->metadata, sizeof(reported->metadata));
		at = take_text(at, reported->series, sizeof(reported->series));
		at = take_text(at, reported->type, sizeof(reported->type));
	}
	at = take_text(at, reported->unit, sizeof(reported->unit));
	cr_assert_eq(at, (const char *)event->payload + event->payload_bytes);
}

/* Waits for the next report of a counter, for one series. */
static struct reported next_of(struct rp_listener *listener, const char *name, const char *series)
{
	time_t limit = time(NULL) + PATIENCE_S;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct reported reported;

	while (time(NULL) <= limit) {
		if (rp_listener_next(listener, &event, 100) != 1 ||
		    strcmp(event.provider, "Test-Reported") != 0)
			continue;
		take_apart(&event, &reported);
		if (strcmp(reported.name, name) == 0 && strcmp(reported.series, series) == 0)
			return reported;
	}
	cr_assert_fail("%s of %s was never told", name, series);
	return reported;
}

#define EVERY_20_MS "Test-Reported:0:4:EventCounterIntervalSec=0.02"

Test(counter_events, sums_are_reported_by_increments)
{
	struct rp_listener *listener;
	struct reported reported;
	double sum = 0;

	reported_sum_add(1000);	/* before the session, so not reported in it */
	listener = listen_to(EVERY_20_MS);
	reported = next_of(listener, "sum", "Interval=20");
	cr_expect_float_eq(reported.increment, 0, 0);
	reported_sum_add(5);
	rp_counter_add_tagged(reported_sum_counter(), 6, &(struct rp_counter_tag){ "a", "b" }, 1);
	while (sum < 11) {
		reported = next_of(listener, "sum", "Interval=20");
		sum += reported.increment;
	}
	cr_expect_float_eq(sum, 11, 0);
	cr_expect_str_eq(reported.display_name, "The sum");
	cr_expect_str_eq(reported.unit, "things");
	cr_expect_str_eq(reported.type, "Sum");
	cr_expect_str_eq(reported.scale, "");
	cr_expect_str_eq(reported.metadata, "");
	cr_expect_gt(reported.interval_s, 0);
	stop_listening(listener);
}

Test(counter_events, levels_and_gauges_are_reported_as_they_are)
{
	struct rp_listener *listener;
	struct reported reported;

	reported_level_add(7);
	reported_level_add(-9);
	reported_heat_set(36.5);
	listener = listen_to(EVERY_20_MS);
	reported = next_of(listener, "level", "Interval=20");
	cr_expect_float_eq(reported.mean, -2, 0);
	cr_expect_float_eq(reported.max, -2, 0);
	cr_expect_eq(reported.count, 1);
	cr_expect_str_eq(reported.type, "Mean");
	reported = next_of(listener, "heat", "Interval=20");
	cr_expect_float_eq(reported.mean, 36.5, 0);
	cr_expect_float_eq(reported.min, 36.5, 0);
	cr_expect_float_eq(reported.deviation, 0, 0);
	stop_listening(listener);
}

Test(counter_events, counter_without_a_display_name_sends_its_name)
{
	struct rp_listener *listener;
	struct reported reported;

	reported_heat_set(36.5);
	listener = listen_to(EVERY_20_MS);
	reported = next_of(listener, "level", "Interval=20");
	cr_expect_str_eq(reported.display_name, "level");
	reported = next_of(listener, "heat", "Interval=20");
	cr_expect_str_eq(reported.display_name, "heat");
	stop_listening(listener);
}

Test(counter_events, histograms_are_reported_by_their_interval)
{
	struct rp_listener *listener = listen_to(EVERY_20_MS);
	int32_t count = 0;

	(void)next_of(listener, "spread", "Interval=20");
	for (int i = 1; i <= 4; i++)
		reported_spread_record(i);
	while (count < 4) {
		struct reported reported = next_of(listener, "spread", "Interval=20");

		count += reported.count;
		if (reported.count == 4) {
			cr_expect_float_eq(reported.mean, 2.5, 0);
			cr_expect_float_eq(reported.min, 1, 0);
			cr_expect_float_eq(reported.max, 4, 0);
			cr_expect_float_eq(reported.deviation, 1.118, 0.05);
		}
	}
	cr_expect_eq(count, 4);
	cr_expect_eq(next_of(listener, "spread", "Interval=20").count, 0);
	stop_listening(listener);
}

Test(counter_events, each_interval_is_a_series_of_its_own)
{
	struct rp_listener *fast = listen_to(EVERY_20_MS);
	struct rp_listener *slow = listen_to("*:0:4:EventCounterIntervalSec=0.05");
	double sum = 0;

	(void)next_of(slow, "sum", "Interval=50");
	(void)next_of(fast, "sum", "Interval=20");
	reported_sum_add(3);
	while (sum < 3)
		sum += next_of(fast, "sum", "Interval=20").increment;
	cr_expect_float_eq(sum, 3, 0);
	for (sum = 0; sum < 3;)
		sum += next_of(slow, "sum", "Interval=50").increment;
	cr_expect_float_eq(sum, 3, 0);
	stop_listening(slow);
	(void)next_of(fast, "sum", "Interval=20");
	stop_listening(fast);
}

static int refuse(struct rp_observation *observation, void *data)
{
	__atomic_fetch_add((int *)data, 1, __ATOMIC_SEQ_CST);
	(void)observation;
	return -EIO;
}

static struct rp_counter *ask(struct rp_provider *provider, int *asked)
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "asked", .observe = refuse,
					.data = asked, .kind = RP_COUNTER_OBSERVED_GAUGE };
	struct rp_counter *counter;

	cr_assert_eq(rp_counter_create(provider, &decl, &counter), 0);
	return counter;
}

/* Not even the callbacks run, while those of another provider do. */
Test(counter_events, wrong_intervals_report_nothing)
{
	static const char *const wrong[] = { "0", "-1", "x", "", "nan", "1,5", "1x" };
	enum { COUNT = sizeof(wrong) / sizeof(wrong[0]) };
	struct rp_listener *listeners[COUNT + 1];
	struct rp_counter *counter, *other_counter;
	struct rp_provider *other;
	int asked = 0, other_asked = 0;
	char list[100];

	cr_assert_eq(rp_provider_create("Test-Other", NULL, NULL, &other), 0);
	counter = ask(reported_provider(), &asked);
	other_counter = ask(other, &other_asked);
	for (size_t i = 0; i < COUNT; i++) {
		snprintf(list, sizeof(list), "Test-Reported:0:4:\"EventCounterIntervalSec=%s\"",
			 wrong[i]);
		listeners[i] = listen_to(list);
	}
	listeners[COUNT] = listen_to("Test-Other:0:4:EventCounterIntervalSec=0.01");
	wait_until(__atomic_load_n(&other_asked, __ATOMIC_SEQ_CST) >= 5);
	cr_expect_eq(__atomic_load_n(&asked, __ATOMIC_SEQ_CST), 0);
	for (size_t i = 0; i <= COUNT; i++)
		stop_listening(listeners[i]);
	cr_assert_eq(rp_counter_destroy(counter), 0);
	cr_assert_eq(rp_counter_destroy(other_counter), 0);
	cr_assert_eq(rp_provider_destroy(other), 0);
}

Test(counter_events, observed_counter_that_fails_is_left_out_and_asked_again)
{
	struct rp_listener *listener;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_counter *counter;
	int asked = 0;

	counter = ask(reported_provider(), &asked);
	listener = listen_to(EVERY_20_MS);
	wait_until(__atomic_load_n(&asked, __ATOMIC_SEQ_CST) >= 3);
	cr_assert_eq(rp_counter_destroy(counter), 0);
	cr_assert_eq(rp_listener_drain(listener), 0);
	while (rp_listener_next(listener, &event, 0) == 1) {
		struct reported reported;

		take_apart(&event, &reported);
		cr_expect_str_neq(reported.name, "asked");
	}
	stop_listening(listener);
}

/* Meanwhile sessions start and stop; counters are created, updated, read and destroyed. */
Test(counter_events, callback_that_hangs_delays_only_what_is_reported)
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "hangs", .observe = hang,
					.kind = RP_COUNTER_OBSERVED_GAUGE };
	struct rp_counter_reading reading = RP_COUNTER_READING_INIT;
	struct rp_listener *listener, *second;
	struct rp_counter *hanging, *other;
	struct hold hold = { 0, 0 };

	decl.data = &hold;
	cr_assert_eq(rp_counter_create(reported_provider(), &decl, &hanging), 0);
	listener = listen_to(EVERY_20_MS);
	wait_until(__atomic_load_n(&hold.inside, __ATOMIC_SEQ_CST));
	second = listen_to("Test-Reported:0:4:EventCounterIntervalSec=0.03");
	reported_sum_add(1);
	cr_expect_eq(rp_counter_read(reported_sum_counter(), &reading), 0);
	decl = (struct rp_counter_decl){ .size = sizeof(decl), .name = "other",
					 .kind = RP_COUNTER_SUM };
	cr_expect_eq(rp_counter_create(reported_provider(), &decl, &other), 0);
	cr_expect_eq(rp_counter_destroy(other), 0);
	__atomic_store_n(&hold.go, 1, __ATOMIC_SEQ_CST);
	cr_expect_float_eq(next_of(second, "hangs", "Interval=30").mean, 1, 0);
	stop_listening(second);
	stop_listening(listener);
	cr_expect_eq(rp_counter_destroy(hanging), 0);
}

/* The provider gets its first counters after the session's start. */
Test(counter_events, counters_created_during_a_session_are_reported)
{
	struct rp_counter_decl decl = { .size = sizeof(decl), .name = "late", .unit = "u",
					.metadata = "k:v,k2:v2", .rate_seconds = 90061,
					.kind = RP_COUNTER_SUM };
	struct rp_listener *listener = listen_to("Test-Reported,Test-Late:0:4:"
						 "EventCounterIntervalSec=0.02");
	struct rp_provider *provider;
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;
	struct rp_counter *counter;
	struct reported reported;

	cr_assert_eq(rp_provider_create("Test-Late", NULL, NULL, &provider), 0);
	cr_assert_eq(rp_counter_create(provider, &decl, &counter), 0);
	rp_counter_add(counter, 4);
	cr_assert_eq(rp_listener_next(listener, &event, PATIENCE_MS), 1);
	take_apart(&event, &reported);
	cr_expect_str_eq(event.provider, "Test-Late");
	cr_expect_str_eq(reported.name, "late");
	cr_expect_str_eq(reported.scale, "1.01:01:01");
	cr_expect_str_eq(reported.metadata, "k:v,k2:v2");
	cr_expect_eq(rp_counter_destroy(counter), 0);
	stop_listening(listener);
	cr_assert_eq(rp_provider_destroy(provider), 0);
}
