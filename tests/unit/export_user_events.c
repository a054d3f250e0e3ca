/* SPDX-License-Identifier: MIT */
/*
 * Records for the kernel's user_events, and the choice of an event's tracepoint; without a kernel.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringpipe/ringpipe.h>

#include "base/file.h"
#include "export/tracepoints.h"
#include "export/user_event.h"
#include "export/user_events.h"

#define HEADER_BYTES 15u		/* the kernel's index, version, id, two data locations */

static const struct rp_field order_fields[] = {
	{ .name = "id", .type = RP_TYPE_U32 },
	{ .name = "customer", .type = RP_TYPE_STRING },
	{ .name = "paid", .type = RP_TYPE_BOOL },
};
static const struct rp_field bytes_fields[] = {
	{ .name = "bytes", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 },
};

static struct rp_event_def definition(const struct rp_field *fields, uint16_t count)
{
	return (struct rp_event_def){
		.provider = "Shop", .name = "ordered", .id = 0x1234, .keywords = 0x5,
		.version = 2, .level = 4, .fields = fields, .field_count = count,
	};
}

static struct rp_user_event *make(const struct rp_field *fields, uint16_t count)
{
	const struct rp_event_def def = definition(fields, count);
	struct rp_user_event *event;

	cr_assert_eq(rp_user_event_make(&def, false, &event), 0);
	event->write_index = 0x01020304;
	return event;
}

/* Writes one event into a pipe, and reads the record. Return: as rp_user_event_write(). */
static int pass(const struct rp_user_event *event, const struct rp_part *parts, unsigned int count,
		uint8_t *out, size_t *ret_size)
{
	uint8_t *scratch = malloc(RP_USER_EVENT_SCRATCH_BYTES);
	uint64_t bytes = 0;
	int fds[2], r;
	ssize_t n;

	cr_assert_eq(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	for (unsigned int i = 0; i < count; i++)
		bytes += parts[i].size_bytes;
	r = rp_user_event_write(event, fds[1], parts, count, bytes, scratch);
	close(fds[1]);
	n = read(fds[0], out, HEADER_BYTES + RP_USER_EVENT_BYTES_MAX);
	*ret_size = n > 0 ? (size_t)n : 0;
	close(fds[0]);
	free(scratch);
	return r;
}

static uint32_t u32_at(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

Test(export_user_events, record_is_laid_out_as_the_format_says)
{
	static const uint8_t metadata[] =
		"S\0h\0o\0p\0\0\0" "\x34\x12\0\0" "o\0r\0d\0e\0r\0e\0d\0\0\0"
		"\x05\0\0\0\0\0\0\0" "\x02\0\0\0" "\x04\0\0\0" "\x03\0\0\0"
		"\x0a\0\0\0" "i\0d\0\0\0" "\x12\0\0\0" "c\0u\0s\0t\0o\0m\0e\0r\0\0\0"
		"\x03\0\0\0" "p\0a\0i\0d\0\0";
	static const uint8_t payload[] = "\x2a\0\0\0" "A\0\xac\x20\0\0" "\x01\0\0";
	const struct rp_part parts[] = { { "\x2a\0\0\0" "A\xe2\x82\xac", 9 }, { "\x01", 1 } };
	struct rp_user_event *event = make(order_fields, 3);
	uint8_t out[HEADER_BYTES + RP_USER_EVENT_BYTES_MAX];
	size_t size, extension = 5 + sizeof(metadata);

	cr_assert_eq(pass(event, parts, 2, out, &size), 0);
	cr_assert_eq(size, HEADER_BYTES + extension + sizeof(payload));
	cr_assert_eq(u32_at(out), 0x01020304);
	cr_assert_eq(out[4], 1);
	cr_assert_eq(memcmp(out + 5, "\x34\x12", 2), 0);
	cr_assert_eq(u32_at(out + 7), extension << 16 | 4);
	cr_assert_eq(u32_at(out + 11), sizeof(payload) << 16 | extension);
	cr_assert_eq(out[15], 1);
	cr_assert_eq(u32_at(out + 16), sizeof(metadata));
	cr_assert_eq(memcmp(out + 20, metadata, sizeof(metadata)), 0);
	cr_assert_eq(memcmp(out + 20 + sizeof(metadata), payload, sizeof(payload)), 0);
	rp_user_event_free(event);
}

static void *write_cancelled(void *data)
{
	struct rp_user_event *event = make(order_fields, 3);
	const struct rp_part part = { "\x2a\0\0\0" "A\0\x01", 7 };

	cr_assert_eq(pthread_cancel(pthread_self()), 0);
	cr_assert_eq(rp_user_event_write(event, -1, &part, 1, part.size_bytes, data), -EBADF);
	rp_user_event_free(event);
	return data;
}

/* <ringpipe/ringpipe.h>: no function is a cancellation point. */
Test(export_user_events, writer_is_not_cancelled_in_a_write)
{
	uint8_t *scratch = malloc(RP_USER_EVENT_SCRATCH_BYTES);
	pthread_t thread;
	void *result;

	cr_assert_eq(pthread_create(&thread, NULL, write_cancelled, scratch), 0);
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_expect_eq(result, scratch);
	free(scratch);
}

/* record-trace reads the fields from the first tag only. */
Test(export_user_events, fields_of_arrays_stand_before_the_opcode)
{
	struct rp_event_def def = definition(bytes_fields, 1);
	struct rp_user_event *event;
	const uint8_t *tag;

	def.opcode = RP_OPCODE_START;
	cr_assert_eq(rp_user_event_make(&def, false, &event), 0);
	/*
	 * After label, length, two names, id, keywords, version, level and no field of the old
	 * form.
	 */
	tag = event->metadata + 5 + 2 * sizeof("Shop") + 4 + 2 * sizeof("ordered") + 8 + 4 + 4 + 4;
	cr_assert_eq(tag[4], 2);
	tag += 5 + u32_at(tag);
	cr_assert_eq(u32_at(tag), 1);
	cr_assert_eq(tag[4], 1);
	cr_assert_eq(tag[5], RP_OPCODE_START);
	cr_assert_eq(tag + 6, event->metadata + event->metadata_bytes);
	rp_user_event_free(event);
}

Test(export_user_events, activity_ids_follow_the_metadata)
{
	const struct rp_activity activity = {
		.id = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } },
	};
	struct rp_user_event *event = make(NULL, 0);
	uint8_t out[HEADER_BYTES + RP_USER_EVENT_BYTES_MAX];
	const uint8_t *at = out + HEADER_BYTES + event->metadata_bytes;
	size_t size;

	rp_activity_set(&activity);
	cr_assert_eq(pass(event, NULL, 0, out, &size), 0);
	cr_assert_eq(size, HEADER_BYTES + event->metadata_bytes + 17);
	cr_assert_eq(at[0], 2);
	cr_assert_eq(memcmp(at + 1, "\3\2\1\0\5\4\7\6\x8\x9\xa\xb\xc\xd\xe\xf", 16), 0);
	rp_user_event_free(event);
}

Test(export_user_events, longest_record_is_written_and_a_longer_one_refused)
{
	static uint8_t bytes[70000];
	struct rp_user_event *event = make(bytes_fields, 1);
	size_t most = RP_USER_EVENT_BYTES_MAX - (HEADER_BYTES - 4) - event->metadata_bytes - 2;
	uint8_t out[HEADER_BYTES + RP_USER_EVENT_BYTES_MAX];
	const size_t counts[] = { most, most + 1, 65000, 65534, 65535 };
	size_t size;

	for (size_t i = 0; i < 5; i++) {
		uint16_t count = (uint16_t)counts[i];
		const struct rp_part parts[] = { { &count, 2 }, { bytes, counts[i] } };

		cr_assert_eq(pass(event, parts, 2, out, &size), i ? -EMSGSIZE : 0, "%zu", i);
		cr_assert_eq(size, i ? 0 : 4 + RP_USER_EVENT_BYTES_MAX, "%zu", i);
	}
	rp_user_event_free(event);
}

Test(export_user_events, write_says_what_the_kernel_said)
{
	struct rp_user_event *event = make(NULL, 0);
	uint8_t *scratch = malloc(RP_USER_EVENT_SCRATCH_BYTES);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	cr_assert_eq(rp_user_event_write(event, fd, NULL, 0, 0, scratch), -EBADF);
	close(fd);
	free(scratch);
	rp_user_event_free(event);
}

/* A table of two providers, the second with sets. */
static const uint32_t low_ids[] = { 3, 1 }, high_ids[] = { 70 };
static const struct rp_tracepoint_set two_sets[] = {
	{ "low", low_ids, 2 }, { "high", high_ids, 1 },
};
static const struct rp_session_provider two_providers[] = {
	{ .size = sizeof(two_providers[0]), .name = "*", .keywords = 1, .level = 4 },
	{ .size = sizeof(two_providers[0]), .name = "Shop", .keywords = UINT64_MAX, .level = 5 },
};

static int make_table(const struct rp_tracepoints tracepoints[2], struct rp_tracepoint_table *table)
{
	const struct rp_user_events_setup setup = {
		.providers = two_providers, .tracepoints = tracepoints, .provider_count = 2,
	};

	return rp_tracepoint_table_make(table, &setup);
}

static const char *where(const struct rp_tracepoint_table *table, const char *provider, uint32_t id)
{
	struct rp_event_def def = definition(NULL, 0);
	const struct rp_tracepoint *tracepoint;

	def.provider = provider;
	def.id = id;
	tracepoint = rp_tracepoint_of(table, &def);
	return tracepoint ? tracepoint->command : NULL;
}

Test(export_user_events, events_go_where_their_id_says)
{
	static const struct rp_tracepoints tracepoints[2] = {
		{ .name = "rest_of_all" },
		{ .sets = two_sets, .set_count = 2 },
	};
	struct rp_tracepoint_table table;

	cr_assert_eq(make_table(tracepoints, &table), 0);
	cr_assert_str_eq(where(&table, "Shop", 1), "low " RP_USER_EVENT_FIELDS);
	cr_assert_str_eq(where(&table, "Shop", 3), "low " RP_USER_EVENT_FIELDS);
	cr_assert_str_eq(where(&table, "Shop", 70), "high " RP_USER_EVENT_FIELDS);
	cr_assert_null(where(&table, "Shop", 2));
	cr_assert_str_eq(where(&table, "Bank", 2), "rest_of_all " RP_USER_EVENT_FIELDS);
	rp_tracepoint_table_fini(&table);
}

Test(export_user_events, events_that_no_provider_wants_go_nowhere)
{
	static const struct rp_tracepoints tracepoints[2] = {
		{ .name = "all" }, { .name = "shop" },
	};
	struct rp_event_def def = definition(NULL, 0);
	struct rp_tracepoint_table table;

	cr_assert_eq(make_table(tracepoints, &table), 0);
	def.provider = "Bank";
	def.keywords = 2;
	cr_assert_null(rp_tracepoint_of(&table, &def));
	def.keywords = 0;
	cr_assert_not_null(rp_tracepoint_of(&table, &def));
	def.level = 5;
	cr_assert_null(rp_tracepoint_of(&table, &def));
	rp_tracepoint_table_fini(&table);
}

Test(export_user_events, names_the_kernel_would_misread_are_refused)
{
	static const char *const names[] = { "", "two words", "a:flag", "a;b", "a/b", "tab\there",
					     "caf\xc3\xa9" };
	struct rp_tracepoint_table table;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct rp_tracepoints tracepoints[2] = { { .name = "all" },
							       { .name = names[i] } };

		cr_assert_eq(make_table(tracepoints, &table), -EINVAL, "%s", names[i]);
	}
}

Test(export_user_events, longest_command_is_taken_and_a_longer_one_refused)
{
	size_t most = 511 - strlen(" " RP_USER_EVENT_FIELDS);
	struct rp_tracepoint_table table;
	char name[512];

	for (size_t length = most; length <= most + 1; length++) {
		const struct rp_tracepoints tracepoints[2] = {
			{ .name = "all" }, { .name = name },
		};

		memset(name, 'n', length);
		name[length] = 0;
		cr_assert_eq(make_table(tracepoints, &table), length == most ? 0 : -EINVAL);
		if (length == most)
			rp_tracepoint_table_fini(&table);
	}
}

Test(export_user_events, id_in_two_sets_is_refused)
{
	static const struct rp_tracepoint_set sets[] = {
		{ "one", low_ids, 2 }, { "two", low_ids, 1 },
	};
	static const struct rp_tracepoints tracepoints[2] = {
		{ .name = "all" }, { .sets = sets, .set_count = 2 },
	};
	struct rp_tracepoint_table table;

	cr_assert_eq(make_table(tracepoints, &table), -EINVAL);
}

Test(export_user_events, file_that_is_not_the_kernels_is_refused_and_closed)
{
	static const struct rp_tracepoints tracepoints[2] = {
		{ .name = "all" }, { .name = "shop" },
	};
	struct rp_user_events_setup setup = {
		.providers = two_providers, .tracepoints = tracepoints, .provider_count = 2,
		.fd = open("/dev/null", O_RDWR | O_CLOEXEC),
	};
	struct rp_user_events *session;
	struct rp_file_id file;

	rp_file_identify(setup.fd, &file);
	cr_assert_eq(rp_user_events_open(&setup, &session), -EOPNOTSUPP);
	cr_assert(!rp_file_is(setup.fd, &file));
}
