/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "nettrace/format.h"
#include "nettrace/outbuf.h"
#include "nettrace_trace.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Traces made byte by byte, in forms that ringpipe's encoder never writes. */

static void put_name(struct rp_outbuf *out, const char *name)
{
	for (; *name; name++)
		rp_outbuf_put(out, (char [2]) { *name }, 2);
	rp_outbuf_put(out, "\0", 2);
}

static void begin_object(struct rp_outbuf *out, const char *name, uint32_t version)
{
	rp_outbuf_put(out, "\5\5\1", 3);
	rp_outbuf_put_u32(out, version);
	rp_outbuf_put_u32(out, version);
	rp_outbuf_put_u32(out, strlen(name));
	rp_outbuf_put(out, name, strlen(name));
	rp_outbuf_put_u8(out, RP_TAG_END);
}

static void put_block(struct rp_outbuf *out, const char *name, const struct rp_outbuf *content)
{
	begin_object(out, name, RP_BLOCK_VERSION);
	rp_outbuf_put_u32(out, content->size);
	rp_outbuf_put(out, "\0\0\0", -out->size & 3);
	rp_outbuf_put(out, content->bytes, content->size);
	rp_outbuf_put_u8(out, RP_TAG_END);
}

static void put_header(struct rp_outbuf *out, uint32_t version, uint32_t pointer_bytes)
{
	static const uint16_t utc[8] = { 2024, 2, 4, 29, 1, 2, 3, 4 };

	rp_outbuf_put(out, RP_NETTRACE_MAGIC, 8);
	rp_outbuf_put_u32(out, 20);
	rp_outbuf_put(out, RP_NETTRACE_SERIALIZER, 20);
	begin_object(out, "Trace", version);
	rp_outbuf_put(out, utc, 16);
	rp_outbuf_put_u64(out, 500);
	rp_outbuf_put_u64(out, 10000000);
	rp_outbuf_put_u32(out, pointer_bytes);
	rp_outbuf_put_u32(out, 99);
	rp_outbuf_put_u32(out, 4);
	rp_outbuf_put_u32(out, 0);
	rp_outbuf_put_u8(out, RP_TAG_END);
}

static void put_block_header(struct rp_outbuf *out, uint16_t flags)
{
	static const uint16_t size = 24;	/* readers skip unknown fields */

	rp_outbuf_put(out, &size, 2);
	rp_outbuf_put(out, &flags, 2);
	rp_outbuf_put(out, (uint8_t [20]) { 0 }, 20);
}

static void put_fixed_event(struct rp_outbuf *out, uint32_t metadata_id, uint32_t sequence,
			    uint64_t thread, uint64_t time, const void *payload, uint32_t size)
{
	uint32_t padding = -size & 3;

	/* Writers may include the padding in the size or not: here, blocks of even size do not. */
	rp_outbuf_put_u32(out, RP_EVENT_FIXED_BYTES - 4 + size + (size & 1 ? padding : 0));
	rp_outbuf_put_u32(out, metadata_id);
	rp_outbuf_put_u32(out, sequence);
	rp_outbuf_put_u64(out, thread);
	rp_outbuf_put_u64(out, thread);
	rp_outbuf_put_u32(out, 2);
	rp_outbuf_put_u32(out, 0);
	rp_outbuf_put_u64(out, time);
	rp_outbuf_put(out, (uint8_t [32]) { 0 }, 32);
	rp_outbuf_put_u32(out, size);
	rp_outbuf_put(out, payload, size);
	rp_outbuf_put(out, "\0\0\0", padding);
}

/* Writes the header of a blob for event `id`; the caller adds fields and tags. */
static void put_blob_header(struct rp_outbuf *out, uint32_t id)
{
	rp_outbuf_put_u32(out, id);
	put_name(out, "Hand");
	rp_outbuf_put_u32(out, id);
	put_name(out, "");
	rp_outbuf_put_u64(out, 1);
	rp_outbuf_put_u32(out, 2);
	rp_outbuf_put_u32(out, 4);
}

static void put_definition(struct rp_outbuf *out, const struct rp_outbuf *blob)
{
	struct rp_outbuf content = { 0 };

	put_block_header(&content, 0);
	put_fixed_event(&content, 0, 0, 0, 0, blob->bytes, blob->size);
	put_block(out, "MetadataBlock", &content);
	rp_outbuf_fini(&content);
}

static void put_plain_definition(struct rp_outbuf *out, uint32_t id)
{
	struct rp_outbuf blob = { 0 };

	put_blob_header(&blob, id);
	put_definition(out, &blob);
	rp_outbuf_fini(&blob);
}

static void put_sequence_point(struct rp_outbuf *out, uint64_t thread, uint32_t sequence)
{
	struct rp_outbuf content = { 0 };

	rp_outbuf_put_u64(&content, 0);
	rp_outbuf_put_u32(&content, 1);
	rp_outbuf_put_u64(&content, thread);
	rp_outbuf_put_u32(&content, sequence);
	put_block(out, "SPBlock", &content);
	rp_outbuf_fini(&content);
}

static void put_one_event(struct rp_outbuf *out, uint32_t id, uint32_t sequence, uint64_t thread,
			  const void *payload, uint32_t size)
{
	struct rp_outbuf content = { 0 };

	put_block_header(&content, 0);
	put_fixed_event(&content, id, sequence, thread, 500, payload, size);
	put_block(out, "EventBlock", &content);
	rp_outbuf_fini(&content);
}

/* Reads and prints everything. Return: the result of the last call. */
static int read_all(const void *bytes, size_t size, uint64_t *ret_events)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint8_t *copy = malloc(size ? size : 1);
	struct rp_reader *reader;
	int ret;

	*ret_events = 0;
	if (size)
		memcpy(copy, bytes, size);
	ret = rp_reader_open_memory(copy, size, &reader);
	if (!ret) {
		while ((ret = rp_reader_next(reader, &event)) == 1) {
			free(trace_json(&event));
			++*ret_events;
		}
		cr_expect_eq(rp_reader_next(reader, &event), ret);
		cr_expect_eq(*rp_reader_error(reader) != 0, ret != 0);
		cr_expect_eq(trace_stats(reader).events, *ret_events);
		rp_reader_close(reader);
	}
	free(copy);
	return ret;
}

Test(reader, gives_the_whole_events_of_a_file_cut_anywhere)
{
	uint64_t events, got, before = 0;
	uint8_t *bytes;
	size_t size;

	bytes = trace_make(&size, &events);
	for (size_t cut = 0; cut < size; cut++) {
		int ret = read_all(bytes, cut, &got);

		cr_expect(ret == -ENODATA || (ret == -EBADMSG && !got), "cut at %zu: %d", cut, ret);
		cr_expect(got >= before && got <= events, "cut at %zu", cut);
		before = got;
	}
	cr_expect_eq(before, events);
	cr_expect_eq(read_all(bytes, size, &got), 0);
	cr_expect_eq(got, events);
	free(bytes);
}

Test(reader, survives_any_byte_changed)
{
	static const uint8_t changes[] = { 0xff, 0x80, 0x01, 0x40, 0x08 };
	uint64_t events, got;
	uint8_t *bytes;
	size_t size;

	bytes = trace_make(&size, &events);
	for (size_t at = 0; at < size; at++) {
		for (size_t i = 0; i < COUNT(changes); i++) {
			int ret;

			bytes[at] ^= changes[i];
			ret = read_all(bytes, size, &got);
			cr_expect(ret == 0 || ret == -EBADMSG || ret == -ENODATA ||
				  ret == -EPROTONOSUPPORT, "%d at %zu", ret, at);
			/* An event has at least three bytes. */
			cr_expect_lt(got, size / 3);
			bytes[at] ^= changes[i];
		}
	}
	free(bytes);
}

Test(reader, refuses_what_is_no_nettrace)
{
	struct rp_outbuf out = { 0 };
	uint64_t got;

	cr_expect_eq(read_all("", 0, &got), -EBADMSG);
	cr_expect_eq(read_all("Nettrac", 7, &got), -EBADMSG);
	cr_expect_eq(read_all("#!/bin/sh\nexit 0\n........................", 40, &got), -EBADMSG);
	cr_expect_eq(read_all("Nettrace\0\0\0\0\7\0\0\0\0\0\0\0", 20, &got), -EPROTONOSUPPORT);
	put_header(&out, 8, 8);
	cr_expect_eq(read_all(out.bytes, out.size, &got), -EPROTONOSUPPORT);
	out.size = 0;
	put_header(&out, 4, 5);
	cr_expect_eq(read_all(out.bytes, out.size, &got), -EBADMSG);
	rp_outbuf_fini(&out);
}

Test(reader, says_what_open_said)
{
	struct rp_reader *reader = NULL;

	cr_expect_eq(rp_reader_open("/nowhere/at/all", &reader), -ENOENT);
	cr_expect_eq(rp_reader_open("/", &reader), -EISDIR);
	cr_expect_null(reader);
	rp_reader_close(NULL);
}

Test(reader, describes_the_recording)
{
	struct rp_reader_info info = RP_READER_INFO_INIT;
	struct rp_outbuf out = { 0 };
	struct rp_reader *reader;

	put_header(&out, 4, 8);
	reader = trace_open(out.bytes, out.size);
	rp_reader_get_info(reader, &info);
	cr_expect_eq(info.start_utc_ns, 1709168523004000000);
	cr_expect_eq(info.start_ticks, 500);
	cr_expect_eq(info.ticks_per_second, 10000000);
	cr_expect_eq(info.process_id, 99);
	cr_expect_eq(info.processors, 4);
	cr_expect_eq(info.pointer_bytes, 8);
	rp_reader_close(reader);
	rp_outbuf_fini(&out);
}

static void *write_in_pieces(void *data)
{
	struct { int fd; const uint8_t *bytes; size_t size; } *job = data;

	for (size_t at = 0; at < job->size; at += 7)
		cr_assert_gt(write(job->fd, job->bytes + at,
				   job->size - at < 7 ? job->size - at : 7), 0);
	close(job->fd);
	return NULL;
}

Test(reader, reads_a_pipe_as_it_reads_memory)
{
	struct { int fd; const uint8_t *bytes; size_t size; } job;
	struct rp_reader_event piped = RP_READER_EVENT_INIT, event = RP_READER_EVENT_INIT;
	struct rp_reader *from_pipe, *from_memory;
	uint64_t events;
	pthread_t thread;
	uint8_t *bytes;
	int fds[2];

	bytes = trace_make(&job.size, &events);
	job.bytes = bytes;
	cr_assert_eq(pipe(fds), 0);
	job.fd = fds[1];
	cr_assert_eq(pthread_create(&thread, NULL, write_in_pieces, &job), 0);
	cr_assert_eq(rp_reader_open_fd(fds[0], &from_pipe), 0);
	from_memory = trace_open(bytes, job.size);
	for (uint64_t i = 0; i < events; i++) {
		cr_assert_eq(rp_reader_next(from_pipe, &piped), 1);
		cr_assert_eq(rp_reader_next(from_memory, &event), 1);
		cr_assert_eq(piped.payload_bytes, event.payload_bytes);
		cr_assert_arr_eq(piped.payload, event.payload, event.payload_bytes);
		cr_assert_eq(piped.time_ns, event.time_ns);
		cr_assert_eq(piped.frame_count, i % 3);
	}
	cr_expect_eq(rp_reader_next(from_pipe, &piped), 0);
	cr_expect_eq(trace_stats(from_pipe).bytes, job.size);
	pthread_join(thread, NULL);
	rp_reader_close(from_pipe);
	rp_reader_close(from_memory);
	cr_expect_eq(close(fds[0]), 0, "the reader leaves a descriptor that is not its own");
	free(bytes);
}

Test(reader, refuses_a_block_longer_than_any)
{
	struct rp_outbuf out = { 0 };
	uint64_t got;

	put_header(&out, 4, 8);
	begin_object(&out, "MetadataBlock", 2);
	rp_outbuf_put_u32(&out, (64u << 20) + 1);
	cr_expect_eq(read_all(out.bytes, out.size, &got), -EBADMSG);
	rp_outbuf_fini(&out);
}

Test(reader, reports_a_pipe_that_ends_within_a_block)
{
	struct rp_outbuf out = { 0 };
	struct rp_reader *reader;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int fds[2];

	put_header(&out, 4, 8);
	begin_object(&out, "EventBlock", 2);
	rp_outbuf_put_u32(&out, 64u << 20);
	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(write(fds[1], out.bytes, out.size), (ssize_t)out.size);
	close(fds[1]);
	cr_assert_eq(rp_reader_open_fd(fds[0], &reader), 0);
	cr_expect_eq(rp_reader_next(reader, &event), -ENODATA);
	rp_reader_close(reader);
	close(fds[0]);
	rp_outbuf_fini(&out);
}

Test(reader, gives_unsorted_events_of_several_threads_in_the_order_of_the_stream)
{
	struct rp_outbuf out = { 0 }, content = { 0 };
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	static const int64_t times_ns[] = { 1000, 3000, -1000, 2000 };
	struct rp_reader *reader;

	put_header(&out, 4, 8);
	put_plain_definition(&out, 1);
	put_block_header(&content, 0);
	put_fixed_event(&content, 0x80000001, 1, 10, 510, "a", 1);
	put_fixed_event(&content, 0x80000001, 2, 10, 530, "bb", 2);
	put_fixed_event(&content, 0x80000001, 1, 11, 490, "ccc", 3);
	put_fixed_event(&content, 1, 2, 11, 520, "dddd", 4);
	put_block(&out, "EventBlock", &content);
	rp_outbuf_put_u8(&out, RP_TAG_NULL);
	reader = trace_open(out.bytes, out.size);
	for (size_t i = 0; i < COUNT(times_ns); i++) {
		cr_assert_eq(rp_reader_next(reader, &event), 1);
		cr_expect_eq(event.time_ns, times_ns[i]);
		cr_expect_eq(event.payload_bytes, i + 1);
		cr_expect_eq(*(const char *)event.payload, (char)('a' + i));
		cr_expect_eq(event.thread, 10 + i / 2);
		cr_expect_str_eq(event.type->name, "");
	}
	cr_expect_eq(rp_reader_next(reader, &event), 0);
	cr_expect_eq(trace_stats(reader).unordered, 1);
	cr_expect_eq(trace_stats(reader).lost, 0);
	cr_expect_eq(trace_stats(reader).threads, 2);
	rp_reader_close(reader);
	rp_outbuf_fini(&content);
	rp_outbuf_fini(&out);
}

Test(reader, counts_losses_as_traceevent_does)
{
	/* Steps of one thread: its number in an event, or (negative) in a sequence point. */
	static const struct {
		int64_t numbers[4];
		uint64_t lost;
	} rows[] = {
		{ { 1, 2, 3, 4 }, 0 },
		{ { 7, 8 }, 0 },
		{ { 1, 5 }, 3 },
		{ { 1, -1, 2 }, 0 },
		{ { 1, -9, 10 }, 8 },
		{ { 1, -9, 12 }, 10 },
		{ { -3, 4 }, 0 },
		{ { -3, 6 }, 2 },
		{ { -3, -5 }, 2 },
		{ { 50, 1, 2 }, 0 },
		{ { 50, 40 }, INT32_MAX },
		{ { 0xffffffff, 2 }, 2 },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rp_reader_event event = RP_READER_EVENT_INIT;
		struct rp_outbuf out = { 0 };
		struct rp_reader *reader;

		put_header(&out, 4, 8);
		put_plain_definition(&out, 1);
		for (size_t n = 0; n < 4 && rows[i].numbers[n]; n++) {
			if (rows[i].numbers[n] > 0)
				put_one_event(&out, 1, rows[i].numbers[n], 5, "", 0);
			else
				put_sequence_point(&out, 5, -rows[i].numbers[n]);
		}
		rp_outbuf_put_u8(&out, RP_TAG_NULL);
		reader = trace_open(out.bytes, out.size);
		while (rp_reader_next(reader, &event) == 1)
			;
		cr_expect_eq(trace_stats(reader).ended, 1);
		cr_expect_eq(trace_stats(reader).lost, rows[i].lost, "row %zu: %lu", i,
			     trace_stats(reader).lost);
		rp_reader_close(reader);
		rp_outbuf_fini(&out);
	}
}

/* Reads one event with the given blob and payload. Return: its JSON. */
static char *hand_made(const struct rp_outbuf *blob, const void *payload, uint32_t size)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_outbuf out = { 0 };
	struct rp_reader *reader;
	char *json;

	put_header(&out, 4, 8);
	put_definition(&out, blob);
	put_one_event(&out, 1, 1, 5, payload, size);
	rp_outbuf_put_u8(&out, RP_TAG_NULL);
	reader = trace_open(out.bytes, out.size);
	cr_assert_eq(rp_reader_next(reader, &event), 1, "%s", rp_reader_error(reader));
	json = trace_json(&event);
	rp_reader_close(reader);
	rp_outbuf_fini(&out);
	return json;
}

static void put_v1_field(struct rp_outbuf *blob, uint32_t type, const char *name)
{
	rp_outbuf_put_u32(blob, type);
	put_name(blob, name);
}

Test(reader, prints_what_is_there_of_a_short_payload)
{
	static const struct {
		uint32_t size;
		const char *json;
	} rows[] = {
		{ 0, "{\"…truncated\":true}" },
		{ 3, "{\"…truncated\":true}" },
		{ 4, "{\"a\":1,\"st\":{},\"…truncated\":true}" },
		{ 5, "{\"a\":1,\"st\":{\"b\":2},\"…truncated\":true}" },
		{ 8, "{\"a\":1,\"st\":{\"b\":2},\"…truncated\":true}" },
		{ 9, "{\"a\":1,\"st\":{\"b\":2},\"\\\"\\\\\":\"\\u0001\"}" },
		{ 11, "{\"a\":1,\"st\":{\"b\":2},\"\\\"\\\\\":\"\\u0001\"}" },
	};
	struct rp_outbuf blob = { 0 };

	put_blob_header(&blob, 1);
	rp_outbuf_put_u32(&blob, 3);
	put_v1_field(&blob, RP_WIRE_I32, "a");
	rp_outbuf_put_u32(&blob, RP_WIRE_STRUCT);
	rp_outbuf_put_u32(&blob, 1);
	put_v1_field(&blob, RP_WIRE_U8, "b");
	put_name(&blob, "st");
	put_v1_field(&blob, RP_WIRE_STRING16, "\"\\");
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *json = hand_made(&blob, "\1\0\0\0\2\1\0\0\0\3\3", rows[i].size);

		cr_expect_str_eq(json, rows[i].json);
		free(json);
	}
	rp_outbuf_fini(&blob);
}

static void put_v2_tag(struct rp_outbuf *blob, const uint32_t *codes, size_t count)
{
	rp_outbuf_put_u32(blob, 0);
	rp_outbuf_put_u32(blob, 4 + 4 + 4 + 4 * count);
	rp_outbuf_put_u8(blob, RP_METADATA_FIELDS_V2);
	rp_outbuf_put_u32(blob, 1);
	rp_outbuf_put_u32(blob, 8 + 4 * count);
	put_name(blob, "v");
	rp_outbuf_put(blob, codes, 4 * count);
}

#define PAYLOAD "{\"…payload\":\"02000000000000000000000000000000\"}"

Test(reader, keeps_an_event_whose_fields_it_cannot_express)
{
	static const struct {
		uint32_t codes[3];
		size_t count;
		const char *json;
	} rows[] = {
		{ { RP_WIRE_DECIMAL }, 1, "{\"v\":\"02000000000000000000000000000000\"}" },
		{ { RP_WIRE_ARRAY, RP_WIRE_U8 }, 2, "{\"v\":\"0000\"}" },
		{ { RP_WIRE_ARRAY, RP_WIRE_STRING16 }, 2, "{\"v\":[\"\",\"\"]}" },
		{ { RP_WIRE_ARRAY, RP_WIRE_ARRAY, RP_WIRE_U8 }, 3, PAYLOAD },
		{ { RP_WIRE_ARRAY, RP_WIRE_STRUCT, 0 }, 3, PAYLOAD },
		{ { RP_WIRE_ARRAY }, 1, PAYLOAD },
		{ { RP_WIRE_STRUCT, 0x7fffffff }, 2, PAYLOAD },
		{ { 2 }, 1, PAYLOAD },
		{ { 20 }, 1, PAYLOAD },
	};
	static const uint8_t payload[16] = { 2 };

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rp_outbuf blob = { 0 };
		char *json;

		put_blob_header(&blob, 1);
		put_v2_tag(&blob, rows[i].codes, rows[i].count);
		json = hand_made(&blob, payload, sizeof(payload));
		cr_expect_str_eq(json, rows[i].json, "row %zu: %s", i, json);
		free(json);
		rp_outbuf_fini(&blob);
	}
}

Test(reader, refuses_a_second_definition_and_an_unknown_type)
{
	struct rp_outbuf out = { 0 };
	uint64_t got;
	size_t head;

	put_header(&out, 4, 8);
	put_plain_definition(&out, 1);
	head = out.size;
	put_plain_definition(&out, 1);
	cr_expect_eq(read_all(out.bytes, out.size, &got), -EBADMSG);
	out.size = head;
	put_one_event(&out, 1, 1, 5, "", 0);
	put_one_event(&out, 2, 2, 5, "", 0);
	cr_expect_eq(read_all(out.bytes, out.size, &got), -EBADMSG);
	cr_expect_eq(got, 1);
	rp_outbuf_fini(&out);
}
