/* SPDX-License-Identifier: MIT */
/*
 * Random events of every type, written once and read by four consumers: a file and a listener of
 * the library, a client's tracepoint and the kernel's typed tracepoints.
 */
#include "user_events.h"

#include <ringpipe/reader.h>

#include "../same.h"

#define WRITTEN 400u
#define KINDS 4u
#define PATH "/tmp/same.nettrace"

static unsigned int seed = 1;

static uint64_t some(void)
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | (uint64_t)(rand_r(&seed) >> 8 & 0xff);
	return value;
}

static void fill(void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)bytes)[i] = (uint8_t)some();
}

static void write_reals(uint32_t writer, uint64_t serial)
{
	uint64_t bits = some();
	uint32_t low = (uint32_t)bits;
	double f64;
	float f32;

	memcpy(&f64, &bits, sizeof(f64));
	memcpy(&f32, &low, sizeof(f32));
	/* A NaN may change in a register, so zero is used instead. */
	same_reals(writer, serial, some() & 1, (char)some(), f32 == f32 ? f32 : 0,
		   f64 == f64 ? f64 : 0, (void *)(uintptr_t)some(), (int64_t)(some() >> 2),
		   (int32_t)some());
}

static void write_texts(uint32_t writer, uint64_t serial)
{
	static const char *const pieces[] = { "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
	rp_char16 text16[9] = { 0 };
	struct rp_guid guid;
	char text[64] = "";

	for (uint64_t i = some() % 10; i > 0; i--)
		strcat(text, pieces[some() % 4]);
	for (uint64_t i = some() % 9; i > 0; i--)
		text16[i - 1] = (rp_char16)(1 + some() % 0xd000);
	fill(&guid, sizeof(guid));
	same_texts(writer, serial, text, text16, &guid);
}

static void write_lists(uint32_t writer, uint64_t serial)
{
	struct same_point points[3];
	uint8_t blob[50];
	uint32_t list[20];

	fill(points, sizeof(points));
	fill(blob, sizeof(blob));
	fill(list, sizeof(list));
	same_lists(writer, serial, blob, some() % 51, list, some() % 21, &points[0], points,
		   some() % 4);
}

static void write_event(uint64_t serial)
{
	uint32_t writer = (uint32_t)getpid();

	switch (some() % KINDS) {
	case 0:
		same_integers(writer, serial, (int8_t)some(), (uint8_t)some(), (int16_t)some(),
			      (uint16_t)some(), (int32_t)some(), (uint32_t)some(), (int64_t)some(),
			      some());
		break;
	case 1:
		write_reals(writer, serial);
		break;
	case 2:
		write_texts(writer, serial);
		break;
	default:
		write_lists(writer, serial);
	}
}

/* Copies a variable-length field, preceded by its count if its elements have a fixed size. */
static size_t put_place(uint8_t *out, const uint8_t *fields, size_t at, uint32_t element_bytes)
{
	uint32_t place = u32_at(fields + at), size = place >> 16;
	uint16_t count = element_bytes ? (uint16_t)(size / element_bytes) : 0;
	size_t n = 0;

	if (element_bytes) {
		memcpy(out, &count, sizeof(count));
		n = sizeof(count);
	}
	memcpy(out + n, fields + (place & 0xffff) - 8, size);
	return n + size;
}

/* Converts a typed record to the payload that listeners get. */
static size_t payload_of(uint32_t id, const uint8_t *fields, size_t fixed, uint8_t *out)
{
	size_t n = 12;

	memcpy(out, fields, n);
	switch (id) {
	case 3:
		n += put_place(out + n, fields, 12, 0);
		n += put_place(out + n, fields, 16, 0);
		memset(out + n, 0, 2);
		n += 2;
		memcpy(out + n, fields + 20, 16);
		return n + 16;
	case 4:
		n += put_place(out + n, fields, 12, 1);
		n += put_place(out + n, fields, 16, 4);
		memcpy(out + n, fields + 20, 6);
		n += 6;
		return n + put_place(out + n, fields, 26, 6);
	default:
		memcpy(out, fields, fixed);
		return fixed;
	}
}

static const char *const tracepoints[KINDS] = { "Same_integers", "Same_reals", "Same_texts",
						"Same_lists" };

static struct rp_session_provider same_wanted = {
	.size = sizeof(same_wanted), .name = "Same", .keywords = UINT64_MAX, .level = 5,
};

static void compare_typed(struct rp_listener *listener, struct perf perfs[KINDS])
{
	uint8_t fields[BYTES_MAX], payload[BYTES_MAX];
	struct rp_listener_event event = RP_LISTENER_EVENT_INIT;

	for (uint64_t serial = 0; serial < WRITTEN; serial++) {
		size_t n;

		check(rp_listener_next(listener, &event, PATIENCE_S * 1000) == 1);
		check(event.id >= 1 && event.id <= KINDS);
		check(strcmp(tracepoints[event.id - 1] + strlen("Same_"), event.name) == 0);
		check(memcmp((const uint8_t *)event.payload + 4, &serial, sizeof(serial)) == 0);
		check(perf_next(&perfs[event.id - 1], fields, sizeof(fields)) > 0);
		n = payload_of(event.id, fields, event.payload_bytes, payload);
		check(n == event.payload_bytes && memcmp(payload, event.payload, n) == 0);
	}
	for (unsigned int i = 0; i < KINDS; i++)
		check(perf_next(&perfs[i], fields, sizeof(fields)) == 0);
}

static void compare_file(struct perf *perf)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	uint8_t fields[BYTES_MAX];
	uint64_t count = 0;
	int ret;

	check(rp_reader_open(PATH, &reader) == 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		struct record record;

		if (strcmp(event.type->provider, "Same") != 0)
			continue;
		record = next_record(perf, fields);
		check(record.id == event.type->id);
		expect_text(expect_text(record.metadata, "Same") + 4, event.type->name);
		check(record.payload_bytes == event.payload_bytes);
		check(memcmp(record.payload, event.payload, event.payload_bytes) == 0);
		count++;
	}
	check(ret == 0 && count == WRITTEN);
	check(perf_next(perf, fields, sizeof(fields)) == 0);
	rp_reader_close(reader);
}

void file_listener_and_tracepoints_hold_the_same(void)
{
	const struct wish wish = { .provider = "Same", .keywords = UINT64_MAX, .level = 5,
				   .tracepoint = "same_all" };
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &same_wanted, .provider_count = 1,
		.output_path = PATH,
	};
	struct perf perfs[KINDS], perf;
	struct rp_listener *listener;
	struct rp_session *file;
	int session = start(&wish);

	perf = perf_open("same_all");
	for (unsigned int i = 0; i < KINDS; i++)
		perfs[i] = perf_open(tracepoints[i]);
	check(rp_session_start(&options, &file) == 0);
	check(rp_listener_start(&options, NULL, NULL, &listener) == 0);
	for (uint64_t serial = 0; serial < WRITTEN; serial++)
		write_event(serial);
	check(rp_session_stop(file, NULL) == 0);
	compare_file(&perf);
	compare_typed(listener, perfs);
	rp_listener_stop(listener, NULL);
	perf_close(&perf);
	for (unsigned int i = 0; i < KINDS; i++)
		perf_close(&perfs[i]);
	end(session, "same_all");
}
