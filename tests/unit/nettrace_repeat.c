/* SPDX-License-Identifier: MIT */
/* The short paths of the encoder and the reader for repeated events, compared with the long. */
#include "nettrace_trace.h"

#include "nettrace/reader_repeat.h"
#include "nettrace/repeat.h"

#define TYPES 4
#define STEPS 20000

static const struct rp_field words[] = {
	{ .name = "a", .type = RP_TYPE_U64 }, { .name = "b", .type = RP_TYPE_U64 },
};
static const struct rp_field string = { .name = "s", .type = RP_TYPE_STRING };
static const struct rp_field flag = { .name = "f", .type = RP_TYPE_BOOL };

struct stream {
	struct rp_encoder *encoder;
	struct rp_encoder_event_type *types[TYPES];
	bool short_ways;
	uint64_t repeated;
};

static struct stream begin(bool short_ways)
{
	struct stream stream = { .encoder = trace_begin(), .short_ways = short_ways };

	stream.types[0] = trace_define(stream.encoder, "Words", 1, words, 2);
	stream.types[1] = trace_define(stream.encoder, "String", 2, &string, 1);
	stream.types[2] = trace_define(stream.encoder, "Bool", 3, &flag, 1);
	stream.types[3] = trace_define(stream.encoder, "Nothing", 4, NULL, 0);
	return stream;
}

static uint32_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

/* Uses the short path if it applies. */
static bool repeats(struct rp_encoder *encoder, const struct rp_encoder_event *event)
{
	struct rp_encoder_repeat *repeat = rp_encoder_repeat(encoder);

	return !event->frame_count && !event->activity && !event->related_activity &&
	       rp_encoder_repeats(repeat, event->type, event->thread, event->processor,
				  event->payload_bytes) &&
	       rp_encoder_repeat_run(repeat, event->type, event->time_ns, event->payload,
				     event->payload_bytes);
}

/* Writes events, most of which repeat the previous one. */
static void step(struct stream *stream, struct rp_encoder_event *event, uint32_t *type,
		 uint64_t *seed, const uint64_t *frames, const struct rp_guid *ids)
{
	static const uint8_t sizes[TYPES][2] = { { 16, 8 }, { 5, 16 }, { 1, 0 }, { 0, 3 } };
	uint32_t chance = next(seed) % 1000;

	if (chance < 20)
		*type = next(seed) % TYPES;
	if (chance < 25)
		event->thread = next(seed) % 3;
	if (chance < 30)
		event->processor = next(seed) % 2;
	event->type = stream->types[*type];
	event->payload_bytes = sizes[*type][chance == 40];
	event->frame_count = chance == 41 ? 3 : 0;
	event->frames = frames;
	event->activity = chance > 41 && chance < 45 ? ids : NULL;
	event->related_activity = chance == 45 ? ids + 1 : NULL;
	event->time_ns += next(seed) % (chance < 50 ? 1u << 30 : 300);
	if (chance == 46)
		cr_assert_eq(rp_encoder_flush(stream->encoder), 0);
	if (chance == 47)
		cr_assert_eq(rp_encoder_sequence_point(stream->encoder, event->time_ns, 0), 0);
	if (stream->short_ways && repeats(stream->encoder, event))
		stream->repeated++;
	else
		cr_assert_eq(rp_encoder_event(stream->encoder, event), 0);
}

static uint8_t *write_stream(uint64_t seed, bool short_ways, size_t *ret_size,
			     uint64_t *ret_repeated)
{
	static const struct rp_guid ids[2] = { { { 1, 2, 3 } }, { { 4, 5, 6 } } };
	struct stream stream = begin(short_ways);
	struct rp_encoder_event event = { .time_ns = TRACE_START_NS };
	uint64_t frames[3], payload[2];
	uint32_t type = 0;

	for (uint32_t i = 0; i < STEPS; i++) {
		for (int k = 0; k < 3; k++)
			frames[k] = next(&seed);
		payload[0] = next(&seed) | 1;
		payload[1] = next(&seed);
		event.payload = payload;
		step(&stream, &event, &type, &seed, frames, ids);
	}
	*ret_repeated = stream.repeated;
	return trace_end(stream.encoder, ret_size);
}

Test(repeat, short_way_writes_the_bytes_of_the_long_one)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t repeated, none;
		size_t size, size_long;
		uint8_t *bytes = write_stream(seed, true, &size, &repeated);
		uint8_t *bytes_long = write_stream(seed, false, &size_long, &none);

		cr_assert_eq(none, 0);
		cr_assert_gt(repeated, STEPS / 4);
		cr_assert_lt(repeated, STEPS);
		cr_assert_eq(size, size_long);
		cr_assert_eq(memcmp(bytes, bytes_long, size), 0, "seed %lu", seed);
		free(bytes);
		free(bytes_long);
	}
}

Test(repeat, nothing_repeats_before_the_first_event_and_after_a_block)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "Words", 1, words, 2);
	uint64_t payload[2] = { 1, 2 };
	const struct rp_encoder_event event = {
		.type = type, .time_ns = TRACE_START_NS, .thread = 1,
		.payload = payload, .payload_bytes = sizeof(payload),
	};

	cr_expect_not(repeats(encoder, &event));
	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
	cr_expect(repeats(encoder, &event));
	cr_assert_eq(rp_encoder_flush(encoder), 0);
	cr_expect_not(repeats(encoder, &event));
	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
	cr_expect(repeats(encoder, &event));
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
	cr_expect_not(repeats(encoder, &event));
	rp_encoder_destroy(encoder);
}

static void expect_same_text(const char *one, const char *other)
{
	cr_assert_eq(!one, !other);
	cr_assert(!one || !strcmp(one, other));
}

/* Compare all members; the types belong to different readers. */
static void expect_same_event(const struct rp_reader_event *one,
			      const struct rp_reader_event *other)
{
	struct rp_reader_event rest = *one;

	expect_same_text(one->type->provider, other->type->provider);
	expect_same_text(one->thread_name, other->thread_name);
	cr_assert_eq(one->type->metadata_id, other->type->metadata_id);
	cr_assert_eq(one->payload_bytes, other->payload_bytes);
	cr_assert_eq(memcmp(one->payload, other->payload, one->payload_bytes), 0);
	cr_assert_eq(one->frame_count, other->frame_count);
	cr_assert(!one->frame_count ||
		  !memcmp(one->frames, other->frames, 8 * (size_t)one->frame_count));
	rest.type = other->type;
	rest.thread_name = other->thread_name;
	rest.payload = other->payload;
	rest.frames = other->frames;
	rest.labels = other->labels;
	cr_assert_eq(memcmp(&rest, other, sizeof(rest)), 0);
}

/* Read the bytes with and without the short path. Return: the number of events. */
static uint64_t read_both_ways(const uint8_t *bytes, size_t size)
{
	struct rp_reader_event one = RP_READER_EVENT_INIT, other = RP_READER_EVENT_INIT;
	struct rp_reader *reader, *plain;
	struct rp_reader_stats stats, plain_stats;
	uint64_t events = 0;
	int ret;

	ret = rp_reader_open_memory(bytes, size, &reader);
	if (ret < 0)
		return 0;
	cr_assert_eq(rp_reader_open_memory(bytes, size, &plain), 0);
	plain->is_plain = true;
	while ((ret = rp_reader_next(reader, &one)) == 1) {
		cr_assert_eq(rp_reader_next(plain, &other), 1);
		expect_same_event(&one, &other);
		cr_assert_eq(reader->lost_before, plain->lost_before);
		events++;
	}
	cr_assert_eq(rp_reader_next(plain, &other), ret);
	cr_assert_str_eq(rp_reader_error(reader), rp_reader_error(plain));
	stats = trace_stats(reader);
	plain_stats = trace_stats(plain);
	cr_assert_eq(memcmp(&stats, &plain_stats, sizeof(stats)), 0);
	rp_reader_close(reader);
	rp_reader_close(plain);
	return events;
}

Test(repeat, reader_returns_the_same_events_on_the_short_path)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		uint64_t repeated;
		size_t size;
		uint8_t *bytes = write_stream(seed, true, &size, &repeated);

		cr_assert_eq(read_both_ways(bytes, size), STEPS);
		free(bytes);
	}
}

/* Read the bytes by runs and without them, and compare the last events of the runs. */
static uint64_t read_by_runs(const uint8_t *bytes, size_t size)
{
	struct rp_reader_event other = RP_READER_EVENT_INIT;
	const struct rp_reader_event *event;
	struct rp_reader *reader, *plain;
	uint64_t repeated = 0;

	cr_assert_eq(rp_reader_open_memory(bytes, size, &reader), 0);
	cr_assert_eq(rp_reader_open_memory(bytes, size, &plain), 0);
	plain->is_plain = true;
	while (rp_reader_next_ref(reader, &event) == 1) {
		struct rp_repeat_run run = rp_repeat_run_begin(reader);

		while (rp_repeat_run_next(&run))
			;
		rp_repeat_run_end(&run);
		for (uint64_t i = 0; i <= run.count; i++)
			cr_assert_eq(rp_reader_next(plain, &other), 1);
		cr_assert_eq(reader->returned.time_ns, other.time_ns);
		cr_assert_eq(reader->returned.payload_bytes, other.payload_bytes);
		cr_assert_eq(memcmp(reader->returned.payload, other.payload, other.payload_bytes),
			     0);
		repeated += run.count;
	}
	cr_assert_eq(rp_reader_next(plain, &other), 0);
	rp_reader_close(reader);
	rp_reader_close(plain);
	return repeated;
}

Test(repeat, reader_has_the_last_event_of_a_run_when_the_run_ends)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		uint64_t repeated;
		size_t size;
		uint8_t *bytes = write_stream(seed, true, &size, &repeated);

		cr_assert_gt(read_by_runs(bytes, size), STEPS / 4);
		free(bytes);
	}
}

/* In version 6, an event of another type with labels is found, but not taken. */
Test(repeat, reader_has_the_last_event_of_a_run_that_a_labelled_event_ends)
{
	static const struct rp_guid id = { { 1, 2, 3 } };
	static const uint64_t payload[4] = { 1, 2, 3, 4 };
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event event = { .thread = 1, .activity = &id };
	struct rp_encoder_event_type *types[2];
	uint8_t *bytes;
	size_t size;

	types[0] = trace_define(encoder, "Words", 1, words, 2);
	types[1] = trace_define(encoder, "Bool", 2, &flag, 1);
	for (int i = 0; i < 4; i++) {
		event.type = types[i == 3];
		event.time_ns = TRACE_START_NS + (uint64_t)i;
		event.payload = payload + i;
		event.payload_bytes = i == 3 ? 1 : 8;
		cr_assert_eq(rp_encoder_event(encoder, &event), 0);
	}
	bytes = trace_end(encoder, &size);
	cr_assert_geq(read_by_runs(bytes, size), 2);
	free(bytes);
}

Test(repeat, reader_reports_the_same_damage_on_the_short_path)
{
	uint64_t repeated, seed = 7;
	size_t size;
	uint8_t *bytes = write_stream(seed, true, &size, &repeated);

	for (int i = 0; i < 200; i++) {
		/* A round reads only the first part of the trace, to be short. */
		const size_t part = size / 16, at = next(&seed) % part;
		const uint8_t flip = (uint8_t)(1u << next(&seed) % 8);
		uint8_t *copy = malloc(part);

		memcpy(copy, bytes, part);
		copy[at] ^= flip;
		read_both_ways(copy, part);
		read_both_ways(copy, at);
		free(copy);
	}
	free(bytes);
}
