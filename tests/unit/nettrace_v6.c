/* SPDX-License-Identifier: MIT */
/* The encoder's output in version 6, read block by block without the library's reader. */
#include <stdint.h>

#include "nettrace/format.h"
#include "nettrace_trace.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OWN_IDS 0x4040414243444546ull

static const char parent[] = "trace-id-of-w3c!";

struct block {
	uint8_t kind;
	const uint8_t *at, *end;
};

static struct rp_encoder *begin(void)
{
	const struct rp_encoder_info info = {
		.start_ns = TRACE_START_NS,
		.start_utc_ns = TRACE_START_UTC_NS,
		.process_id = 4242,
		.processors = 3,
		.version = 6,
		.page_bytes = 4096,
		.own_ids = OWN_IDS,
	};
	struct rp_encoder *encoder = NULL;

	cr_assert_eq(rp_encoder_create(&info, &encoder), 0);
	return encoder;
}

/* The blocks of a stream, which begin at its offset 20 and end with the stream. */
static size_t split(const uint8_t *bytes, size_t size, struct block *blocks, size_t capacity)
{
	static const uint8_t header[] = "Nettrace\0\0\0\0\6\0\0\0\0\0\0";
	const uint8_t *at = bytes + 20, *end = bytes + size;
	size_t count = 0;

	cr_assert_eq(memcmp(bytes, header, 20), 0);
	while (at < end) {
		uint32_t word;

		cr_assert_leq(4, end - at);
		cr_assert_lt(count, capacity);
		memcpy(&word, at, 4);
		cr_assert_leq((word & 0xffffff) + 4, end - at);
		blocks[count++] = (struct block){ word >> 24, at + 4, at + 4 + (word & 0xffffff) };
		at += 4 + (word & 0xffffff);
	}
	return count;
}

static const struct block *find(const struct block *blocks, size_t count, uint8_t kind)
{
	for (size_t i = 0; i < count; i++)
		if (blocks[i].kind == kind)
			return &blocks[i];
	cr_assert(false, "no block of kind %u", kind);
	return NULL;
}

static uint64_t take_varuint(const uint8_t **at)
{
	uint64_t value = 0;
	unsigned int shift = 0;

	do
		value |= (uint64_t)(**at & 0x7f) << shift, shift += 7;
	while (*(*at)++ & 0x80);
	return value;
}

static uint32_t take_u32(const uint8_t **at)
{
	uint32_t value;

	memcpy(&value, *at, 4);
	*at += 4;
	return value;
}

static void write_event(struct rp_encoder *encoder, const struct rp_encoder_event_type *type,
			uint64_t thread, const char *activity, const char *related)
{
	struct rp_guid ids[2] = { 0 };
	const struct rp_encoder_event event = {
		.type = type,
		.time_ns = TRACE_START_NS + 1,
		.thread = thread,
		.activity = activity ? &ids[0] : NULL,
		.related_activity = related ? &ids[1] : NULL,
	};

	if (activity)
		memcpy(&ids[0], activity, 16);
	if (related)
		memcpy(&ids[1], related, 16);
	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
}

Test(v6, begins_with_a_trace_block_whose_keys_traceevent_needs)
{
	static const uint8_t keys[] = "\23HardwareThreadCount\0013\11ProcessId\0044242"
				      "\16SystemPageSize\0044096";
	struct block blocks[8];
	size_t size, count;
	uint8_t *bytes = trace_end(begin(), &size);
	const uint8_t *at;

	count = split(bytes, size, blocks, COUNT(blocks));
	cr_assert_eq(blocks[0].kind, RP_BLOCK_TRACE);
	cr_expect_eq(blocks[count - 1].kind, RP_BLOCK_END);
	cr_expect_eq(blocks[count - 1].at, blocks[count - 1].end);
	at = blocks[0].at + 32;
	cr_expect_eq(take_u32(&at), 8);
	cr_expect_eq(take_u32(&at), 3);
	cr_assert_eq(blocks[0].end - at, (ptrdiff_t)sizeof(keys) - 1);
	cr_expect_eq(memcmp(at, keys, sizeof(keys) - 1), 0);
	free(bytes);
}

Test(v6, declares_each_thread_once_and_before_its_events)
{
	struct rp_encoder *encoder = begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "E", 1, NULL, 0);
	static const uint64_t threads[] = { 700, 800, 700, 800, 900 };
	uint64_t rows = 0, process, thread, index;
	struct block blocks[32];
	size_t size, count;
	uint8_t *bytes;

	for (size_t i = 0; i < COUNT(threads); i++) {
		write_event(encoder, type, threads[i], NULL, NULL);
		cr_assert_eq(rp_encoder_flush(encoder), 0);
	}
	bytes = trace_end(encoder, &size);
	count = split(bytes, size, blocks, COUNT(blocks));
	for (size_t i = 0; i < count; i++) {
		const uint8_t *at = blocks[i].at;

		/* Rows 0 and 1 number events and losses; threads begin at 2. */
		cr_expect(blocks[i].kind != RP_BLOCK_EVENT || rows >= 3);
		while (blocks[i].kind == RP_BLOCK_THREAD && at < blocks[i].end) {
			at += 2;
			index = take_varuint(&at);
			cr_expect_eq(*at++, RP_THREAD_PROCESS);
			process = take_varuint(&at);
			cr_expect_eq(*at++, RP_THREAD_ID);
			thread = take_varuint(&at);
			cr_expect_eq(index, rows);
			cr_expect_eq(process, rows < 2 ? 0 : 4242);
			cr_expect_eq(thread, rows < 2 ? 0 : 700 + 100 * (rows - 2));
			rows++;
		}
	}
	cr_expect_eq(rows, 5);
	free(bytes);
}

Test(v6, has_trace_and_span_ids_of_activities_that_came_from_a_traceparent)
{
	static const char own[] = "FEDCBA@@activity";
	static const char spans[] = "\0\0\0\0\0\0\0\0\1\2\3\4\5\6\7\x8";
	struct rp_encoder *encoder = begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "E", 1, NULL, 0);
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct block blocks[32];
	const struct block *labels;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size, count;

	write_event(encoder, type, 7, own, NULL);
	write_event(encoder, type, 7, parent, spans);
	write_event(encoder, type, 7, parent, spans);
	bytes = trace_end(encoder, &size);
	count = split(bytes, size, blocks, COUNT(blocks));
	labels = find(blocks, count, RP_BLOCK_LABEL_LIST);
	/* Two lists: activity; and activity, which is the trace id, related activity, span id. */
	cr_assert_eq(labels->end - labels->at, 8 + 17 + 17 + 17 + 9);
	cr_expect_eq(memcmp(labels->at, "\1\0\0\0\2\0\0\0", 8), 0);
	cr_expect_eq(labels->at[8], 0x81);
	cr_expect_eq(labels->at[8 + 17], 1);
	cr_expect_eq(labels->at[8 + 34], 2);
	cr_expect_eq(labels->at[8 + 51], 0x84);

	reader = trace_open(bytes, size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_expect_eq(memcmp(&event.activity, own, 16), 0);
	cr_expect_eq(event.trace_id[0], 0);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_expect_eq(memcmp(&event.activity, parent, 16), 0);
	cr_expect_eq(memcmp(&event.related_activity, spans, 16), 0);
	cr_expect_eq(memcmp(event.trace_id, parent, 16), 0);
	cr_expect_eq(event.span_id, 0x0102030405060708);
	rp_reader_close(reader);
	free(bytes);
}

Test(v6, memory_of_label_lists_counts)
{
	struct rp_encoder *encoder = begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "E", 1, NULL, 0);
	size_t before;

	write_event(encoder, type, 7, NULL, NULL);
	before = rp_encoder_memory(encoder);
	write_event(encoder, type, 7, "FEDCBA@@activity", NULL);
	cr_expect_gt(rp_encoder_memory(encoder), before);
	rp_encoder_destroy(encoder);
}

Test(v6, makes_no_loss_step_that_readers_misread)
{
	static const uint64_t lost = 20000000000;
	struct rp_encoder *encoder = begin();
	uint64_t sum = 0, index;
	uint32_t before = 0;
	const struct block *point;
	struct block blocks[8];
	const uint8_t *at;
	uint8_t *bytes;
	size_t size;

	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, lost), 0);
	bytes = trace_end(encoder, &size);
	point = find(blocks, split(bytes, size, blocks, COUNT(blocks)), RP_BLOCK_SEQUENCE_POINT);
	at = point->at + 8;
	cr_expect_eq(take_u32(&at), 0);
	for (uint32_t count = take_u32(&at); count; count--) {
		uint32_t number;

		index = take_varuint(&at);
		number = (uint32_t)take_varuint(&at);
		cr_expect_eq(index, 1);
		cr_expect_leq(number - before, INT32_MAX);
		sum += number - before;
		before = number;
	}
	cr_expect_eq(at, point->end);
	cr_expect_eq(sum, lost);
	free(bytes);
}

Test(v6, goes_on_after_a_cut_stream_with_rows_of_its_own)
{
	const struct rp_encoder_point point = {
		.last_ns = TRACE_START_NS + 5, .lost = 3, .metadata_id = 1, .version = 6,
		.process_id = 4242, .own_ids = OWN_IDS,
	};
	struct rp_encoder *encoder = begin(), *next = NULL;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint8_t *first, *second, *whole;
	size_t first_size, second_size, events = 0;
	struct rp_reader *reader;
	const void *output;

	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
	write_event(encoder, trace_define(encoder, "E", 1, NULL, 0), 700, NULL, NULL);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 2, 3), 0);
	output = rp_encoder_output(encoder, &first_size);
	first = malloc(first_size);
	cr_assert_not_null(first);
	memcpy(first, output, first_size);
	rp_encoder_destroy(encoder);
	cr_assert_eq(rp_encoder_resume(&point, &next), 0);
	write_event(next, trace_define(next, "F", 2, NULL, 0), 700, parent, NULL);
	cr_assert_eq(rp_encoder_sequence_point(next, TRACE_START_NS + 9, 10), 0);
	second = trace_end(next, &second_size);
	whole = malloc(first_size + second_size);
	cr_assert_not_null(whole);
	memcpy(whole, first, first_size);
	memcpy(whole + first_size, second, second_size);
	reader = trace_open(whole, first_size + second_size);
	while (rp_reader_next(reader, &event) == 1) {
		cr_expect_eq(event.thread, 700);
		cr_expect_eq(event.process, 4242);
		cr_expect_eq(memcmp(event.trace_id, parent, 16) == 0, events == 1);
		events++;
	}
	cr_expect_eq(events, 2);
	cr_expect_eq(trace_stats(reader).ended, 1, "%s", rp_reader_error(reader));
	cr_expect_eq(trace_stats(reader).lost, 10);
	rp_reader_close(reader);
	free(first);
	free(second);
	free(whole);
}
