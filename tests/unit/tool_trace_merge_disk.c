/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nettrace_trace.h"

#include "tools/trace/trace_merge.h"

#define EVENTS 50

/* The disk has space for a third of each of the next writes, and for all later ones. */
static unsigned int full_writes;
static int disk_fd = -1;
static bool is_full;

/* A full disk takes what fits, and refuses the rest with the next call. */
ssize_t write(int fd, const void *bytes, size_t size)
{
	const bool refuses = fd == disk_fd && is_full;

	if (fd == disk_fd && (is_full || full_writes > 0)) {
		is_full = !is_full;
		full_writes -= is_full;
		size /= 3;
	}
	errno = ENOSPC;
	return refuses ? -1 : syscall(SYS_write, fd, bytes, size);
}

static struct rp_output open_disk(void)
{
	disk_fd = memfd_create("merged", MFD_CLOEXEC);
	cr_assert_geq(disk_fd, 0);
	return (struct rp_output){
		.fd = disk_fd, .filter_fd = -1, .status_fd = -1, .regular = true,
	};
}

/* Make a file with a trace that is larger than what a merge writes with one call. */
static int large_file(void)
{
	static const uint8_t payload[60 << 10];
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "First", 1, NULL, 0);
	const int fd = memfd_create("part", MFD_CLOEXEC);
	uint8_t *bytes;
	size_t size;

	for (uint64_t i = 0; i < EVENTS; i++)
		trace_event(encoder, type, TRACE_START_NS + i, 7, payload, sizeof(payload));
	bytes = trace_end(encoder, &size);
	cr_assert(fd >= 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
	free(bytes);
	return fd;
}

/* Expect the events, each once, in a whole trace. */
static void expect_events(int fd)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_reader *reader;
	int64_t count = 0;
	int ret;

	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	cr_assert_eq(rp_reader_open_fd(fd, &reader), 0);
	while ((ret = rp_reader_next(reader, &event)) == 1) {
		if (strcmp(event.type->name, "First") == 0)
			cr_expect_eq(event.time_ns, count++);
	}
	cr_expect_eq(ret, 0, "%s", rp_reader_error(reader));
	cr_expect_eq(count, EVENTS);
	rp_reader_close(reader);
}

/*
 * Merge a part on a disk that is full at some writes, after a number of passes that fail. Return:
 * what rp_trace_merge_finish() did.
 */
static int merge_on(struct rp_output *output, unsigned int writes, unsigned int passes)
{
	struct rp_trace_merge_source source = {
		.fd = large_file(), .pid = 10, .name = "name", .command_line = "name",
	};
	struct rp_trace_merge *merge;
	int ret;

	full_writes = writes;
	cr_assert_eq(rp_trace_merge_create(10, trace_version(), output, &merge), 0);
	cr_assert_eq(rp_trace_merge_add(merge, &source), 0);
	for (unsigned int i = 0; i < passes; i++)
		cr_expect_eq(rp_trace_merge_pass(merge, UINT64_MAX), -ENOSPC);
	ret = rp_trace_merge_finish(merge);
	rp_trace_merge_destroy(merge);
	close(source.fd);
	return ret;
}

Test(tool_trace_merge, disk_that_is_full_for_a_while_costs_no_event)
{
	for (unsigned int passes = 0; passes <= 2; passes++) {
		struct rp_output output = open_disk();

		cr_expect_eq(merge_on(&output, 2, passes), 0);
		expect_events(output.fd);
		close(output.fd);
	}
}

Test(tool_trace_merge, disk_that_stays_full_is_reported_by_the_end)
{
	struct rp_output output = open_disk();

	cr_expect_eq(merge_on(&output, 1000, 0), -ENOSPC);
	close(output.fd);
}

static int compress(struct rp_compressor *none, struct rp_output *output, const void *bytes,
		    size_t size)
{
	(void)none;
	return rp_output_put(output, bytes, size / 10);
}

Test(tool_trace_merge, compressed_trace_is_not_continued_after_a_full_disk)
{
	struct rp_output output = open_disk();

	output.compress = compress;
	cr_expect_eq(merge_on(&output, 1, 0), -ENOSPC);
	close(output.fd);
}
