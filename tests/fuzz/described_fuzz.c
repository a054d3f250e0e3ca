/* SPDX-License-Identifier: MIT */
/*
 * Puts any bytes as the payloads of raw events of a component into a trace. The trace must have
 * each raw event, at most one described event after each, and fields that a reader can walk and
 * print. reader_fuzz.c shows how to run it; link all of src/.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/reader.h>
#include <ringpipe/ringpipe.h>

#include "input.h"
#include "nettrace/encoder.h"

#define EVENTS 3

static const struct rp_field fields[] = {
	{ .name = "name", .type = RP_TYPE_STRING },
	{ .name = "payload", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 },
};

static void read_all(const void *bytes, size_t size)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	static FILE *null;
	struct rp_fields walk;
	struct rp_reader *reader;
	unsigned int raw = 0, described = 0;
	int ret;

	if (!null)
		null = fopen("/dev/null", "w");
	if (!null || rp_reader_open_memory(bytes, size, &reader) < 0)
		__builtin_trap();
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (event.type->id == 1)
			raw++;
		else
			described++;
		if (described > raw)
			__builtin_trap();
		rp_reader_get_fields(&event, &walk);
		fuzz_walk(walk);
		if (rp_reader_print_json(&event, null) != 0)
			__builtin_trap();
	}
	if (ret != 0 || raw != EVENTS)
		__builtin_trap();
	rp_reader_close(reader);
}

/* The first byte selects the version of the format; the rest is the raw event's whole payload. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const struct rp_definition definition = {
		.provider = "Fuzzed", .name = "DynamicError", .id = 1, .level = RP_LEVEL_ERROR,
		.fields = fields, .field_count = 2,
	};
	struct rp_encoder_info info = { .process_id = 1, .processors = 1 };
	struct rp_encoder_event event = { .thread = 1 };
	struct rp_encoder_event_type *type;
	struct rp_encoder *encoder;
	const void *output;

	if (size == 0 || size > RP_PAYLOAD_MAX)
		return 0;
	info.version = bytes[0] & 1 ? 6 : 4;
	if (rp_encoder_create(&info, &encoder) != 0)
		return 0;
	if (rp_encoder_define(encoder, &definition, &type) != 0)
		__builtin_trap();
	event.type = type;
	event.payload = bytes + 1;
	event.payload_bytes = size - 1;
	for (int i = 0; i < EVENTS; i++) {
		if (rp_encoder_event(encoder, &event) != 0)
			__builtin_trap();
	}
	if (rp_encoder_end(encoder) != 0)
		__builtin_trap();
	output = rp_encoder_output(encoder, &size);
	read_all(output, size);
	rp_encoder_destroy(encoder);
	return 0;
}
