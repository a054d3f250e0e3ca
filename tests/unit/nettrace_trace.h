/* SPDX-License-Identifier: MIT */
/* Shared parts of the nettrace tests: short traces made in memory, and events as JSON text. */
#ifndef NETTRACE_TRACE_H
#define NETTRACE_TRACE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <ringpipe/reader.h>

#include "nettrace/encoder.h"
#include "nettrace/format.h"

#define TRACE_START_NS 1000000ull
#define TRACE_START_UTC_NS 1700000000123000000ll

/* The version of the format that the encoder writes: the tests run with each. */
static inline uint32_t trace_version(void)
{
	const char *text = getenv("TEST_NETTRACE_VERSION");

	return text ? (uint32_t)atoi(text) : 4;
}

static inline struct rp_encoder *trace_begin_at(uint64_t start_ns)
{
	const struct rp_encoder_info info = {
		.start_ns = start_ns,
		.start_utc_ns = TRACE_START_UTC_NS,
		.process_id = 4242,
		.processors = 3,
		.version = trace_version(),
	};
	struct rp_encoder *encoder = NULL;

	cr_assert_eq(rp_encoder_create(&info, &encoder), 0);
	return encoder;
}

static inline struct rp_encoder *trace_begin(void)
{
	return trace_begin_at(TRACE_START_NS);
}

static inline struct rp_encoder_event_type *trace_define(struct rp_encoder *encoder,
							 const char *name, uint32_t id,
							 const struct rp_field *fields,
							 size_t field_count)
{
	const struct rp_definition definition = {
		.provider = "Test-Provider",
		.name = name,
		.id = id,
		.level = RP_LEVEL_INFORMATIONAL,
		.fields = fields,
		.field_count = field_count,
	};
	struct rp_encoder_event_type *type = NULL;

	cr_assert_eq(rp_encoder_define(encoder, &definition, &type), 0);
	return type;
}

/* The payload is copied to memory of its exact size first, so that a sanitizer sees an overrun. */
static inline void trace_event(struct rp_encoder *encoder, const struct rp_encoder_event_type *type,
			       uint64_t time_ns, uint64_t thread, const void *payload, size_t size)
{
	void *copy = malloc(size ? size : 1);
	const struct rp_encoder_event event = {
		.type = type,
		.time_ns = time_ns,
		.thread = thread,
		.processor = thread % 3,
		.payload = copy,
		.payload_bytes = size,
	};

	if (size)
		memcpy(copy, payload, size);
	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
	free(copy);
}

/* Ends the stream; the caller owns the bytes. */
static inline uint8_t *trace_end(struct rp_encoder *encoder, size_t *ret_size)
{
	const void *output;
	uint8_t *bytes;

	cr_assert_eq(rp_encoder_end(encoder), 0);
	output = rp_encoder_output(encoder, ret_size);
	bytes = malloc(*ret_size);
	memcpy(bytes, output, *ret_size);
	rp_encoder_destroy(encoder);
	return bytes;
}

/* A trace with each kind of object and event, and the number of its events. */
static inline uint8_t *trace_make(size_t *ret_size, uint64_t *ret_events)
{
	static const struct rp_field inner[] = {
		{ .name = "x", .type = RP_TYPE_F64 }, { .name = "b", .type = RP_TYPE_BOOL },
	};
	static const struct rp_field fields[] = {
		{ .name = "n", .type = RP_TYPE_U32 },
		{ .name = "s", .type = RP_TYPE_STRING },
		{ .name = "all", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT,
		  .members = inner, .member_count = 2 },
	};
	static const char payload[] = "\1\0\0\0text\0\1\0\0\0\0\0\0\0\0\0\1";
	static const struct rp_guid activity = { { 1, 2, 3 } };
	static const uint64_t frames[] = { 0x400000, 0x400100 };
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *types[2];

	types[0] = trace_define(encoder, "First", 1, fields, 3);
	types[1] = trace_define(encoder, "Second", 2, fields, 2);
	cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS, 0), 0);
	*ret_events = 24;
	for (uint64_t i = 0; i < *ret_events; i++) {
		const struct rp_encoder_event event = {
			.type = types[i / 4 % 2], .time_ns = TRACE_START_NS + 10 * i,
			.thread = i % 3,
			.payload = payload, .payload_bytes = sizeof(payload) - 1,
			.activity = i & 1 ? &activity : NULL,
			.frames = frames, .frame_count = i % 3,
		};

		cr_assert_eq(rp_encoder_event(encoder, &event), 0);
		if (i % 8 == 5)
			cr_assert_eq(rp_encoder_sequence_point(encoder, event.time_ns, i), 0);
		else if (i % 8 == 2)
			cr_assert_eq(rp_encoder_flush(encoder), 0);
	}
	return trace_end(encoder, ret_size);
}

/*
 * The content of the next block of events or stacks, or sequence point, at or after `at`; NULL:
 * there is none.
 */
static inline uint8_t *trace_find_block(uint8_t *bytes, uint8_t *at, size_t size, uint8_t kind)
{
	const char *name = kind == RP_BLOCK_STACK ? "StackBlock\6" :
			   kind == RP_BLOCK_EVENT ? "EventBlock\6" : "SPBlock\6";
	uint32_t word;

	if (trace_version() != 6) {
		at = memmem(at, (size_t)(bytes + size - at), name, strlen(name));
		if (!at)
			return NULL;
		at += strlen(name) + 4;
		return at + (-(at - bytes) & 3);
	}
	/* Blocks follow each other from the Trace block on. */
	for (uint8_t *next = bytes + 20; next < bytes + size; next += 4 + (word & 0xffffff)) {
		memcpy(&word, next, 4);
		if (next >= at && word >> 24 == kind)
			return next + 4;
	}
	return NULL;
}

static inline struct rp_reader *trace_open(const void *bytes, size_t size)
{
	struct rp_reader *reader = NULL;

	cr_assert_eq(rp_reader_open_memory(bytes, size, &reader), 0);
	return reader;
}

static inline char *trace_json(const struct rp_reader_event *event)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	cr_assert_eq(rp_reader_print_json(event, stream), 0);
	fclose(stream);
	return text;
}

static inline struct rp_reader_stats trace_stats(const struct rp_reader *reader)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;

	rp_reader_get_stats(reader, &stats);
	return stats;
}

/*
 * Passes one event with these fields and this payload through encoder and reader. Return: its JSON.
 */
static inline char *trace_round(const struct rp_field *fields, size_t field_count,
				const void *payload, size_t payload_bytes, size_t *ret_wire_bytes)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "Round", 1, fields, field_count);
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;
	char *json;

	trace_event(encoder, type, TRACE_START_NS, 7, payload, payload_bytes);
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	json = trace_json(&event);
	if (ret_wire_bytes)
		*ret_wire_bytes = event.payload_bytes;
	cr_assert_eq(rp_reader_next(reader, &event), 0);
	rp_reader_close(reader);
	free(bytes);
	return json;
}

#endif
