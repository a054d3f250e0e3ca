/* SPDX-License-Identifier: MIT */
/* The short path for repeated events, compared with the long one. */
#include "nettrace_trace.h"

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
