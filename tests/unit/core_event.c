/* SPDX-License-Identifier: MIT */
/* Declared events: the bytes of each kind of field, and the maximum size of a payload. */
#include "core_support.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "core/def_table.h"

RP_PROVIDER(kinds, "Test-Kinds");

enum phase { PHASE_BEFORE = -1, PHASE_AFTER = 7 };
RP_ENUM(phase, PHASE_BEFORE, PHASE_AFTER);
RP_STRUCT(phased, RP_U8(small), RP_ENUM_FIELD(phase, phase));

RP_STRUCT(inner, RP_U8(small), RP_I32(large));
RP_STRUCT(outer, RP_U16(before), RP_STRUCT_FIELD(inner, middle), RP_GUID(id));

RP_EVENT(kinds, numbers, 1, RP_LEVEL_INFORMATIONAL, 0,
	 RP_BOOL(a), RP_CHAR(b), RP_I8(c), RP_U8(d), RP_I16(e), RP_U16(f), RP_I32(g), RP_U32(h),
	 RP_I64(i), RP_U64(j), RP_F32(k), RP_F64(l), RP_POINTER(m), RP_TIME(n));
RP_EVENT(kinds, guid, 2, RP_LEVEL_INFORMATIONAL, 0, RP_U8(before), RP_GUID(id), RP_U8(after));
RP_EVENT(kinds, strings, 3, RP_LEVEL_INFORMATIONAL, 0,
	 RP_U8(first), RP_STRING(narrow), RP_U8(between), RP_STRING16(wide), RP_U8(last));
RP_EVENT(kinds, blob, 4, RP_LEVEL_INFORMATIONAL, 0, RP_BLOB(bytes));
RP_EVENT(kinds, arrays, 5, RP_LEVEL_INFORMATIONAL, 0,
	 RP_ARRAY(U32, words), RP_BLOB(bytes), RP_ARRAY(F64, reals), RP_ARRAY(GUID, ids));
RP_EVENT(kinds, structs, 6, RP_LEVEL_INFORMATIONAL, 0,
	 RP_STRUCT_FIELD(outer, one), RP_STRUCT_ARRAY(inner, many), RP_U8(after));
RP_EVENT(kinds, nothing, 7, RP_LEVEL_INFORMATIONAL, 0);
RP_EVENT(kinds, longs, 8, RP_LEVEL_INFORMATIONAL, 0, RP_ARRAY(U64, values));
RP_EVENT_EX(kinds, reported, (RP_ID(9), RP_VERSION(3), RP_LEVEL(RP_LEVEL_WARNING),
	    RP_KEYWORDS(0x10), RP_OPCODE(RP_OPCODE_STOP), RP_MESSAGE("{0} is reported")),
	    RP_STRING(what), RP_STRUCT_ARRAY(inner, parts));

RP_EVENT(kinds, lengths, 11, RP_LEVEL_INFORMATIONAL, 0,
	 RP_U8(first), RP_STRING_N(text), RP_U8(between), RP_SECRET(RP_STRING_N(secret)),
	 RP_STRING_N(last));
RP_EVENT(kinds, phases, 10, RP_LEVEL_INFORMATIONAL, 0,
	 RP_ENUM_FIELD(phase, phase), RP_STRUCT_FIELD(phased, both));

/* Gathers expected bytes. */
struct expected {
	uint8_t bytes[RP_PAYLOAD_MAX];
	size_t size;
};

static void add(struct expected *expected, const void *bytes, size_t size)
{
	memcpy(expected->bytes + expected->size, bytes, size);
	expected->size += size;
}

#define ADD(expected, type, value) add(expected, &(type){ value }, sizeof(type))

Test(core_event, numbers_are_written_packed_in_the_machines_order)
{
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct expected expected = { .size = 0 };
	const void *address = &expected;

	cr_assert_eq(kinds_numbers(true, 'x', -1, 200, -300, 60000, -70000, 4000000000u, INT64_MIN,
				   UINT64_MAX, 1.5f, -2.25, address, 1234567890123456789), 0);
	ADD(&expected, uint8_t, 1);
	ADD(&expected, char, 'x');
	ADD(&expected, int8_t, -1);
	ADD(&expected, uint8_t, 200);
	ADD(&expected, int16_t, -300);
	ADD(&expected, uint16_t, 60000);
	ADD(&expected, int32_t, -70000);
	ADD(&expected, uint32_t, 4000000000u);
	ADD(&expected, int64_t, INT64_MIN);
	ADD(&expected, uint64_t, UINT64_MAX);
	ADD(&expected, float, 1.5f);
	ADD(&expected, double, -2.25);
	ADD(&expected, uint64_t, (uint64_t)(uintptr_t)address);
	ADD(&expected, int64_t, 1234567890123456789);
	expect_payload(listener, expected.bytes, expected.size);
	expect_end(listener);
}

Test(core_event, guid_is_copied_and_null_is_zeros)
{
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_guid id;
	uint8_t expected[18] = { 7 };

	memset(&id, 0xab, sizeof(id));
	memset(expected + 1, 0xab, 16);
	expected[17] = 9;
	cr_assert_eq(kinds_guid(7, &id, 9), 0);
	expect_payload(listener, expected, sizeof(expected));
	memset(expected + 1, 0, 16);
	cr_assert_eq(kinds_guid(7, NULL, 9), 0);
	expect_payload(listener, expected, sizeof(expected));
	expect_end(listener);
}

Test(core_event, strings_end_with_one_nul_and_null_is_empty)
{
	static const rp_char16 wide[] = { 'h', 0xd83d, 0xde00, 0 };
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct expected expected = { .size = 0 };

	cr_assert_eq(kinds_strings(1, "gr\xc3\xbc\xc3\x9f", 2, wide, 3), 0);
	ADD(&expected, uint8_t, 1);
	add(&expected, "gr\xc3\xbc\xc3\x9f", 7);
	ADD(&expected, uint8_t, 2);
	add(&expected, wide, 8);
	ADD(&expected, uint8_t, 3);
	expect_payload(listener, expected.bytes, expected.size);

	cr_assert_eq(kinds_strings(1, NULL, 2, NULL, 3), 0);
	expect_payload(listener, "\1\0\2\0\0\3", 6);
	cr_assert_eq(kinds_strings(1, "", 2, &wide[3], 3), 0);
	expect_payload(listener, "\1\0\2\0\0\3", 6);
	expect_end(listener);
}

Test(core_event, strings_of_a_given_length_end_there_or_at_a_nul)
{
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_listener_event event;
	char *text = strdup("text");

	/* The byte after a text is not read: valgrind and the sanitizers would report it. */
	cr_assert_eq(kinds_lengths(1, text, 4, 2, "password", 8, "", 0), 0);
	expect_payload(listener, "\1text\0\2***\0\0", 12);
	memset(text, 'x', 5);
	cr_assert_eq(kinds_lengths(1, text, 5, 2, NULL, 0, NULL, 0), 0);
	expect_payload(listener, "\1xxxxx\0\2***\0\0", 13);
	cr_assert_eq(kinds_lengths(1, NULL, 0, 2, text, 5, "in\0side", 7), 0);
	expect_payload(listener, "\1\0\2***\0in\0", 10);
	cr_assert_eq(kinds_lengths(1, "\0", 1, 2, text, 5, text, 1), 0);
	expect_event(listener, &event);
	cr_assert_eq(event.field_count, 5);
	cr_assert_eq(event.fields[1].type, RP_TYPE_STRING);
	cr_assert_eq(event.payload_bytes, 9u);
	cr_assert_arr_eq(event.payload, "\1\0\2***\0x\0", 9);
	free(text);
	expect_end(listener);
}

Test(core_event, arrays_and_blobs_carry_their_count)
{
	static const uint32_t words[] = { 1, 0xffffffff, 3 };
	static const double reals[] = { 0.5, -0.0 };
	static const struct rp_guid ids[] = { { { 1, 2, 3 } }, { { 4, 5, 6 } } };
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct expected expected = { .size = 0 };

	cr_assert_eq(kinds_arrays(words, 3, "abc", 3, reals, 2, ids, 2), 0);
	ADD(&expected, uint16_t, 3);
	add(&expected, words, sizeof(words));
	ADD(&expected, uint16_t, 3);
	add(&expected, "abc", 3);
	ADD(&expected, uint16_t, 2);
	add(&expected, reals, sizeof(reals));
	ADD(&expected, uint16_t, 2);
	add(&expected, ids, sizeof(ids));
	expect_payload(listener, expected.bytes, expected.size);

	cr_assert_eq(kinds_arrays(NULL, 0, NULL, 0, NULL, 0, NULL, 0), 0);
	expect_payload(listener, "\0\0\0\0\0\0\0\0", 8);
	expect_end(listener);
}

Test(core_event, structs_are_written_member_by_member)
{
	struct outer one = { .before = 1, .middle = { 2, -3 }, .id = { { 4 } } };
	struct inner many[2] = { { 5, -6 }, { 7, 8 } };
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct expected expected = { .size = 0 };

	cr_assert_eq(kinds_structs(&one, many, 2, 9), 0);
	ADD(&expected, uint16_t, 1);
	ADD(&expected, uint8_t, 2);
	ADD(&expected, int32_t, -3);
	add(&expected, one.id.bytes, 16);
	ADD(&expected, uint16_t, 2);
	ADD(&expected, uint8_t, 5);
	ADD(&expected, int32_t, -6);
	ADD(&expected, uint8_t, 7);
	ADD(&expected, int32_t, 8);
	ADD(&expected, uint8_t, 9);
	expect_payload(listener, expected.bytes, expected.size);

	cr_assert_eq(kinds_structs(NULL, NULL, 0, 9), 0);
	memset(expected.bytes, 0, sizeof(struct outer) + 2);
	expected.bytes[sizeof(struct outer) + 2] = 9;
	expect_payload(listener, expected.bytes, sizeof(struct outer) + 3);
	expect_end(listener);
}

Test(core_event, event_without_fields_has_no_payload)
{
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_listener_event event;

	cr_assert_eq(kinds_nothing(), 0);
	expect_event(listener, &event);
	cr_assert_str_eq(event.name, "nothing");
	cr_assert_eq(event.payload_bytes, 0u);
	cr_assert_eq(event.field_count, 0u);
	expect_end(listener);
}

#define LENGTHS 600
#define BATCH 50	/* fits the smallest ring */

/* Parts of `length` bytes and of LENGTHS minus `length`, from every alignment. */
static unsigned int make_parts(size_t length, const uint8_t *source, struct rp_part parts[4])
{
	parts[0] = (struct rp_part){ source + length % 16, length };
	parts[1] = (struct rp_part){ NULL, 0 };
	parts[2] = (struct rp_part){ source, LENGTHS - length };
	parts[3] = (struct rp_part){ "end", 3 };
	return 4;
}

/* The section's copy has a case for each length. */
Test(core_event, parts_of_every_length_are_gathered_in_order)
{
	static uint8_t source[LENGTHS + 16];
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_part parts[4];

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 7 + 1);
	for (size_t first = 0; first < LENGTHS; first += BATCH) {
		for (size_t length = first; length < first + BATCH; length++) {
			unsigned int count = make_parts(length, source, parts);

			cr_assert_eq(rp_event_write(&kinds_blob_event_, parts, count), 0);
		}
		for (size_t length = first; length < first + BATCH; length++) {
			struct expected expected = { .size = 0 };
			unsigned int count = make_parts(length, source, parts);

			for (unsigned int i = 0; i < count; i++)
				add(&expected, parts[i].base ? parts[i].base : "",
				    parts[i].size_bytes);
			expect_payload(listener, expected.bytes, expected.size);
		}
	}
	expect_end(listener);
}

Test(core_event, payload_of_64_kb_is_delivered_whole)
{
	static uint8_t bytes[RP_PAYLOAD_MAX];
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_part part = { bytes, sizeof(bytes) };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i ^ i >> 8);
	cr_assert_eq(rp_event_write(&kinds_blob_event_, &part, 1), 0);
	expect_payload(listener, bytes, sizeof(bytes));
	/* Two bytes of the largest blob's payload are its count. */
	cr_assert_eq(kinds_blob(bytes, RP_PAYLOAD_MAX - 2), 0);
	{
		struct rp_listener_event event;

		expect_event(listener, &event);
		cr_assert_eq(event.payload_bytes, RP_PAYLOAD_MAX);
		cr_assert_arr_eq(event.payload, "\xfe\xff", 2);
		cr_assert_arr_eq((const uint8_t *)event.payload + 2, bytes, RP_PAYLOAD_MAX - 2);
	}
	expect_end(listener);
}

Test(core_event, payload_above_64_kb_is_refused_and_counted)
{
	static uint8_t bytes[RP_PAYLOAD_MAX + 1];
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_session_stats stats = empty_stats();
	const struct rp_part one = { bytes, sizeof(bytes) };
	const struct rp_part sum[] = { { bytes, 40000 }, { bytes, 25537 } };
	const struct rp_part wraps[] = { { bytes, SIZE_MAX }, { bytes, SIZE_MAX }, { bytes, 2 } };

	cr_assert_eq(rp_event_write(&kinds_blob_event_, &one, 1), -EMSGSIZE);
	cr_assert_eq(rp_event_write(&kinds_blob_event_, sum, 2), -EMSGSIZE);
	cr_assert_eq(rp_event_write(&kinds_blob_event_, wraps, 3), -EMSGSIZE);
	cr_assert_eq(kinds_blob(bytes, RP_PAYLOAD_MAX - 1), -EMSGSIZE);
	cr_assert_eq(kinds_blob(bytes, RP_PAYLOAD_MAX), -EMSGSIZE);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.lost_by[RP_LOSS_TOO_BIG], 5u);
	cr_assert_eq(stats.lost, 5u);
	cr_assert_eq(stats.delivered, 0u);
}

Test(core_event, count_too_large_for_the_payload_is_refused)
{
	static uint64_t values[8192];
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_session_stats stats = empty_stats();
	struct rp_listener_event event;

	cr_assert_eq(kinds_longs(values, 8191), 0);
	expect_event(listener, &event);
	cr_assert_eq(event.payload_bytes, 2 + 8191u * 8);
	cr_assert_eq(kinds_longs(values, 8192), -EMSGSIZE);
	cr_assert_eq(kinds_longs(values, 65536), -EMSGSIZE);
	cr_assert_eq(kinds_longs(values, SIZE_MAX), -EMSGSIZE);
	/* The product with eight overflows to eight. */
	cr_assert_eq(kinds_longs(values, SIZE_MAX / 8 + 2), -EMSGSIZE);
	cr_assert_eq(rp_listener_stop(listener, &stats), 0);
	cr_assert_eq(stats.lost_by[RP_LOSS_TOO_BIG], 4u);
}

Test(core_event, unwanted_write_returns_zero_even_if_too_large)
{
	static uint8_t bytes[RP_PAYLOAD_MAX + 1];

	cr_assert_eq(kinds_nothing_enabled(), 0);
	cr_assert_eq(kinds_nothing(), 0);
	cr_assert_eq(kinds_blob(bytes, sizeof(bytes)), 0);
}

Test(core_event, listener_gets_what_the_declaration_says)
{
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_listener_event event;

	cr_assert(kinds_reported_enabled());
	cr_assert_eq(kinds_reported("this", NULL, 0), 0);
	expect_event(listener, &event);
	cr_assert_str_eq(event.provider, "Test-Kinds");
	cr_assert_str_eq(event.name, "reported");
	cr_assert_eq(event.size, sizeof(event));
	cr_assert_eq(event.id, 9u);
	cr_assert_eq(event.version, 3);
	cr_assert_eq(event.level, RP_LEVEL_WARNING);
	cr_assert_eq(event.opcode, RP_OPCODE_STOP);
	cr_assert_eq(event.keywords, 0x10u);
	cr_assert_eq(event.field_count, 2u);
	cr_assert_str_eq(event.fields[0].name, "what");
	cr_assert_eq(event.fields[0].type, RP_TYPE_STRING);
	cr_assert_eq(event.fields[1].type, RP_TYPE_ARRAY);
	cr_assert_eq(event.fields[1].element, RP_TYPE_STRUCT);
	cr_assert_eq(event.fields[1].member_count, 2u);
	cr_assert_str_eq(event.fields[1].members[1].name, "large");
	cr_assert_eq(event.thread, (uint32_t)gettid());
	expect_end(listener);
}

Test(core_event, enumeration_is_an_integer_with_names)
{
	struct rp_listener *listener = listen_to("Test-Kinds");
	const struct phased both = { 1, PHASE_BEFORE };
	struct expected expected = { .size = 0 };
	struct rp_listener_event event;
	const struct rp_enumeration *names;

	cr_assert_eq(kinds_phases(PHASE_AFTER, &both), 0);
	expect_event(listener, &event);
	ADD(&expected, int32_t, 7);
	ADD(&expected, uint8_t, 1);
	ADD(&expected, int32_t, -1);
	cr_assert_eq(event.payload_bytes, expected.size);
	cr_assert_arr_eq(event.payload, expected.bytes, expected.size);
	cr_assert_eq(event.fields[0].type, RP_TYPE_I32);
	names = event.fields[0].enumeration;
	cr_assert_str_eq(names->name, "phase");
	cr_assert_eq(names->count, 2);
	cr_assert_str_eq(names->enumerators[0].name, "PHASE_BEFORE");
	cr_assert_eq(names->enumerators[0].value, -1);
	cr_assert_str_eq(names->enumerators[1].name, "PHASE_AFTER");
	cr_assert_eq(names->enumerators[1].value, 7);
	cr_assert_null(event.fields[1].enumeration);
	cr_assert_str_eq(event.fields[1].members[1].enumeration->name, "phase");
	expect_end(listener);
}

/* TraceEvent drops events of id 65535. */
Test(core_event, id_above_the_largest_is_refused)
{
	struct rp_event_decl decl = { .size = sizeof(decl), .name = "Dynamic",
				      .level = RP_LEVEL_INFORMATIONAL, .id = 65535 };
	struct rp_event *event;

	cr_assert_eq(rp_event_create(kinds_provider(), &decl, &event), -EINVAL);
	decl.id = 65536;
	cr_assert_eq(rp_event_create(kinds_provider(), &decl, &event), -EINVAL);
	decl.id = RP_EVENT_ID_MAX;
	cr_assert_eq(rp_event_create(kinds_provider(), &decl, &event), 0);
	rp_event_destroy(event);
}

Test(core_event, a_secret_in_a_payload_of_another_layout_is_refused)
{
	static const struct rp_field fields[] = {
		{ .name = "n", .type = RP_TYPE_U32 },
		{ .name = "card", .type = RP_TYPE_U64, .flags = RP_FIELD_SECRET },
	};
	struct rp_event_decl decl = { .size = sizeof(decl), .name = "Raw", .fields = fields,
				      .field_count = 2, .flags = RP_EVENT_WIRE, .id = 77,
				      .level = RP_LEVEL_INFORMATIONAL };
	struct rp_event *event;

	cr_assert_eq(rp_event_create(kinds_provider(), &decl, &event), -EINVAL);
	decl.field_count = 1;
	cr_assert_eq(rp_event_create(kinds_provider(), &decl, &event), 0);
	rp_event_destroy(event);
	decl.flags = 0;
	decl.field_count = 2;
	cr_assert_eq(rp_event_create(kinds_provider(), &decl, &event), 0);
	rp_event_destroy(event);
}

/* The engine's own definition: consumers other than listeners also need the message. */
Test(core_event, ids_by_name_leave_out_those_of_counters)
{
	for (int i = 0; i < 200000; i++) {
		char name[32];
		struct rp_event_decl decl = {
			.size = sizeof(decl), .id = RP_EVENT_ID_AUTO, .name = name,
		}, read;

		snprintf(name, sizeof(name), "event%d", i);
		cr_assert_eq(rp_event_decl_read(&read, &decl), 0);
		cr_assert(read.id > 32767 && read.id < 65533, "%s has id %u", name, read.id);
	}
}

Test(core_event, message_is_part_of_the_definition)
{
	cr_assert_str_eq(kinds_reported_event_.decl->message, "{0} is reported");
	cr_assert_null(kinds_blob_event_.decl->message);
}

Test(core_event, time_does_not_go_back_and_is_the_monotonic_clock)
{
	struct rp_listener *listener = listen_to("Test-Kinds");
	struct rp_listener_event event;
	struct timespec now;
	uint64_t before, after, last = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	before = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(kinds_nothing(), 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	after = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	for (int i = 0; i < 1000; i++) {
		expect_event(listener, &event);
		cr_assert_geq(event.time_ns, last);
		last = event.time_ns;
		/* Translated ticks lie on a line between two points, so the tolerance is 1 ms. */
		cr_assert_geq(event.time_ns + 1000000, before);
		cr_assert_leq(event.time_ns, after + 1000000);
	}
	expect_end(listener);
}
