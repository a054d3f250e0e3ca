/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "nettrace_trace.h"

#include "inject_output.h"

/* The offset of the Trace object's version, after magic, the serializer's name and three tags. */
#define TRACE_VERSION_AT (8 + 4 + strlen(RP_NETTRACE_SERIALIZER) + 3)

static const struct rp_field fields[] = {
	{ .name = "value", .type = RP_TYPE_U64 }, { .name = "text", .type = RP_TYPE_STRING },
};

static const struct rp_definition definitions[] = {
	{ .provider = "Ours", .name = "First", .id = 1, .fields = fields, .field_count = 2 },
	{ .provider = "Ours", .name = "Second", .id = 2, .fields = fields, .field_count = 1 },
};

static struct rp_kernel_inject *make(void)
{
	struct rp_kernel_inject *inject = NULL;

	cr_assert_eq(rp_kernel_inject_create(definitions, 2, &inject), 0);
	return inject;
}

static void put(struct rp_kernel_inject *inject, uint32_t definition, uint64_t time_ns,
		uint64_t thread, uint64_t value, uint32_t lost)
{
	uint8_t payload[16] = { 0 };
	const struct rp_kernel_inject_event event = {
		.definition = definition,
		.lost = lost,
		.time_ns = TRACE_START_NS + time_ns,
		.thread = thread,
		.payload = payload,
		.payload_bytes = definition ? 8 : 11,
	};

	memcpy(payload, &value, sizeof(value));
	memcpy(payload + 8, "hi", 3);
	cr_assert_eq(rp_kernel_inject_put(inject, &event), 0);
}

/* Writes "name@time/thread " of each event. Return: the statistics of the whole stream. */
static struct rp_reader_stats report(const struct inject_output *all, int end, char text[4096])
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	struct rp_reader *reader;
	int ret;

	*text = '\0';
	cr_assert_eq(rp_reader_open_memory(all->bytes, all->size, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1)
		sprintf(text + strlen(text), "%s@%lld/%llu ", event.type->name,
			(long long)event.time_ns, (unsigned long long)event.thread);
	cr_expect_eq(ret, end, "%s", rp_reader_error(reader));
	rp_reader_get_stats(reader, &stats);
	rp_reader_close(reader);
	return stats;
}

/* Three events of a process at 100, 300 and 500 ns, and two losses reported before the last. */
static uint8_t *process_trace(size_t *ret_size)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "Theirs", 1, fields, 2);
	uint8_t payload[11] = { 1, 0, 0, 0, 0, 0, 0, 0, 'h', 'i' };

	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
	trace_event(encoder, type, TRACE_START_NS + 100, 7, payload, 11);
	trace_event(encoder, type, TRACE_START_NS + 300, 8, payload, 11);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 400, 2), 0);
	trace_event(encoder, type, TRACE_START_NS + 500, 7, payload, 11);
	return trace_end(encoder, ret_size);
}

static void inject_all(size_t piece, struct inject_output *ret_all)
{
	struct rp_kernel_inject *inject = make();
	size_t size, done = 0;
	uint8_t *trace = process_trace(&size);

	/* Records in the ring are slightly out of order, as processors write them. */
	put(inject, 0, 200, 7, 1, 0);
	put(inject, 1, 50, 9, 2, 0);
	put(inject, 1, 450, 7, 3, 5);
	put(inject, 0, 400, 8, 4, 0);
	put(inject, 1, 600, 8, 5, 1);
	while (done < size) {
		size_t next = size - done < piece ? size - done : piece;

		cr_assert_eq(rp_kernel_inject_feed(inject, trace + done, next), 0);
		done += next;
		inject_gather(inject, ret_all);
	}
	cr_assert_eq(rp_kernel_inject_finish(inject), 0);
	inject_gather(inject, ret_all);
	rp_kernel_inject_destroy(inject);
	free(trace);
}

Test(kernel_inject, events_stand_at_their_time_and_losses_of_both_are_reported)
{
	struct inject_output all = { 0 };
	struct rp_reader_stats stats;
	char text[4096];

	inject_all(SIZE_MAX, &all);
	stats = report(&all, 0, text);
	cr_expect_str_eq(text, "Second@50/9 Theirs@100/7 First@200/7 Theirs@300/8 First@400/8 "
			 "Second@450/7 Theirs@500/7 Second@600/8 ");
	cr_expect_eq(stats.lost, 2 + 5 + 1);
	cr_expect_eq(stats.unordered, 0);
	free(all.bytes);
}

/* Feeds the blocks that the encoder has closed. */
static void feed(struct rp_kernel_inject *inject, struct rp_encoder *encoder)
{
	const void *bytes;
	size_t size;

	bytes = rp_encoder_output(encoder, &size);
	cr_assert_eq(rp_kernel_inject_feed(inject, bytes, size), 0);
	rp_encoder_consume(encoder, size);
}

/* Only version 6 has rows, which a stream may remove one by one or all at a sequence point. */
Test(kernel_inject, threads_whose_rows_the_stream_removes_keep_their_kernel_events)
{
	/* Rows 2 and 3 are those of the threads 7 and 8. */
	static const uint8_t removal[] = "\4\0\0\7" "\2\0" "\3\0";
	const struct rp_encoder_point point = {
		.last_ns = TRACE_START_NS + 500, .lost = 1, .metadata_id = 1, .version = 6,
		.process_id = 4242,
	};
	struct rp_kernel_inject *inject = make();
	struct rp_encoder *encoder = trace_begin(), *next;
	struct rp_encoder_event_type *type = trace_define(encoder, "Theirs", 1, NULL, 0);
	struct inject_output all = { 0 };
	struct rp_reader_stats stats;
	char text[4096];

	if (trace_version() != 6)
		cr_skip_test("version 4 has no rows of threads");
	for (uint64_t i = 0; i < 5; i++)
		put(inject, 1, 150 + 100 * i, i < 2 ? 9 : 8, i, i == 3);
	trace_event(encoder, type, TRACE_START_NS + 100, 7, NULL, 0);
	trace_event(encoder, type, TRACE_START_NS + 200, 8, NULL, 0);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 300, 0), 0);
	feed(inject, encoder);
	cr_assert_eq(rp_kernel_inject_feed(inject, removal, sizeof(removal) - 1), 0);
	trace_event(encoder, type, TRACE_START_NS + 400, 6, NULL, 0);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 500, 1), 0);
	feed(inject, encoder);
	cr_assert_eq(rp_encoder_resume(&point, &next), 0);
	trace_event(next, trace_define(next, "Others", 2, NULL, 0), TRACE_START_NS + 600, 8, NULL,
		    0);
	cr_assert_eq(rp_encoder_end(next), 0);
	feed(inject, next);
	cr_assert_eq(rp_kernel_inject_finish(inject), 0);
	inject_gather(inject, &all);
	stats = report(&all, 0, text);
	cr_expect_str_eq(text, "Theirs@100/7 Second@150/9 Theirs@200/8 Second@250/9 "
			 "Second@350/8 Theirs@400/6 Second@450/8 Second@550/8 Others@600/8 ");
	cr_expect_eq(stats.lost, 2);
	cr_expect_eq(stats.unordered, 0);
	rp_kernel_inject_destroy(inject);
	rp_encoder_destroy(encoder);
	rp_encoder_destroy(next);
	free(all.bytes);
}

static void with_activity(struct rp_encoder *encoder, const struct rp_encoder_event_type *type,
			  uint64_t time_ns, uint64_t thread, const char *activity)
{
	const struct rp_encoder_event event = {
		.type = type, .time_ns = TRACE_START_NS + time_ns, .thread = thread,
		.activity = (const struct rp_guid *)activity,
	};

	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
}

/* Writes "time/first character of the activity " of each event. */
static void report_activities(const struct inject_output *all, char text[4096])
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	int ret;

	*text = '\0';
	cr_assert_eq(rp_reader_open_memory(all->bytes, all->size, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1)
		sprintf(text + strlen(text), "%lld/%c ", (long long)event.time_ns,
			event.activity.bytes[0] ? event.activity.bytes[0] : '-');
	cr_expect_eq(ret, 0, "%s", rp_reader_error(reader));
	rp_reader_close(reader);
}

/* The lists of version 6 end with a sequence point, while the activity of a thread goes on. */
Test(kernel_inject, kernel_events_have_the_activity_of_their_thread)
{
	struct rp_kernel_inject *inject = make();
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "Theirs", 1, NULL, 0);
	struct inject_output all = { 0 };
	char text[4096];
	uint8_t *trace;
	size_t size;

	for (uint64_t i = 0; i < 6; i++)
		put(inject, 1, 150 + 100 * i, i == 3 ? 9 : 7, i, 0);
	with_activity(encoder, type, 100, 7, "Aaaaaaaaaaaaaaaa");
	with_activity(encoder, type, 200, 8, "Bbbbbbbbbbbbbbbb");
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + 300, 0), 0);
	with_activity(encoder, type, 400, 8, "Bbbbbbbbbbbbbbbb");
	with_activity(encoder, type, 500, 7, "Cccccccccccccccc");
	with_activity(encoder, type, 600, 7, NULL);
	trace = trace_end(encoder, &size);
	cr_assert_eq(rp_kernel_inject_feed(inject, trace, size), 0);
	cr_assert_eq(rp_kernel_inject_finish(inject), 0);
	inject_gather(inject, &all);
	report_activities(&all, text);
	cr_expect_str_eq(text, "100/A 150/A 200/B 250/A 350/A 400/B 450/- 500/C 550/C 600/- "
			 "650/- ");
	rp_kernel_inject_destroy(inject);
	free(all.bytes);
	free(trace);
}

/* Injects an event into a stream of definitions with tags, whose Trace object has this version. */
static void inject_into_version(uint32_t version, struct inject_output *ret_all)
{
	struct rp_kernel_inject *inject = make();
	uint64_t events;
	size_t size;
	uint8_t *trace = trace_make(&size, &events);

	memcpy(trace + TRACE_VERSION_AT, &version, sizeof(version));
	memcpy(trace + TRACE_VERSION_AT + 4, &version, sizeof(version));
	put(inject, 1, 50, 9, 2, 3);
	cr_assert_eq(rp_kernel_inject_feed(inject, trace, size), 0);
	cr_assert_eq(rp_kernel_inject_finish(inject), 0);
	inject_gather(inject, ret_all);
	rp_kernel_inject_destroy(inject);
	free(trace);
}

/* Version 5 is version 4 with the tags that this library also writes into version 4. */
Test(kernel_inject, version_5_is_injected_like_version_4_and_remains_version_5)
{
	struct inject_output all[2] = { 0 };
	char text[4096];

	if (trace_version() == 6)
		cr_skip_test("version 6 has no Trace object");
	for (uint32_t i = 0; i < 2; i++)
		inject_into_version(4 + i, &all[i]);
	report(&all[1], 0, text);
	cr_expect(strstr(text, "Second@50/9 "), "%s", text);
	cr_expect_eq(all[1].bytes[TRACE_VERSION_AT], 5);
	cr_expect_eq(all[1].bytes[TRACE_VERSION_AT + 4], 5);
	memset(all[1].bytes + TRACE_VERSION_AT, 0, 8);
	memset(all[0].bytes + TRACE_VERSION_AT, 0, 8);
	cr_expect(all[0].size == all[1].size && !memcmp(all[0].bytes, all[1].bytes, all[0].size));
	free(all[0].bytes);
	free(all[1].bytes);
}

Test(kernel_inject, pieces_of_any_size_give_the_same_stream)
{
	struct inject_output whole = { 0 };

	inject_all(SIZE_MAX, &whole);
	for (size_t piece = 1; piece < 100; piece += 3) {
		struct inject_output all = { 0 };

		inject_all(piece, &all);
		cr_expect(all.size == whole.size && !memcmp(all.bytes, whole.bytes, whole.size),
			  "pieces of %zu", piece);
		free(all.bytes);
	}
	free(whole.bytes);
}

Test(kernel_inject, stream_that_stops_early_stops_early_after_the_injection)
{
	struct rp_kernel_inject *inject = make();
	struct inject_output all = { 0 };
	char text[4096];
	size_t size;
	uint8_t *trace = process_trace(&size);

	put(inject, 1, 600, 8, 5, 0);
	cr_assert_eq(rp_kernel_inject_feed(inject, trace, size - 1), 0);
	cr_assert_eq(rp_kernel_inject_finish(inject), 0);
	inject_gather(inject, &all);
	report(&all, -ENODATA, text);
	cr_expect_str_eq(text, "Theirs@100/7 Theirs@300/8 Theirs@500/7 Second@600/8 ");
	rp_kernel_inject_destroy(inject);
	free(all.bytes);
	free(trace);
}

Test(kernel_inject, what_was_before_the_session_is_left_out)
{
	struct rp_kernel_inject *inject = make();
	struct inject_output all = { 0 };
	char text[4096];
	size_t size;
	uint8_t *trace = process_trace(&size);

	put(inject, 1, (uint64_t)-10, 8, 5, 0);
	cr_assert_eq(rp_kernel_inject_feed(inject, trace, size), 0);
	cr_assert_eq(rp_kernel_inject_finish(inject), 0);
	inject_gather(inject, &all);
	report(&all, 0, text);
	cr_expect_str_eq(text, "Theirs@100/7 Theirs@300/8 Theirs@500/7 ");
	rp_kernel_inject_destroy(inject);
	free(all.bytes);
	free(trace);
}

/* In a damaged stream no byte after the place where the damage is detected is changed. */
Test(kernel_inject, damaged_stream_is_passed_on)
{
	size_t size;
	uint8_t *trace = process_trace(&size);

	for (size_t at = 0; at < size; at++) {
		struct rp_kernel_inject *inject = make();
		struct inject_output all = { 0 };
		uint8_t good = trace[at];
		int ret;

		put(inject, 0, 200, 7, 1, 0);
		trace[at] ^= 0xff;
		ret = rp_kernel_inject_feed(inject, trace, size);
		cr_expect(ret == 0 || ret == -EBADMSG || ret == -EPROTONOSUPPORT, "%zu: %d", at,
			  ret);
		if (ret) {
			cr_expect_eq(rp_kernel_inject_feed(inject, "the rest", 8), 0);
			cr_expect_eq(rp_kernel_inject_finish(inject), 0);
			inject_gather(inject, &all);
			cr_expect(all.size > 8 && !memcmp(all.bytes + all.size - 8, "the rest", 8));
			cr_expect_eq(all.bytes[all.size - 9], trace[size - 1]);
		}
		trace[at] = good;
		rp_kernel_inject_destroy(inject);
		free(all.bytes);
	}
	free(trace);
}

Test(kernel_inject, idle_process_holds_up_only_so_many)
{
	struct rp_kernel_inject *inject = make();
	struct inject_output all = { 0 };
	size_t size, waiting;
	uint8_t *trace = process_trace(&size);

	/* Up to the third event's block. */
	cr_assert_eq(rp_kernel_inject_feed(inject, trace, size / 2), 0);
	inject_gather(inject, &all);
	for (uint64_t i = 0; i < 1u << 18; i++)
		put(inject, 1, 1000 + i, 7, i, 0);
	cr_assert_eq(rp_kernel_inject_relieve(inject, TRACE_START_NS + (1u << 20)), 0);
	rp_kernel_inject_output(inject, &waiting);
	cr_expect_gt(waiting, 1u << 20);
	rp_kernel_inject_destroy(inject);
	free(all.bytes);
	free(trace);
}

Test(kernel_inject, payload_that_is_too_long_is_refused)
{
	struct rp_kernel_inject *inject = make();
	uint8_t payload[80] = { 0 };
	const struct rp_kernel_inject_event event = {
		.definition = 0, .payload = payload, .payload_bytes = sizeof(payload),
	};

	memset(payload + 8, 'x', sizeof(payload) - 9);
	cr_expect_eq(rp_kernel_inject_put(inject, &event), -EMSGSIZE);
	rp_kernel_inject_destroy(inject);
}
