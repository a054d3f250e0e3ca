/* SPDX-License-Identifier: MIT */
/* Traces that are read while they are written. */
#include <errno.h>

#include "nettrace/reader_parts.h"
#include "nettrace_trace.h"

struct growing {
	const uint8_t *bytes;
	size_t written, read;
};

static ssize_t read_growing(void *data, void *buffer, size_t size)
{
	struct growing *file = data;
	size_t left = file->written - file->read, got = left < size ? left : size;

	memcpy(buffer, file->bytes + file->read, got);
	file->read += got;
	return (ssize_t)got;
}

/* Opens the trace as soon as its header is there. */
static struct rp_reader *open_growing(struct growing *file, size_t size)
{
	struct rp_byte_source source;
	struct rp_reader *reader = NULL;

	do {
		cr_assert_lt(++file->written, size);
		file->read = 0;
		rp_byte_source_init_read(&source, read_growing, file);
	} while (rp_reader_open_source(&source, &reader, NULL, 0) != 0);
	reader->is_growing = true;
	return reader;
}

Test(growing, gives_each_event_of_a_growing_file_once)
{
	struct rp_reader_event part = RP_READER_EVENT_INIT, event = RP_READER_EVENT_INIT;
	struct growing file = { 0 };
	struct rp_reader *growing, *whole;
	uint64_t events, waits = 0;
	uint8_t *bytes;
	size_t size;
	int ret;

	bytes = trace_make(&size, &events);
	file.bytes = bytes;
	whole = trace_open(bytes, size);
	growing = open_growing(&file, size);
	/* Bytes that are missing in a growing file are no damage. */
	cr_expect_eq(rp_reader_resume_after_damage(growing), -EINVAL);
	while ((ret = rp_reader_next(growing, &part)) != 0) {
		if (ret == -EAGAIN) {
			cr_assert_str_empty(rp_reader_error(growing));
			cr_assert_lt(file.written, size);
			file.written++;
			waits++;
			continue;
		}
		cr_assert_eq(ret, 1, "%s", rp_reader_error(growing));
		cr_assert_eq(rp_reader_next(whole, &event), 1);
		cr_assert_eq(part.payload_bytes, event.payload_bytes);
		cr_assert_arr_eq(part.payload, event.payload, event.payload_bytes);
		cr_assert_eq(part.time_ns, event.time_ns);
		cr_assert_eq(part.frame_count, event.frame_count);
	}
	cr_expect_gt(waits, size / 2);
	cr_expect_eq(file.written, size);
	cr_expect_eq(rp_reader_next(whole, &event), 0);
	cr_expect_eq(trace_stats(growing).events, events);
	cr_expect_eq(trace_stats(growing).lost, trace_stats(whole).lost);
	cr_expect_eq(trace_stats(growing).bytes, size);
	rp_reader_close(growing);
	rp_reader_close(whole);
	free(bytes);
}

/* It is known only then that no bytes follow. */
Test(growing, gives_the_events_of_a_cut_block_when_the_file_stops_growing)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct growing file = { 0 };
	struct rp_reader *reader;
	uint64_t events, before = 0, after = 0;
	uint8_t *bytes;
	size_t size;

	bytes = trace_make(&size, &events);
	for (size_t cut = 1; cut < 20; cut++) {
		file = (struct growing){ .bytes = bytes };
		reader = open_growing(&file, size);
		file.written = size - cut;
		while (rp_reader_next(reader, &event) == 1)
			before++;
		cr_assert_eq(rp_reader_next(reader, &event), -EAGAIN);
		reader->is_growing = false;
		while (rp_reader_next(reader, &event) == 1)
			after++;
		cr_expect_eq(rp_reader_next(reader, &event), -ENODATA);
		rp_reader_close(reader);
	}
	cr_expect_gt(before, 0);
	cr_expect_gt(after, 0);
	free(bytes);
}
