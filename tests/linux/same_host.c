/* SPDX-License-Identifier: MIT */
/*
 * same_host run DIRECTORY EVENTS THREADS SEED: writes events of every type of field with random
 * values, and a list of them, made only from the values, to `account`. A session writes them to
 * `trace.nettrace`, and a listener's events are printed to `listener`. Commands on stdin:
 *
 *	start		starts session and listener
 *	enabled		the names of the events that are on
 *	write		writes all of them, each thread its share
 *	stop		ends session and listener, prints what they lost
 *
 * same_host read FILE: prints a .nettrace file's events in the same form as the listener's.
 *
 * A line is an event: its name, then name=value for each field. Numbers are decimal, pointers too;
 * floating point is hex of its bits, text and bytes are hex, [] holds elements and members. `at` is
 * its time, in nanoseconds of CLOCK_MONOTONIC. In `account` a line `when` follows, with that
 * clock's times before and after the write.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringpipe/reader.h>

#include "same.h"

#define TEXT_MAX 24
#define LIST_MAX 6

struct writer {
	pthread_t thread;
	uint32_t number;
	uint64_t events;
	uint64_t random;
	char *expected;
	size_t expected_bytes;
	FILE *stream;
};

static uint64_t next_random(struct writer *writer)
{
	/* xorshift64* (Vigna) */
	writer->random ^= writer->random >> 12;
	writer->random ^= writer->random << 25;
	writer->random ^= writer->random >> 27;
	return writer->random * 2685821657736338717ull;
}

/* Often the limits of the range. */
static uint64_t any_bits(struct writer *writer)
{
	static const uint64_t edges[] = {
		0, 1, UINT64_MAX, 0x7f, 0x80, 0x7fff, 0x8000, 0x7fffffff, 0x80000000,
		INT64_MAX, (uint64_t)INT64_MIN,
	};
	uint64_t random = next_random(writer);

	return random % 4 == 0 ? edges[(random >> 8) % (sizeof(edges) / sizeof(edges[0]))] :
				 next_random(writer);
}

static void print_hex(FILE *stream, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		fprintf(stream, "%02x", ((const uint8_t *)bytes)[i]);
}

static void write_integers(struct writer *writer, uint64_t serial)
{
	uint64_t a = any_bits(writer), b = any_bits(writer), c = any_bits(writer);
	uint64_t d = any_bits(writer), e = any_bits(writer);

	fprintf(writer->stream,
		"integers writer=%u serial=%" PRIu64 " i8=%d u8=%u i16=%d u16=%u i32=%d u32=%u "
		"i64=%" PRId64 " u64=%" PRIu64 "\n", writer->number, serial, (int8_t)a, (uint8_t)b,
		(int16_t)c, (uint16_t)d, (int32_t)e, (uint32_t)a, (int64_t)b, c);
	same_integers(writer->number, serial, (int8_t)a, (uint8_t)b, (int16_t)c, (uint16_t)d,
		      (int32_t)e, (uint32_t)a, (int64_t)b, c);
}

static void write_reals(struct writer *writer, uint64_t serial)
{
	uint64_t a = any_bits(writer), pointer = any_bits(writer) & 0x7fffffffffffull;
	/* .NET's clock has steps of 100 ns, and begins in 1601. */
	int64_t time = (int64_t)(next_random(writer) % 4000000000000000000ull) / 100 * 100;
	float f32 = (float)(int64_t)any_bits(writer) / 3;
	double f64 = (double)(int64_t)any_bits(writer) / 7;
	int32_t state = a & 1 ? SAME_BUSY : (int32_t)any_bits(writer);
	uint32_t bits32;
	uint64_t bits64;

	memcpy(&bits32, &f32, sizeof(bits32));
	memcpy(&bits64, &f64, sizeof(bits64));
	fprintf(writer->stream,
		"reals writer=%u serial=%" PRIu64 " truth=%d letter=%u f32=%08x f64=%016" PRIx64
		" pointer=%" PRIu64 " time=%" PRId64 " state=%d\n", writer->number, serial,
		(int)(a & 1), (uint8_t)(a >> 8), bits32, bits64, pointer, time, state);
	same_reals(writer->number, serial, a & 1, (char)(a >> 8), f32, f64,
		   (const void *)(uintptr_t)pointer, time, state);
}

/* Characters of one to four bytes of UTF-8. Return: the count of UTF-16 units. */
static size_t any_text(struct writer *writer, char *text, rp_char16 *text16)
{
	static const char *const characters[] = { "a", "Z", " ", "\"", "ü", "é", "€", "世", "🛒" };
	static const rp_char16 units[][2] = {
		{ 'a' }, { 'Z' }, { ' ' }, { '"' }, { 0xfc }, { 0xe9 }, { 0x20ac }, { 0x4e16 },
		{ 0xd83d, 0xded2 },
	};
	size_t length = next_random(writer) % TEXT_MAX, count = 0;

	text[0] = '\0';
	for (size_t i = 0; i < length; i++) {
		size_t which = next_random(writer) % 9;

		strcat(text, characters[which]);
		text16[count++] = units[which][0];
		if (units[which][1])
			text16[count++] = units[which][1];
	}
	text16[count] = 0;
	return count;
}

static void write_texts(struct writer *writer, uint64_t serial)
{
	/* Padded, since a tracer without a length reads further. */
	char text[4 * TEXT_MAX + 1], text8[4 * TEXT_MAX + 1];
	rp_char16 text16[128], unused[128];
	struct rp_guid guid;

	(void)any_text(writer, text, unused);
	(void)any_text(writer, text8, text16);
	for (size_t i = 0; i < sizeof(guid); i++)
		guid.bytes[i] = (uint8_t)(next_random(writer) >> 16);
	fprintf(writer->stream, "texts writer=%u serial=%" PRIu64 " text=", writer->number, serial);
	print_hex(writer->stream, text, strlen(text));
	fputs(" text16=", writer->stream);
	print_hex(writer->stream, text8, strlen(text8));
	fputs(" guid=", writer->stream);
	print_hex(writer->stream, &guid, sizeof(guid));
	fputc('\n', writer->stream);
	same_texts(writer->number, serial, text, text16, &guid);
}

static void print_point(FILE *stream, const struct same_point *point)
{
	fprintf(stream, "[x=%d y=%u]", point->x, point->y);
}

static void write_lists(struct writer *writer, uint64_t serial)
{
	size_t bytes = next_random(writer) % 40, count = next_random(writer) % LIST_MAX;
	size_t points = next_random(writer) % LIST_MAX;
	struct same_point point[LIST_MAX + 1];
	uint32_t list[LIST_MAX];
	uint8_t blob[40];

	for (size_t i = 0; i < sizeof(blob); i++)
		blob[i] = (uint8_t)(next_random(writer) >> 16);
	for (size_t i = 0; i < LIST_MAX; i++)
		list[i] = (uint32_t)any_bits(writer);
	for (size_t i = 0; i <= LIST_MAX; i++) {
		point[i].x = (int32_t)any_bits(writer);
		point[i].y = (uint16_t)any_bits(writer);
	}
	fprintf(writer->stream, "lists writer=%u serial=%" PRIu64 " blob=", writer->number, serial);
	print_hex(writer->stream, blob, bytes);
	fputs(" list=[", writer->stream);
	for (size_t i = 0; i < count; i++)
		fprintf(writer->stream, "%s%u", i ? " " : "", list[i]);
	fputs("] point=", writer->stream);
	print_point(writer->stream, &point[LIST_MAX]);
	fputs(" points=[", writer->stream);
	for (size_t i = 0; i < points; i++) {
		fputs(i ? " " : "", writer->stream);
		print_point(writer->stream, &point[i]);
	}
	fputs("]\n", writer->stream);
	same_lists(writer->number, serial, blob, bytes, list, count, &point[LIST_MAX], point,
		   points);
}

/* The account contains the redacted values, which all consumers see. */
static void write_secrets(struct writer *writer, uint64_t serial)
{
	char password[32];

	snprintf(password, sizeof(password), "hunter2-%016" PRIx64, next_random(writer));
	fprintf(writer->stream, "secrets writer=%u serial=%" PRIu64 " password=", writer->number,
		serial);
	print_hex(writer->stream, "***", 3);
	fputs(" pin=0\n", writer->stream);
	same_secrets(writer->number, serial, password, next_random(writer) | 1);
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *write_share(void *data)
{
	struct writer *writer = data;

	for (uint64_t serial = 1; serial <= writer->events; serial++) {
		const uint64_t before = monotonic_ns();

		switch (next_random(writer) % 5) {
		case 0: write_integers(writer, serial); break;
		case 1: write_reals(writer, serial); break;
		case 2: write_texts(writer, serial); break;
		case 3: write_secrets(writer, serial); break;
		default: write_lists(writer, serial); break;
		}
		fprintf(writer->stream, "when writer=%u serial=%" PRIu64 " before=%" PRIu64
			" after=%" PRIu64 "\n", writer->number, serial, before, monotonic_ns());
	}
	fclose(writer->stream);
	return NULL;
}

/* Named like in a nettrace file, or as written: GUIDs differ in their byte order. */
static void print_fields(FILE *stream, struct rp_fields *fields, bool named);

static void print_value(FILE *stream, struct rp_value *value)
{
	char text[512];
	uint32_t bits32;
	float f32;

	switch (value->type) {
	case RP_TYPE_I8: case RP_TYPE_I16: case RP_TYPE_I32: case RP_TYPE_I64: case RP_TYPE_TIME:
		fprintf(stream, "%" PRId64, value->i64);
		break;
	case RP_TYPE_F32:
		f32 = (float)value->f64;
		memcpy(&bits32, &f32, sizeof(bits32));
		fprintf(stream, "%08x", bits32);
		break;
	case RP_TYPE_F64:
		fprintf(stream, "%016" PRIx64, value->u64);
		break;
	case RP_TYPE_GUID:
		print_hex(stream, &value->guid, sizeof(value->guid));
		break;
	case RP_TYPE_STRING: case RP_TYPE_STRING16:
		print_hex(stream, text, rp_value_get_text(value, text, sizeof(text)));
		break;
	case RP_TYPE_ARRAY:
		if (value->element == RP_TYPE_U8) {
			print_hex(stream, value->bytes, value->size_bytes);
			break;
		}
		fputc('[', stream);
		print_fields(stream, &value->inner, false);
		fputc(']', stream);
		break;
	case RP_TYPE_STRUCT:
		fputc('[', stream);
		print_fields(stream, &value->inner, true);
		fputc(']', stream);
		break;
	default:
		fprintf(stream, "%" PRIu64, value->u64);
	}
}

static void print_fields(FILE *stream, struct rp_fields *fields, bool named)
{
	struct rp_value value = RP_VALUE_INIT;
	const char *space = "";

	while (rp_fields_next(fields, &value) == 1) {
		fputs(space, stream);
		if (named)
			fprintf(stream, "%s=", value.name);
		print_value(stream, &value);
		space = " ";
	}
}

static void on_event(const struct rp_listener_event *event, void *data)
{
	struct rp_fields fields;

	fprintf(data, "%s at=%" PRIu64 " ", event->name, event->time_ns);
	rp_listener_get_fields(event, &fields);
	print_fields(data, &fields, true);
	fputc('\n', data);
}

static int read_trace(const char *path)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_reader *reader;
	struct rp_fields fields;
	int ret = rp_reader_open(path, &reader);

	if (ret == 0)
		rp_reader_get_info(reader, &info);
	while (ret == 0 && (ret = rp_reader_next(reader, &event)) == 1) {
		ret = 0;
		if (strcmp(event.type->provider, "Same") != 0)
			continue;
		/* Its ticks are nanoseconds. */
		printf("%s at=%" PRIu64 " ", event.type->name,
		       info.start_ticks + (uint64_t)event.time_ns);
		rp_reader_get_fields(&event, &fields);
		print_fields(stdout, &fields, true);
		putchar('\n');
	}
	if (ret != 0)
		fprintf(stderr, "same_host: %s: %s\n", path, strerror(-ret));
	else
		rp_reader_close(reader);
	return ret != 0;
}

static FILE *open_in(const char *directory, const char *name)
{
	char path[4096];
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	stream = fopen(path, "w");
	if (!stream) {
		perror(path);
		exit(1);
	}
	return stream;
}

static void write_all(const char *directory, uint64_t events, uint32_t threads, uint64_t seed)
{
	struct writer *writers = calloc(threads, sizeof(*writers));
	FILE *expected = open_in(directory, "account");

	for (uint32_t i = 0; i < threads; i++) {
		writers[i].number = i;
		writers[i].events = events / threads;
		writers[i].random = (seed + i) * 0x9e3779b97f4a7c15ull | 1;
		writers[i].stream = open_memstream(&writers[i].expected,
						   &writers[i].expected_bytes);
		if (pthread_create(&writers[i].thread, NULL, write_share, &writers[i]) != 0)
			exit(1);
	}
	for (uint32_t i = 0; i < threads; i++) {
		pthread_join(writers[i].thread, NULL);
		fwrite(writers[i].expected, 1, writers[i].expected_bytes, expected);
		free(writers[i].expected);
	}
	free(writers);
	fclose(expected);
}

static void report_enabled(void)
{
	printf("%s%s%s%s%s.\n", same_integers_enabled() ? "integers " : "",
	       same_reals_enabled() ? "reals " : "", same_texts_enabled() ? "texts " : "",
	       same_lists_enabled() ? "lists " : "", same_secrets_enabled() ? "secrets " : "");
}

static int run(char **argv)
{
	struct rp_session_provider provider = {
		.size = sizeof(provider), .level = 5, .name = "Same", .keywords = ~0ull,
	};
	struct rp_session_options options = {
		.size = sizeof(options), .providers = &provider, .provider_count = 1,
	};
	struct rp_session_stats file = RP_SESSION_STATS_INIT, heard = RP_SESSION_STATS_INIT;
	struct rp_listener *listener;
	struct rp_session *session;
	char path[4096], line[64];
	FILE *reported = open_in(argv[2], "listener");

	snprintf(path, sizeof(path), "%s/trace.nettrace", argv[2]);
	options.output_path = path;
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "start") == 0) {
			if (rp_session_start(&options, &session) != 0 ||
			    rp_listener_start(&options, on_event, reported, &listener) != 0)
				return 1;
			puts("started");
		} else if (strcmp(line, "enabled") == 0) {
			report_enabled();
		} else if (strcmp(line, "write") == 0) {
			write_all(argv[2], strtoull(argv[3], NULL, 10),
				  (uint32_t)strtoul(argv[4], NULL, 10),
				  strtoull(argv[5], NULL, 10));
			puts("written");
		} else if (strcmp(line, "stop") == 0) {
			if (rp_listener_drain(listener) != 0 ||
			    rp_listener_stop(listener, &heard) != 0 ||
			    rp_session_stop(session, &file) != 0)
				return 1;
			fclose(reported);
			printf("%" PRIu64 " %" PRIu64 "\n", file.lost, heard.lost);
		}
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "read") == 0)
		return read_trace(argv[2]);
	if (argc == 6 && strcmp(argv[1], "run") == 0)
		return run(argv);
	fprintf(stderr, "usage: same_host run DIRECTORY EVENTS THREADS SEED | read FILE\n");
	return 2;
}
