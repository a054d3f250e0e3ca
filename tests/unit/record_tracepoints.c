/* SPDX-License-Identifier: MIT */
/* The tracepoints of ringpipe record: their layouts, and the requests to block devices. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/ringpipe-record/block_requests.h"
#include "tools/ringpipe-record/tracepoint_format.h"

#define PLACE "/sys/kernel/tracing"

static const char whole[] =
	"name: sample\nID: 77\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
	"\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n"
	"\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n"
	"\tfield:__data_loc char[] cmd;\toffset:64;\tsize:4;\tsigned:0;\n\n"
	"print fmt: \"%ld\", REC->id\n";

/* Put a tracepoint into an empty file system at the place of tracefs, of this process alone. */
static void write_format(const char *text)
{
	FILE *file;

	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", PLACE, "tmpfs", 0, NULL) != 0)
		cr_skip("mount: %s", strerror(errno));
	cr_assert_eq(mkdir(PLACE "/events", 0700), 0);
	cr_assert_eq(mkdir(PLACE "/events/test", 0700), 0);
	cr_assert_eq(mkdir(PLACE "/events/test/sample", 0700), 0);
	file = fopen(PLACE "/events/test/sample/format", "w");
	cr_assert_not_null(file);
	fputs(text, file);
	cr_assert_eq(fclose(file), 0);
}

Test(record_tracepoints, fields_are_found_by_their_whole_names)
{
	static const char *const names[] = { "args", "id", "cmd", NULL };
	struct rp_tracepoint_format format;

	write_format(whole);
	cr_assert_eq(rp_tracepoint_format_read("test/sample", names, &format), 0);
	cr_assert_eq(format.id, 77);
	cr_assert_eq(format.fields[0].offset, 16);
	cr_assert_eq(format.fields[0].bytes, 48);
	cr_assert_eq(format.fields[1].offset, 8);
	cr_assert_eq(format.fields[2].offset, 64);
}

Test(record_tracepoints, a_missing_field_or_tracepoint_is_reported)
{
	static const char *const names[] = { "arg", NULL }, *const none[] = { NULL };
	struct rp_tracepoint_format format = { .id = 5 };

	write_format(whole);
	cr_assert_eq(rp_tracepoint_format_read("test/sample", names, &format), -ENOENT);
	cr_assert_eq(rp_tracepoint_format_read("test/other", none, &format), -ENOENT);
	cr_assert_eq(format.id, 5);
}

Test(record_tracepoints, each_part_of_a_format_is_read_within_its_bounds)
{
	static const char *const names[] = { "id", "args", NULL };
	struct rp_tracepoint_format format;
	char text[sizeof(whole)];

	write_format("");
	for (size_t i = 0; i < sizeof(whole); i++) {
		FILE *file = fopen(PLACE "/events/test/sample/format", "w");

		snprintf(text, i + 1, "%s", whole);
		cr_assert_not_null(file);
		fputs(text, file);
		fclose(file);
		(void)rp_tracepoint_format_read("test/sample", names, &format);
	}
}

Test(record_tracepoints, numbers_beyond_a_sample_are_0)
{
	const uint8_t bytes[8] = { 1, 2, 0, 0, 0, 0, 0, 0 };
	struct rp_tracepoint_format format = {
		.fields = { { 0, 2 }, { 4, 8 }, { UINT32_MAX, 4 }, { 0, 48 }, { 8, 0 } },
	};

	cr_assert_eq(rp_tracepoint_number(&format, 0, bytes, sizeof(bytes)), 0x201);
	cr_assert_eq(rp_tracepoint_number(&format, 1, bytes, sizeof(bytes)), 0);
	cr_assert_eq(rp_tracepoint_number(&format, 2, bytes, sizeof(bytes)), 0);
	cr_assert_eq(rp_tracepoint_number(&format, 3, bytes, sizeof(bytes)), 0x201);
	cr_assert_eq(rp_tracepoint_number(&format, 4, bytes, sizeof(bytes)), 0);
}

Test(record_tracepoints, a_request_has_the_operation_that_its_flags_surround)
{
	static const struct {
		char rwbs[8];
		uint32_t operation;
	} rows[] = {
		{ "R", 0 }, { "RA", 0 }, { "RS", 0 }, { "W", 1 }, { "WS", 1 }, { "FWFS", 1 },
		{ "FW", 1 }, { "FF", 2 }, { "F", 2 }, { "FS", 2 }, { "D", 3 }, { "DS", 3 },
		{ "DE", 5 }, { "N", UINT32_MAX }, { "", UINT32_MAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_assert_eq(rp_block_operation(rows[i].rwbs, sizeof(rows[i].rwbs)),
			     rows[i].operation, "%s", rows[i].rwbs);
	cr_assert_eq(rp_block_operation("W", 0), UINT32_MAX);
	cr_assert_eq(rp_block_operation("FW", 1), 2);
}

Test(record_tracepoints, errors_of_requests_have_the_numbers_of_their_status)
{
	cr_assert_eq(rp_block_status(0), 0);
	cr_assert_eq(rp_block_status(-EOPNOTSUPP), 1);
	cr_assert_eq(rp_block_status(-ENOSPC), 3);
	cr_assert_eq(rp_block_status(-EIO), 10);
	cr_assert_eq(rp_block_status(-EPERM), 10);
}

Test(record_tracepoints, a_request_ends_once_and_by_its_device_and_sector)
{
	struct rp_block_requests requests = { 0 };
	struct rp_issued_request one = { .device = 1, .sector = 9, .began_ns = 5 }, taken;

	cr_assert_eq(rp_block_requests_add(&requests, &one), 0);
	cr_assert_not(rp_block_requests_take(&requests, 2, 9, &taken));
	cr_assert_not(rp_block_requests_take(&requests, 1, 8, &taken));
	one.began_ns = 6;
	cr_assert_eq(rp_block_requests_add(&requests, &one), 0);
	cr_assert(rp_block_requests_take(&requests, 1, 9, &taken));
	cr_assert_eq(taken.began_ns, 6);
	cr_assert_not(rp_block_requests_take(&requests, 1, 9, &taken));
	rp_block_requests_fini(&requests);
}

Test(record_tracepoints, requests_whose_end_is_never_seen_leave_the_memory_bounded)
{
	struct rp_block_requests requests = { 0 };
	struct rp_issued_request one = { .device = 1 }, taken;

	for (one.sector = 0; one.sector < 20000; one.sector++)
		cr_assert_eq(rp_block_requests_add(&requests, &one), 0);
	cr_assert_leq(requests.count, 16384);
	cr_assert(rp_block_requests_take(&requests, 1, 19999, &taken));
	rp_block_requests_fini(&requests);
}

Test(record_tracepoints, an_unknown_device_has_its_numbers_and_no_name)
{
	const struct rp_issued_request one = { .device = 4000u << 20 | 7, .operation = 1 };
	struct rp_block_request request;

	rp_block_request_describe(&one, &request);
	cr_assert_eq(request.major, 4000);
	cr_assert_eq(request.minor, 7);
	cr_assert_str_empty(request.device);
}
