/* SPDX-License-Identifier: MIT */
#include "nettrace_trace.h"

#include <ringpipe/component.h>

#include "nettrace/self_describing.h"

#define TYPES_MAX 1024u

static const struct rp_field raw_fields[] = {
	{ .name = "name", .type = RP_TYPE_STRING },
	{ .name = "payload", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 },
};

/* Encode a raw event. */
static void put_raw(struct rp_encoder *encoder, struct rp_encoder_event_type *type,
		    uint64_t time_ns, const char *name, const void *payload, uint16_t bytes)
{
	char raw[4096];
	size_t size = strlen(name) + 1;

	memcpy(raw, name, size);
	memcpy(raw + size, &bytes, sizeof(bytes));
	memcpy(raw + size + sizeof(bytes), payload, bytes);
	trace_event(encoder, type, time_ns, 7, raw, size + sizeof(bytes) + bytes);
}

static struct rp_component_payload sample(void)
{
	struct rp_component_payload payload;

	rp_component_payload_init(&payload);
	rp_component_put_u32(&payload, "count", 5);
	rp_component_put_text(&payload, "why", "full");
	rp_component_put_blob(&payload, "data", "\1\2", 2);
	return payload;
}

/* Return: the number of events in a trace, after checking that the raw ones have this name. */
static unsigned int count_events(const uint8_t *bytes, size_t size, unsigned int *ret_described)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader = trace_open(bytes, size);
	unsigned int raw = 0;
	int ret;

	*ret_described = 0;
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		bool is_raw = strcmp(event.type->name, "DynamicError") == 0;

		raw += is_raw;
		*ret_described += !is_raw;
		cr_assert_str_eq(event.type->provider, "Test-Provider");
	}
	cr_assert_eq(ret, 0);
	rp_reader_close(reader);
	return raw;
}

/* Return: how many events one raw event describes. */
static unsigned int described_by(const char *name, const void *payload, uint16_t bytes)
{
	struct rp_encoder *encoder = trace_begin();
	unsigned int described;
	uint8_t *trace;
	size_t size;

	put_raw(encoder, trace_define(encoder, "DynamicError", 9, raw_fields, 2), TRACE_START_NS,
		name, payload, bytes);
	trace = trace_end(encoder, &size);
	cr_assert_eq(count_events(trace, size, &described), 1);
	free(trace);
	return described;
}

Test(self_describing, only_a_complete_payload_is_decoded)
{
	struct rp_component_payload payload = sample();
	uint8_t longer[RP_COMPONENT_PAYLOAD_MAX + 1];

	cr_expect_eq(described_by("Sample", payload.bytes, (uint16_t)payload.used), 1);
	for (uint16_t bytes = 0; bytes < payload.used; bytes++)
		cr_expect_eq(described_by("Sample", payload.bytes, bytes), 0, "%u", bytes);
	memcpy(longer, payload.bytes, payload.used);
	longer[payload.used] = 0;
	cr_expect_eq(described_by("Sample", longer, (uint16_t)(payload.used + 1)), 0);
}

Test(self_describing, unknown_versions_types_and_names_are_not_decoded)
{
	/* Offsets: magic, count, flags, and the type and name of the first field. */
	static const struct {
		unsigned int offset;
		uint8_t value;
	} rows[] = {
		{ 0, 0 }, { 3, 2 }, { 4, 2 }, { 4, 4 }, { 5, 1 }, { 6, 2 }, { 7, 1 },
		{ 8, RP_TYPE_NONE }, { 8, RP_TYPE_TIME }, { 8, RP_TYPE_STRUCT }, { 8, 255 },
		{ 9, 0 }, { 9, 0xff },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rp_component_payload payload = sample();

		payload.bytes[rows[i].offset] = rows[i].value;
		cr_expect_eq(described_by("Sample", payload.bytes, (uint16_t)payload.used), 0,
			     "%zu", i);
	}
	cr_expect_eq(described_by("", sample().bytes, (uint16_t)sample().used), 0);
	cr_expect_eq(described_by("\xff", sample().bytes, (uint16_t)sample().used), 0);
}

Test(self_describing, other_events_are_not_decoded)
{
	static const struct rp_field others[][2] = {
		{ { .name = "name", .type = RP_TYPE_STRING },
		  { .name = "bytes", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 } },
		{ { .name = "name", .type = RP_TYPE_STRING },
		  { .name = "payload", .type = RP_TYPE_ARRAY, .element = RP_TYPE_I8 } },
		{ { .name = "title", .type = RP_TYPE_STRING },
		  { .name = "payload", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 } },
	};
	struct rp_component_payload payload = sample();
	struct rp_encoder *encoder = trace_begin();
	unsigned int described;
	uint8_t *trace;
	size_t size;

	for (unsigned int i = 0; i < 3; i++)
		put_raw(encoder, trace_define(encoder, "DynamicError", i, others[i], 2),
			TRACE_START_NS, "Sample", payload.bytes, (uint16_t)payload.used);
	put_raw(encoder, trace_define(encoder, "Error", 9, raw_fields, 2), TRACE_START_NS, "Sample",
		payload.bytes, (uint16_t)payload.used);
	trace = trace_end(encoder, &size);
	cr_expect_eq(count_events(trace, size, &described), 3);
	cr_expect_eq(described, 1);	/* the event called Error */
	free(trace);
}

/* A component may make names from data. */
Test(self_describing, types_are_limited_and_have_ids_of_their_own)
{
	struct rp_component_payload payload = sample();
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *raw = trace_define(encoder, "DynamicError", 9, raw_fields, 2);
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	static bool used[65536];
	struct rp_reader *reader;
	uint8_t *trace;
	unsigned int described = 0;
	char name[16];
	size_t size;

	for (unsigned int i = 0; i < TYPES_MAX + 5; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		put_raw(encoder, raw, TRACE_START_NS + i, name, payload.bytes,
			(uint16_t)payload.used);
	}
	put_raw(encoder, raw, TRACE_START_NS + TYPES_MAX + 5, "n0", payload.bytes,
		(uint16_t)payload.used);
	trace = trace_end(encoder, &size);
	reader = trace_open(trace, size);
	while (rp_reader_next(reader, &event) == 1) {
		if (strcmp(event.type->name, "DynamicError") == 0)
			continue;
		cr_assert_geq(event.type->id, 32768u);
		cr_assert_leq(event.type->id, RP_EVENT_ID_MAX);
		cr_assert(described == TYPES_MAX || !used[event.type->id]);
		used[event.type->id] = true;
		described++;
	}
	cr_expect_eq(described, TYPES_MAX + 1);
	rp_reader_close(reader);
	free(trace);
}

Test(self_describing, fields_that_do_not_fit_are_left_out_and_reported)
{
	static char text[RP_COMPONENT_PAYLOAD_MAX];
	struct rp_component_payload payload;
	struct rp_self_describing walk;
	struct rp_field field;
	struct rp_value value;

	memset(text, 'x', sizeof(text) - 1);
	rp_component_payload_init(&payload);
	rp_component_put_text(&payload, "long", text);
	rp_component_put_text(&payload, text, "name");
	rp_component_put_blob(&payload, "large", text, 70000);
	rp_component_put_u8(&payload, "small", 3);
	cr_assert_leq(payload.used, RP_COMPONENT_PAYLOAD_MAX);
	cr_assert(rp_self_describing_begin(&walk, payload.bytes, payload.used));
	cr_expect(walk.is_cut);
	cr_assert(rp_self_describing_next(&walk, &field, &value));
	cr_expect_str_eq(field.name, "small");
	cr_expect_eq(value.u64, 3);
	cr_expect_not(rp_self_describing_next(&walk, &field, &value));
}
