/* SPDX-License-Identifier: MIT */
/* A reader that resumes after damage. tests/cli/resume_test.py damages traces at random places. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nettrace_trace.h"

#define ROUNDS 8u

static const struct rp_field fields[] = { { .name = "serial", .type = RP_TYPE_U64 } };

/* A trace of ROUNDS sequence points, before each of them a block of 10 events. */
static uint8_t *make_rounds(size_t *ret_size)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "round", 1, fields, 1);

	for (uint64_t i = 0; i < 10 * ROUNDS; i++) {
		trace_event(encoder, type, TRACE_START_NS + i, 7, &i, sizeof(i));
		if (i % 10 == 9)
			cr_assert_eq(rp_encoder_sequence_point(encoder, TRACE_START_NS + i, 0), 0);
	}
	return trace_end(encoder, ret_size);
}

static struct rp_reader *open_resuming(const void *bytes, size_t size)
{
	struct rp_reader *reader = trace_open(bytes, size);

	cr_assert_eq(rp_reader_resume_after_damage(reader), 0);
	return reader;
}

/* Read all events, whose serials ascend. Return: their number. */
static uint64_t count_events(struct rp_reader *reader, int end)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	uint64_t count = 0, serial, previous = UINT64_MAX;
	int ret;

	while ((ret = rp_reader_next(reader, &event)) == 1) {
		cr_assert_eq(event.payload_bytes, sizeof(serial));
		memcpy(&serial, event.payload, sizeof(serial));
		cr_assert_eq(event.time_ns, (int64_t)serial);
		cr_assert(previous == UINT64_MAX || serial > previous);
		previous = serial;
		count++;
	}
	cr_assert_eq(ret, end, "%s", rp_reader_error(reader));
	return count;
}

/* Return the block of events number `index`. */
static uint8_t *find_events(uint8_t *bytes, size_t size, unsigned int index)
{
	uint8_t *at = bytes;

	for (unsigned int i = 0; i <= index; i++) {
		at = trace_find_block(bytes, i ? at + 1 : at, size, RP_BLOCK_EVENT);
		cr_assert_not_null(at);
	}
	return at;
}

Test(resume, an_undamaged_trace_has_no_damage)
{
	struct rp_reader_damage damage = RP_READER_DAMAGE_INIT;
	size_t size;
	uint8_t *bytes = make_rounds(&size);
	struct rp_reader *reader = open_resuming(bytes, size);

	cr_expect_eq(count_events(reader, 0), 10 * ROUNDS);
	cr_expect_eq(rp_reader_get_damage(reader, 0, &damage), -ENOENT);
	cr_expect_eq(trace_stats(reader).damaged_ranges, 0);
	cr_expect_eq(trace_stats(reader).lost_to_damage, 0);
	rp_reader_close(reader);
	free(bytes);
}

Test(resume, the_range_of_a_damaged_block_and_its_lost_events_are_reported)
{
	struct rp_reader_damage damage = RP_READER_DAMAGE_INIT;
	size_t size;
	uint8_t *bytes = make_rounds(&size), *block = find_events(bytes, size, 3);
	struct rp_reader *reader;
	uint64_t offset;

	memset(block + 30, 0xff, 12);
	reader = open_resuming(bytes, size);
	cr_expect_eq(count_events(reader, 0), 10 * (ROUNDS - 1));
	cr_assert_eq(rp_reader_get_damage(reader, 0, &damage), 0);
	offset = (uint64_t)(block - bytes);
	cr_expect_leq(damage.offset, offset);
	cr_expect_gt(damage.offset + damage.bytes, offset + 42);
	cr_expect_str_not_empty(damage.reason);
	cr_expect_eq(trace_stats(reader).damaged_ranges, 1);
	cr_expect_eq(trace_stats(reader).damaged_bytes, damage.bytes);
	cr_expect_eq(trace_stats(reader).lost_to_damage, 10);
	cr_expect_eq(trace_stats(reader).lost, 0);
	rp_reader_close(reader);
	free(bytes);
}

Test(resume, without_the_call_damage_ends_the_reading)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	int ret;
	size_t size;
	uint8_t *bytes = make_rounds(&size);
	struct rp_reader *reader;

	memset(find_events(bytes, size, 3) + 30, 0xff, 12);
	reader = trace_open(bytes, size);
	do {
		ret = rp_reader_next(reader, &event);
	} while (ret == 1);
	cr_expect_eq(ret, -EBADMSG);
	cr_expect_lt(trace_stats(reader).events, 40);
	cr_expect_eq(trace_stats(reader).damaged_ranges, 0);
	rp_reader_close(reader);
	free(bytes);
}

Test(resume, each_damaged_range_is_reported)
{
	struct rp_reader_damage first = RP_READER_DAMAGE_INIT, second = RP_READER_DAMAGE_INIT;
	size_t size;
	uint8_t *bytes = make_rounds(&size);
	struct rp_reader *reader;

	memset(find_events(bytes, size, 1) + 30, 0xff, 12);
	memset(find_events(bytes, size, 5) + 30, 0xff, 12);
	reader = open_resuming(bytes, size);
	cr_expect_eq(count_events(reader, 0), 10 * (ROUNDS - 2));
	cr_assert_eq(rp_reader_get_damage(reader, 0, &first), 0);
	cr_assert_eq(rp_reader_get_damage(reader, 1, &second), 0);
	cr_expect_lt(first.offset, second.offset);
	cr_expect_eq(trace_stats(reader).damaged_bytes, first.bytes + second.bytes);
	cr_expect_eq(trace_stats(reader).lost_to_damage, 20);
	rp_reader_close(reader);
	free(bytes);
}

Test(resume, a_cut_trace_gives_all_complete_events_and_no_damage)
{
	size_t size;
	uint8_t *bytes = make_rounds(&size), *block = find_events(bytes, size, 4);
	struct rp_reader *reader = open_resuming(bytes, (size_t)(block - bytes) + 70);
	struct rp_reader *other = trace_open(bytes, (size_t)(block - bytes) + 70);
	uint64_t count = count_events(other, -ENODATA);

	cr_expect_gt(count, 40);
	cr_expect_eq(count_events(reader, -ENODATA), count);
	cr_expect_eq(trace_stats(reader).damaged_ranges, 0);
	rp_reader_close(reader);
	rp_reader_close(other);
	free(bytes);
}

Test(resume, damage_up_to_the_end_leaves_a_trace_without_an_end)
{
	size_t size;
	uint8_t *bytes = make_rounds(&size), *block = find_events(bytes, size, 4);
	struct rp_reader *reader;

	memset(block, 0x55, size - (size_t)(block - bytes));
	reader = open_resuming(bytes, size);
	cr_expect_eq(count_events(reader, -ENODATA), 40);
	cr_expect_eq(trace_stats(reader).damaged_ranges, 1);
	rp_reader_close(reader);
	free(bytes);
}

Test(resume, a_second_trace_after_the_end_is_not_damage)
{
	size_t size;
	uint8_t *bytes = make_rounds(&size), *twice = malloc(2 * size);
	struct rp_reader *reader;

	memcpy(twice, bytes, size);
	memcpy(twice + size, bytes, size);
	reader = open_resuming(twice, 2 * size);
	cr_expect_eq(count_events(reader, 0), 10 * ROUNDS);
	cr_expect_eq(trace_stats(reader).damaged_ranges, 0);
	rp_reader_close(reader);
	free(twice);
	free(bytes);
}

Test(resume, it_is_refused_after_the_first_event)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	size_t size;
	uint8_t *bytes = make_rounds(&size);
	struct rp_reader *reader = trace_open(bytes, size);

	cr_expect_eq(rp_reader_resume_after_damage(NULL), -EINVAL);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_expect_eq(rp_reader_resume_after_damage(reader), -EINVAL);
	rp_reader_close(reader);
	free(bytes);
}

/* Return a descriptor of V4's header, a block of a later version, and a block of 1 MB. */
static int make_large_block_after_later(const uint8_t *bytes, size_t before, size_t block)
{
	static const uint8_t tags[] = { RP_TAG_BEGIN, RP_TAG_BEGIN, RP_TAG_NULL, 9 };
	const uint32_t large = 1u << 20;
	uint8_t *zeros = calloc(1, large + 8);
	int fd = memfd_create("trace", MFD_CLOEXEC);

	cr_assert_eq(write(fd, bytes, before), (ssize_t)before);
	cr_assert_eq(write(fd, tags, sizeof(tags)), (ssize_t)sizeof(tags));
	cr_assert_eq(write(fd, bytes + before + 4, block - 4), (ssize_t)(block - 4));
	cr_assert_eq(write(fd, bytes + before, 26), 26);
	cr_assert_eq(write(fd, &large, 4), 4);
	cr_assert_eq(write(fd, zeros, large + 8), (ssize_t)large + 8);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	free(zeros);
	return fd;
}

Test(resume, a_large_block_after_one_of_a_later_version_is_damage)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader = NULL;
	const uint8_t *object, *next;
	size_t size;
	uint8_t *bytes;
	int fd;

	if (trace_version() == 6)
		cr_skip("blocks of V6 have no version");
	bytes = make_rounds(&size);
	object = memmem(bytes, size, "EventBlock", 10);
	object -= 15;
	next = memmem(object + 1, size - (size_t)(object + 1 - bytes), "\5\5\1", 3);
	fd = make_large_block_after_later(bytes, (size_t)(object - bytes),
					  (size_t)(next - object));
	cr_assert_eq(rp_reader_open_fd(fd, &reader), 0);
	cr_assert_eq(rp_reader_resume_after_damage(reader), 0);
	cr_expect_eq(rp_reader_next(reader, &event), -ENODATA);
	cr_expect_gt(trace_stats(reader).damaged_bytes, 1u << 20);
	rp_reader_close(reader);
	close(fd);
	free(bytes);
}
