/* SPDX-License-Identifier: MIT */
/* A reader that returns the events of a range of time. */
#include <errno.h>

#include "nettrace_trace.h"

#define EVENTS 100u

static const struct rp_field fields[] = { { .name = "serial", .type = RP_TYPE_U64 } };

/* A trace with an event at each microsecond from 0 on, and a sequence point after every ten. */
static uint8_t *make_trace(size_t *ret_size)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "tick", 1, fields, 1);

	for (uint64_t i = 0; i < EVENTS; i++) {
		const uint64_t ns = TRACE_START_NS + i * 1000;

		trace_event(encoder, type, ns, 7, &i, sizeof(i));
		if (i % 10 == 9)
			cr_assert_eq(rp_encoder_sequence_point(encoder, ns, 0), 0);
	}
	return trace_end(encoder, ret_size);
}

/* Read the events, which must be those from `first` on and before `end`. */
static void expect_events(struct rp_reader *reader, uint64_t first, uint64_t end)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	uint64_t serial, before;

	cr_assert_eq(rp_reader_get_stats(reader, &stats), 0);
	before = stats.events;
	for (uint64_t i = first; i < end; i++) {
		cr_assert_eq(rp_reader_next(reader, &event), 1);
		memcpy(&serial, event.payload, sizeof(serial));
		cr_assert_eq(serial, i);
		cr_assert_eq(event.time_ns, (int64_t)i * 1000);
	}
	cr_assert_eq(rp_reader_next(reader, &event), 0, "%s", rp_reader_error(reader));
	cr_assert_eq(rp_reader_get_stats(reader, &stats), 0);
	cr_expect_eq(stats.events, before + end - first);
	cr_expect_eq(stats.lost, 0);
	cr_expect_eq(stats.ended, 1);
	rp_reader_close(reader);
}

Test(range, a_reader_returns_the_events_from_the_first_time_on_and_before_the_second)
{
	static const struct {
		int64_t from_ns, to_ns;
		uint64_t first, end;
	} rows[] = {
		{ INT64_MIN, INT64_MAX, 0, EVENTS }, { 0, 1, 0, 1 }, { 1, 1000, 0, 0 },
		{ 9000, 12001, 9, 13 }, { 9001, 12000, 10, 12 }, { INT64_MIN, 50000, 0, 50 },
		{ 50000, INT64_MAX, 50, EVENTS }, { EVENTS * 1000, INT64_MAX, 0, 0 },
		{ INT64_MIN, 0, 0, 0 },
	};
	size_t size;
	uint8_t *bytes = make_trace(&size);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rp_reader_range range = RP_READER_RANGE_INIT;
		struct rp_reader *reader = trace_open(bytes, size);

		range.from_ns = rows[i].from_ns;
		range.to_ns = rows[i].to_ns;
		cr_assert_eq(rp_reader_set_range(reader, &range), 0);
		expect_events(reader, rows[i].first, rows[i].end);
	}
	free(bytes);
}

Test(range, a_later_range_replaces_an_earlier_one)
{
	struct rp_reader_range range = RP_READER_RANGE_INIT;
	size_t size;
	uint8_t *bytes = make_trace(&size);
	struct rp_reader *reader = trace_open(bytes, size);

	range.to_ns = 1;
	cr_assert_eq(rp_reader_set_range(reader, &range), 0);
	range.to_ns = 3001;
	cr_assert_eq(rp_reader_set_range(reader, &range), 0);
	expect_events(reader, 0, 4);
	free(bytes);
}

Test(range, an_empty_range_and_one_after_the_first_event_are_refused)
{
	struct rp_reader_range range = RP_READER_RANGE_INIT, bad;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	size_t size;
	uint8_t *bytes = make_trace(&size);
	struct rp_reader *reader = trace_open(bytes, size);

	cr_expect_eq(rp_reader_set_range(NULL, &range), -EINVAL);
	cr_expect_eq(rp_reader_set_range(reader, NULL), -EINVAL);
	bad = range;
	bad.from_ns = bad.to_ns = 5;
	cr_expect_eq(rp_reader_set_range(reader, &bad), -EINVAL);
	bad = range;
	bad.reserved = 1;
	cr_expect_eq(rp_reader_set_range(reader, &bad), -EINVAL);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_expect_eq(rp_reader_set_range(reader, &range), -EINVAL);
	expect_events(reader, 1, EVENTS);
	free(bytes);
}
