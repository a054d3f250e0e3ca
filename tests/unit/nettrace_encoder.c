/* SPDX-License-Identifier: MIT */
#include "nettrace_trace.h"

#include <inttypes.h>
#include <time.h>

#include "nettrace/objects.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

Test(encoder, describes_what_a_definition_says)
{
	static const struct rp_field fields[] = {
		{ .name = "\xf0\x9f\x98\x80", .type = RP_TYPE_BOOL },
		{ .name = "a", .type = RP_TYPE_ARRAY, .element = RP_TYPE_CHAR },
	};
	const struct rp_definition definition = {
		.provider = "Caf\xc3\xa9", .name = "Tea\xff", .id = 70000, .version = 3, .level = 5,
		.opcode = 240, .keywords = 0x8000000000000001,
		.fields = fields, .field_count = COUNT(fields),
	};
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;

	cr_assert_eq(rp_encoder_define(encoder, &definition, &type), 0);
	trace_event(encoder, type, TRACE_START_NS + 5, 1, "", 0);
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_expect_str_eq(event.type->provider, "Caf\xc3\xa9");
	cr_expect_str_eq(event.type->name, "Tea\xef\xbf\xbd");
	cr_expect_eq(event.type->id, 70000);
	cr_expect_eq(event.type->version, 3);
	cr_expect_eq(event.type->level, 5);
	cr_expect_eq(event.type->opcode, 240);
	cr_expect_eq(event.type->keywords, 0x8000000000000001);
	cr_expect_eq(event.type->field_count, COUNT(fields));
	cr_expect_str_eq(event.type->fields[0].name, "\xf0\x9f\x98\x80");
	cr_expect_eq(event.type->fields[0].type, RP_TYPE_BOOL);
	cr_expect_eq(event.type->fields[0].wire_bytes, 4);
	/* Version 6 declares text in this way. */
	if (trace_version() == 6) {
		cr_expect_eq(event.type->fields[1].type, RP_TYPE_STRING16);
		cr_expect_eq(event.type->fields[1].encoding, RP_READER_COUNTED);
	} else {
		cr_expect_eq(event.type->fields[1].type, RP_TYPE_ARRAY);
		cr_expect_eq(event.type->fields[1].element, RP_TYPE_CHAR);
		cr_expect_eq(event.type->fields[1].wire_bytes, 2);
	}
	cr_expect_eq(event.time_ns, 5);
	rp_reader_close(reader);
	free(bytes);
}

/* TraceEvent shows jobStart as job/Start, and job_start as job_/Start. */
Test(encoder, names_start_and_stop_events_as_dotnet_does)
{
	static const struct {
		const char *name, *expected;
		uint8_t opcode;
	} rows[] = {
		{ "job_start", "jobStart", RP_OPCODE_START },
		{ "job_stop", "jobStop", RP_OPCODE_STOP },
		{ "JOB_STOP", "JOBStop", RP_OPCODE_STOP },
		{ "job_start", "jobStart", RP_OPCODE_INFO },
		{ "job_stop", "jobStop", RP_OPCODE_INFO },
		{ "job_start", "job_start", RP_OPCODE_STOP },
		{ "job_start", "job_start", 11 },
		{ "jobStart", "jobStart", RP_OPCODE_START },
		{ "restart", "restart", RP_OPCODE_INFO },
		{ "_start", "_start", RP_OPCODE_START },
		{ "job", "job", RP_OPCODE_STOP },
	};
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;

	for (uint32_t i = 0; i < COUNT(rows); i++) {
		const struct rp_definition definition = {
			.provider = "Jobs", .name = rows[i].name, .id = i, .level = 4,
			.opcode = rows[i].opcode,
		};

		cr_assert_eq(rp_encoder_define(encoder, &definition, &type), 0);
		trace_event(encoder, type, TRACE_START_NS + i, 1, "", 0);
	}
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	for (size_t i = 0; i < COUNT(rows); i++) {
		cr_assert_eq(rp_reader_next(reader, &event), 1);
		cr_expect_str_eq(event.type->name, rows[i].expected);
		cr_expect_eq(event.type->opcode, rows[i].opcode);
	}
	cr_expect_eq(rp_reader_next(reader, &event), 0);
	rp_reader_close(reader);
	free(bytes);
}

Test(encoder, defines_between_events_and_only_what_is_used)
{
	static const struct rp_field field = { .name = "n", .type = RP_TYPE_U8 };
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *types[3];
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;

	types[0] = trace_define(encoder, "Zero", 1, &field, 1);
	trace_event(encoder, types[0], TRACE_START_NS, 1, "\1", 1);
	types[1] = trace_define(encoder, "One", 2, &field, 1);
	trace_define(encoder, "Unheard", 3, &field, 1);
	types[2] = trace_define(encoder, "Two", 4, &field, 1);
	trace_event(encoder, types[2], TRACE_START_NS, 1, "\2", 1);
	cr_assert_eq(rp_encoder_flush(encoder), 0);
	trace_event(encoder, types[1], TRACE_START_NS, 1, "\3", 1);
	trace_event(encoder, types[0], TRACE_START_NS, 1, "\4", 1);
	bytes = trace_end(encoder, &size);
	cr_expect_null(memmem(bytes, size, "U\0n\0h\0e\0a\0r\0d", 13));
	reader = trace_open(bytes, size);
	for (size_t i = 0; i < 4; i++) {
		static const char *const names[] = { "Zero", "Two", "One", "Zero" };

		cr_assert_eq(rp_reader_next(reader, &event), 1);
		cr_expect_str_eq(event.type->name, names[i]);
		cr_expect_eq(*(const uint8_t *)event.payload, i + 1);
	}
	cr_expect_eq(rp_reader_next(reader, &event), 0);
	rp_reader_close(reader);
	free(bytes);
}

Test(encoder, states_any_time_of_day_at_the_start)
{
	static const struct {
		int64_t utc_ns;
		uint16_t reported[8];
	} rows[] = {
		{ INT64_MIN, { 1677, 9, 2, 21, 0, 12, 43, 145 } },
		{ INT64_MAX, { 2262, 4, 5, 11, 23, 47, 16, 854 } },
		{ -1, { 1969, 12, 3, 31, 23, 59, 59, 999 } },
		{ 0, { 1970, 1, 4, 1, 0, 0, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct rp_encoder_info info = { .start_utc_ns = rows[i].utc_ns };
		struct rp_encoder *encoder;
		uint8_t *bytes, *at;
		size_t size;

		cr_assert_eq(rp_encoder_create(&info, &encoder), 0);
		bytes = trace_end(encoder, &size);
		at = memmem(bytes, size, "Trace\6", 6);
		cr_assert(at);
		cr_expect_arr_eq(at + 6, rows[i].reported, sizeof(rows[i].reported));
		free(bytes);
	}
}

Test(encoder, numbers_the_events_of_each_thread)
{
	static const struct rp_field field = { .name = "n", .type = RP_TYPE_U32 };
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "N", 1, &field, 1);
	uint32_t last[50] = { 0 }, events = 60000;
	bool is_v6 = trace_version() == 6;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;

	for (uint32_t i = 0; i < events; i++) {
		trace_event(encoder, type, TRACE_START_NS + i, i * 7919 % 50, &i, 4);
		if (i % 20000 == 9999)
			cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + i, 0), 0);
	}
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	for (uint32_t i = 0; i < events; i++) {
		cr_assert_eq(rp_reader_next(reader, &event), 1);
		cr_assert_eq(event.thread, i * 7919 % 50);
		/* One capture index numbers all events of a stream in version 6. */
		cr_assert_eq(event.capture_thread, is_v6 ? 0 : event.thread);
		cr_assert_eq(event.processor, event.thread % 3);
		cr_assert_eq(event.sequence, ++last[is_v6 ? 0 : event.thread]);
		cr_assert_eq(event.time_ns, i);
		cr_assert_eq(memcmp(event.payload, &i, 4), 0);
	}
	cr_expect_eq(rp_reader_next(reader, &event), 0);
	cr_expect_eq(trace_stats(reader).lost, 0);
	cr_expect_eq(trace_stats(reader).threads, 50);
	cr_expect_eq(trace_stats(reader).sequence_points, 3);
	cr_expect_eq(trace_stats(reader).unordered, 0);
	rp_reader_close(reader);
	free(bytes);
}

Test(encoder, reports_activities_of_their_events_only)
{
	static const struct rp_guid one = { { 1, 2, 3, 4, 5, 6, 7, 8, 9 } }, two = { { 0xff, 1 } };
	static const struct rp_guid none;
	static const struct rp_guid *const rows[][2] = {
		{ NULL, NULL }, { &one, &two }, { &one, NULL }, { NULL, &one }, { &two, &one },
		{ NULL, NULL },
	};
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "A", 1, NULL, 0);
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct rp_encoder_event in = {
			.type = type, .time_ns = TRACE_START_NS, .thread = 1,
			.activity = rows[i][0], .related_activity = rows[i][1],
		};

		cr_assert_eq(rp_encoder_event(encoder, &in), 0);
	}
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	for (size_t i = 0; i < COUNT(rows); i++) {
		cr_assert_eq(rp_reader_next(reader, &event), 1);
		cr_expect_arr_eq(event.activity.bytes,
				 (rows[i][0] ? rows[i][0] : &none)->bytes, 16);
		cr_expect_arr_eq(event.related_activity.bytes,
				 (rows[i][1] ? rows[i][1] : &none)->bytes, 16);
	}
	rp_reader_close(reader);
	free(bytes);
}

static void stack_event(struct rp_encoder *encoder, const struct rp_encoder_event_type *type,
			uint64_t first_frame, uint32_t frame_count)
{
	uint64_t frames[RP_STACK_MAX + 20];
	const struct rp_encoder_event event = {
		.type = type, .time_ns = TRACE_START_NS, .thread = 1,
		.frames = frames, .frame_count = frame_count,
	};

	for (uint32_t i = 0; i < frame_count; i++)
		frames[i] = first_frame + i;
	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
}

Test(encoder, keeps_stacks_apart_across_blocks_and_sequence_points)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "S", 1, NULL, 0);
	uint32_t events = 9000;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;

	for (uint32_t i = 0; i < events; i++) {
		stack_event(encoder, type, i * 1000ull, i % (RP_STACK_MAX + 20));
		if (i % 4000 == 3999)
			cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
		if (i % 1000 == 77)
			cr_assert_eq(rp_encoder_flush(encoder), 0);
	}
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	for (uint32_t i = 0; i < events; i++) {
		uint32_t count = i % (RP_STACK_MAX + 20);
		uint64_t frame;

		cr_assert_eq(rp_reader_next(reader, &event), 1);
		cr_assert_eq(event.frame_count, count < RP_STACK_MAX ? count : RP_STACK_MAX);
		for (uint32_t f = 0; f < event.frame_count; f++) {
			memcpy(&frame, (const char *)event.frames + 8 * f, 8);
			cr_assert_eq(frame, i * 1000ull + f);
		}
	}
	rp_reader_close(reader);
	free(bytes);
}

Test(encoder, writes_equal_stacks_once)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "S", 1, NULL, 0);
	uint8_t *bytes;
	size_t size;

	for (int i = 0; i < 2000; i++)
		stack_event(encoder, type, i % 2, 50);
	bytes = trace_end(encoder, &size);
	/* Two stacks of 400 bytes, and a few bytes per event. */
	cr_expect_lt(size, 2 * 404 + 2000 * 5 + 500);
	free(bytes);
}

Test(encoder, restarts_the_ids_of_stacks_after_a_sequence_point)
{
	static const uint32_t first_ids[] = { 1, 3, 1, 2 };
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "S", 1, NULL, 0);
	uint8_t *bytes, *at;
	uint32_t first;
	size_t size;

	stack_event(encoder, type, 1, 5);
	stack_event(encoder, type, 2, 5);
	cr_assert_eq(rp_encoder_flush(encoder), 0);
	stack_event(encoder, type, 3, 5);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
	stack_event(encoder, type, 3, 5);
	cr_assert_eq(rp_encoder_flush(encoder), 0);
	stack_event(encoder, type, 3, 5);
	at = bytes = trace_end(encoder, &size);
	for (size_t i = 0; i < COUNT(first_ids); i++) {
		at = trace_find_block(bytes, at, size, RP_BLOCK_STACK);
		cr_assert_not_null(at);
		memcpy(&first, at, 4);
		cr_expect_eq(first, first_ids[i]);
	}
	free(bytes);
}

static uint64_t read_lost(const uint64_t *lost, size_t count)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "L", 1, NULL, 0);
	struct rp_reader *reader;
	uint64_t reported;
	uint8_t *bytes;
	size_t size;

	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
	for (size_t i = 0; i < count; i++) {
		trace_event(encoder, type, TRACE_START_NS + i, i, "", 0);
		cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + i, lost[i]), 0);
	}
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	while (rp_reader_next(reader, &event) == 1)
		;
	reported = trace_stats(reader).lost;
	cr_expect_eq(trace_stats(reader).ended, 1);
	cr_expect_eq(trace_stats(reader).events, count);
	rp_reader_close(reader);
	free(bytes);
	return reported;
}

Test(encoder, reports_losses_exactly)
{
	static const uint64_t steps[] = { 0, 1, 1, 300, 3000700, 0x7ffffffe, 0x7fffffff, 0x80000000,
					  0xffffffff, 0x100000000, 0x300000001, 20000000000 };

	for (size_t i = 0; i < COUNT(steps); i++) {
		cr_expect_eq(read_lost(steps, i + 1), steps[i]);
		cr_expect_eq(read_lost(steps + i, 1), steps[i]);
	}
}

Test(encoder, makes_no_loss_step_that_traceevent_misreads)
{
	static const uint64_t lost = 20000000000;
	struct rp_encoder *encoder = trace_begin();
	uint8_t *bytes, *at;
	uint64_t before = 0, sum = 0;
	uint32_t count, number;
	size_t size;

	if (trace_version() == 6) {
		/* nettrace_v6 looks at the bytes. */
		cr_expect_eq(read_lost(&lost, 1), lost);
		rp_encoder_destroy(encoder);
		return;
	}
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, lost), 0);
	bytes = trace_end(encoder, &size);
	at = trace_find_block(bytes, bytes, size, RP_BLOCK_SEQUENCE_POINT);
	cr_assert_not_null(at);
	memcpy(&count, at + 8, 4);
	cr_assert_eq(at + 12 + 12 * count + 2, bytes + size);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t thread;

		memcpy(&thread, at + 12 + 12 * i, 8);
		memcpy(&number, at + 20 + 12 * i, 4);
		cr_expect_eq(thread >> 63, 1);
		cr_expect_neq(number, 0);
		if (i % 2) {
			cr_expect_leq(number - before, INT32_MAX);
			sum += number - before;
		}
		before = number;
	}
	cr_expect_eq(sum, lost);
	free(bytes);
}

Test(encoder, gives_out_whole_blocks)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "E", 1, NULL, 0);
	size_t head, size;

	rp_encoder_output(encoder, &head);
	cr_expect_gt(head, 0);
	rp_encoder_consume(encoder, head);
	trace_event(encoder, type, TRACE_START_NS, 1, "abc", 3);
	rp_encoder_output(encoder, &size);
	cr_expect_eq(size, 0);
	cr_assert_eq(rp_encoder_flush(encoder), 0);
	rp_encoder_output(encoder, &size);
	cr_expect_gt(size, 0);
	rp_encoder_consume(encoder, size / 2);
	rp_encoder_output(encoder, &head);
	cr_expect_eq(head, size - size / 2);
	rp_encoder_destroy(encoder);
}

#define MARK "whole"	/* ends each payload, and occurs nowhere else */

/* Bytes read from an output, and the number of complete marks in them. */
struct taken {
	uint8_t *bytes;
	size_t size, searched;
	uint64_t marks;
};

static void count_marks(struct taken *taken)
{
	const uint8_t *at;

	while ((at = memmem(taken->bytes + taken->searched, taken->size - taken->searched, MARK,
			    strlen(MARK)))) {
		taken->searched = (size_t)(at - taken->bytes) + strlen(MARK);
		taken->marks++;
	}
	if (taken->size > taken->searched + strlen(MARK))
		taken->searched = taken->size - strlen(MARK);
}

/* Events of several threads, sizes and types. One type is internal and has no mark. */
static void put_marked(struct rp_encoder *encoder, struct rp_encoder_event_type *types[3],
		       unsigned int i)
{
	static char payload[5000];
	size_t size = i % 3 == 2 ? i % 100 : i * 7919 % (i % 50 ? 90 : sizeof(payload) - 8);

	memset(payload, 'x', size);
	memcpy(payload + size, MARK, strlen(MARK));
	trace_event(encoder, types[i % 3], TRACE_START_NS + i, i / 16 % 5, payload,
		    i % 3 == 2 ? size : size + strlen(MARK));
	if (i % 700 == 0)
		cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + i, 0), 0);
	if (i % 90 == 0)
		cr_assert_eq(rp_encoder_flush(encoder), 0);
}

static void take_some(struct rp_encoder *encoder, struct taken *taken, size_t most)
{
	size_t size;
	const void *output = rp_encoder_output(encoder, &size);

	if (size > most)
		size = most;
	memcpy(taken->bytes + taken->size, output, size);
	rp_encoder_consume(encoder, size);
	taken->size += size;
	count_marks(taken);
	cr_assert_eq(rp_encoder_consumed_events(encoder), taken->marks, "at byte %zu", taken->size);
}

Test(encoder, counts_the_events_that_are_whole_in_what_was_consumed)
{
	const struct rp_definition internal = {
		.provider = "Test-Provider", .name = "Internal", .id = 9, .is_internal = true,
	};
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *types[3];
	struct taken taken = { .bytes = malloc(1 << 20) };
	size_t size = 1;

	types[0] = trace_define(encoder, "One", 1, NULL, 0);
	types[1] = trace_define(encoder, "Two", 2, NULL, 0);
	cr_assert_eq(rp_encoder_define(encoder, &internal, &types[2]), 0);
	for (unsigned int i = 0; i < 4000; i++) {
		put_marked(encoder, types, i);
		take_some(encoder, &taken, i % 1000 < 900 ? i * 31 % 97 : 20000);
	}
	cr_assert_eq(rp_encoder_end(encoder), 0);
	while (size > 0) {
		take_some(encoder, &taken, taken.size % 5000 + 1);
		rp_encoder_output(encoder, &size);
	}
	cr_expect_eq(rp_encoder_consumed_events(encoder), 4000 - 4000 / 3);
	rp_encoder_destroy(encoder);
	free(taken.bytes);
}

Test(encoder, remembers_ten_thousand_threads_in_400_kb)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "T", 1, NULL, 0);
	size_t before, size;

	trace_event(encoder, type, TRACE_START_NS, 1, "", 0);
	before = rp_encoder_memory(encoder);
	for (uint64_t i = 0; i < 10000; i++) {
		trace_event(encoder, type, TRACE_START_NS, 1000 + i, "", 0);
		if (!(i % 100)) {
			rp_encoder_output(encoder, &size);
			rp_encoder_consume(encoder, size);
		}
	}
	cr_expect_lt(rp_encoder_memory(encoder) - before, 400 << 10);
	rp_encoder_destroy(encoder);
}

Test(encoder, ends_a_cut_stream_with_the_truth)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "C", 1, NULL, 0);
	struct rp_reader *reader;
	size_t whole, size;
	const void *output;
	uint8_t *bytes;

	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
	trace_event(encoder, type, TRACE_START_NS, 1, "kept!", 5);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 10), 0);
	output = rp_encoder_output(encoder, &whole);
	bytes = malloc(whole + 4096);
	memcpy(bytes, output, whole);
	rp_encoder_consume(encoder, whole);
	trace_event(encoder, type, TRACE_START_NS + 1, 1, "dropped", 7);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 1, 12), 0);
	trace_event(encoder, type, TRACE_START_NS + 2, 1, "dropped too", 11);
	cr_assert_eq(rp_encoder_cut(encoder, whole, TRACE_START_NS + 2, 10, 14), 0);
	output = rp_encoder_output(encoder, &size);
	cr_assert_leq(size, 4096);
	memcpy(bytes + whole, output, size);
	reader = trace_open(bytes, whole + size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_expect_eq(event.payload_bytes, 5);
	cr_expect_eq(rp_reader_next(reader, &event), 0, "%s", rp_reader_error(reader));
	cr_expect_eq(trace_stats(reader).lost, 14);
	rp_reader_close(reader);
	rp_encoder_destroy(encoder);
	free(bytes);
}

/* In the words of the header: year, month, weekday, day, hour, minute, second, millisecond. */
static void expect_utc(struct rp_object_stream *stream, int64_t utc_ns)
{
	const struct rp_encoder_info info = { .start_ns = TRACE_START_NS, .start_utc_ns = utc_ns };
	int64_t ms = utc_ns / 1000000 - (utc_ns % 1000000 < 0);
	time_t seconds = ms / 1000 - (ms % 1000 < 0);
	uint16_t words[8];
	const uint8_t *ticks;
	struct tm tm;

	stream->output.size = 0;
	cr_assert_eq(rp_object_stream_put_header(stream, &info), 0);
	ticks = memmem(stream->output.bytes, stream->output.size, &info.start_ns,
		       sizeof(info.start_ns));
	cr_assert(ticks && gmtime_r(&seconds, &tm));
	memcpy(words, ticks - sizeof(words), sizeof(words));
	cr_assert(words[0] == tm.tm_year + 1900 && words[1] == tm.tm_mon + 1 &&
		  words[2] == tm.tm_wday && words[3] == tm.tm_mday && words[4] == tm.tm_hour &&
		  words[5] == tm.tm_min && words[6] == tm.tm_sec && words[7] == ms - seconds * 1000,
		  "%" PRId64 " ns", utc_ns);
}

Test(encoder, dates_are_those_of_the_calendar)
{
	static const int64_t day_ns = 86400000000000;
	struct rp_object_stream stream = { .output.size = 0 };

	/* Each day from 1677 to 2262, its last and its first millisecond. */
	for (int64_t day = INT64_MIN / day_ns; day < INT64_MAX / day_ns; day++) {
		expect_utc(&stream, day * day_ns - 1);
		expect_utc(&stream, day * day_ns + (day * 7919 % 86400000 + 86400000) % 86400000 *
			   1000000);
	}
	rp_outbuf_fini(&stream.output);
}
