/* SPDX-License-Identifier: MIT */
/* Payloads read by field: a listener and a recording give the same values. */
#include "core_support.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <ringpipe/reader.h>

RP_PROVIDER(walked, "Test-Walked");
RP_STRUCT(pair, RP_U8(small), RP_I32(large));
RP_STRUCT(deep, RP_U16(before), RP_STRUCT_FIELD(pair, middle), RP_GUID(id));
RP_EVENT(walked, all, 1, RP_LEVEL_INFORMATIONAL, 0,
	 RP_BOOL(yes), RP_CHAR(letter), RP_I8(i8), RP_U8(u8), RP_I16(i16), RP_U16(u16), RP_I32(i32),
	 RP_U32(u32), RP_I64(i64), RP_U64(u64), RP_F32(f32), RP_F64(f64), RP_POINTER(pointer),
	 RP_TIME(time), RP_GUID(guid), RP_STRING(text), RP_STRING16(wide), RP_BLOB(blob),
	 RP_ARRAY(I16, numbers), RP_STRUCT_FIELD(deep, one), RP_STRUCT_ARRAY(pair, many),
	 RP_U8(last));

#define TEXT "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80!"
#define TIME_NS 1700000000123456700

static const struct rp_guid guid = { { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99,
				       0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff } };
static const int16_t numbers[] = { -1, 0, 32767 };
static const struct pair many[] = { { 1, -2 }, { 3, 4 } };

static void write_all(void)
{
	static const rp_char16 wide[] = {
		'g', 'r', 0xfc, 0xdf, ' ', 0xd83d, 0xde00, '!', 0,
	};
	struct deep one = { .before = 7, .middle = { 8, -9 }, .id = guid };

	cr_assert_eq(walked_all(true, 0xe9, -8, 0xf8, -1600, 61600, -320000, 4000000000u,
				INT64_MIN, UINT64_MAX, 1.5f, -2.25, (void *)(uintptr_t)0xabcdef,
				TIME_NS, &guid, TEXT, wide, "\0\xff", 2, numbers, 3, &one, many, 2,
				255), 0);
}

static struct rp_value next_of(struct rp_fields *fields, const char *name, uint8_t type)
{
	struct rp_value value = RP_VALUE_INIT;

	cr_assert_eq(rp_fields_next(fields, &value), 1, "%s", name);
	cr_assert_str_eq(value.name, name);
	cr_assert_eq(value.type, type, "%s: %d", name, value.type);
	return value;
}

static void expect_text(struct rp_fields *fields, const char *name, uint8_t type, const char *text)
{
	struct rp_value value = next_of(fields, name, type);
	char space[64];

	cr_expect_eq(rp_value_get_text(&value, space, sizeof(space)), strlen(text), "%s", name);
	cr_expect_str_eq(space, text, "%s: \"%s\"", name, space);
}

static void expect_pair(struct rp_fields *fields, uint8_t small, int32_t large)
{
	cr_expect_eq(next_of(fields, "small", RP_TYPE_U8).u64, small);
	cr_expect_eq(next_of(fields, "large", RP_TYPE_I32).i64, large);
	cr_expect_eq(rp_fields_next(fields, NULL), 0);
}

/* A recording stores a POINTER as U64. */
static void expect_scalars(struct rp_fields *fields, uint8_t pointer_type)
{
	struct rp_value value = RP_VALUE_INIT;

	cr_expect_eq(next_of(fields, "yes", RP_TYPE_BOOL).u64, 1u);
	expect_text(fields, "letter", RP_TYPE_CHAR, "\xc3\xa9");
	cr_expect_eq(next_of(fields, "i8", RP_TYPE_I8).i64, -8);
	cr_expect_eq(next_of(fields, "u8", RP_TYPE_U8).u64, 0xf8u);
	cr_expect_eq(next_of(fields, "i16", RP_TYPE_I16).i64, -1600);
	cr_expect_eq(next_of(fields, "u16", RP_TYPE_U16).u64, 61600u);
	cr_expect_eq(next_of(fields, "i32", RP_TYPE_I32).i64, -320000);
	cr_expect_eq(next_of(fields, "u32", RP_TYPE_U32).u64, 4000000000u);
	cr_expect_eq(next_of(fields, "i64", RP_TYPE_I64).i64, INT64_MIN);
	cr_expect_eq(next_of(fields, "u64", RP_TYPE_U64).u64, UINT64_MAX);
	cr_expect_eq(next_of(fields, "f32", RP_TYPE_F32).f64, 1.5);
	cr_expect_eq(next_of(fields, "f64", RP_TYPE_F64).f64, -2.25);
	cr_expect_eq(next_of(fields, "pointer", pointer_type).u64, 0xabcdefu);
	cr_expect_eq(next_of(fields, "time", RP_TYPE_TIME).i64, TIME_NS);
	value = next_of(fields, "guid", RP_TYPE_GUID);
	cr_expect_arr_eq(value.guid.bytes, guid.bytes, 16);
}

static void expect_nested(struct rp_fields *fields)
{
	struct rp_value value = next_of(fields, "one", RP_TYPE_STRUCT), middle = RP_VALUE_INIT;

	cr_expect_eq(next_of(&value.inner, "before", RP_TYPE_U16).u64, 7u);
	middle = next_of(&value.inner, "middle", RP_TYPE_STRUCT);
	expect_pair(&middle.inner, 8, -9);
	cr_expect_arr_eq(next_of(&value.inner, "id", RP_TYPE_GUID).guid.bytes, guid.bytes, 16);
	cr_expect_eq(rp_fields_next(&value.inner, NULL), 0);
	value = next_of(fields, "many", RP_TYPE_ARRAY);
	cr_expect_eq(value.element, RP_TYPE_STRUCT);
	cr_expect_eq(value.count, 2);
	for (int i = 0; i < 2; i++) {
		struct rp_value element = next_of(&value.inner, "many", RP_TYPE_STRUCT);

		expect_pair(&element.inner, many[i].small, many[i].large);
	}
	cr_expect_eq(rp_fields_next(&value.inner, NULL), 0);
}

static void expect_all(struct rp_fields *fields)
{
	struct rp_value value = RP_VALUE_INIT;

	expect_scalars(fields, RP_TYPE_U64);
	expect_text(fields, "text", RP_TYPE_STRING16, TEXT);
	expect_text(fields, "wide", RP_TYPE_STRING16, TEXT);
	value = next_of(fields, "blob", RP_TYPE_ARRAY);
	cr_expect_eq(value.element, RP_TYPE_U8);
	cr_expect_eq(value.size_bytes, 2u);
	cr_expect_arr_eq(value.bytes, "\0\xff", 2);
	value = next_of(fields, "numbers", RP_TYPE_ARRAY);
	cr_expect_eq(value.count, 3);
	cr_expect_eq(value.size_bytes, sizeof(numbers));
	for (int i = 0; i < 3; i++)
		cr_expect_eq(next_of(&value.inner, "numbers", RP_TYPE_I16).i64, numbers[i]);
	cr_expect_eq(rp_fields_next(&value.inner, NULL), 0);
	expect_nested(fields);
	cr_expect_eq(next_of(fields, "last", RP_TYPE_U8).u64, 255u);
	cr_expect_eq(rp_fields_next(fields, NULL), 0);
	cr_expect_eq(rp_fields_next(fields, NULL), 0, "the end stays the end");
}

/* A listener's STRING is a STRING16 in recordings, which have no other string type. */
static void expect_listener(struct rp_listener *listener)
{
	struct rp_listener_event event;
	struct rp_fields fields;
	struct rp_value value = RP_VALUE_INIT;
	char text[64];

	expect_event(listener, &event);
	rp_listener_get_fields(&event, &fields);
	cr_assert_eq(rp_fields_find(&fields, "text", &value), 0);
	cr_expect_eq(value.type, RP_TYPE_STRING);
	cr_expect_eq(value.size_bytes, strlen(TEXT));
	cr_expect_eq(rp_value_get_text(&value, text, sizeof(text)), strlen(TEXT));
	cr_expect_str_eq(text, TEXT);
	expect_scalars(&fields, RP_TYPE_POINTER);
	cr_expect_eq(rp_fields_find(&fields, "guid", &value), -ENOENT, "it is behind us");
	(void)next_of(&fields, "text", RP_TYPE_STRING);
	expect_text(&fields, "wide", RP_TYPE_STRING16, TEXT);
	(void)next_of(&fields, "blob", RP_TYPE_ARRAY);
	(void)next_of(&fields, "numbers", RP_TYPE_ARRAY);
	expect_nested(&fields);
	cr_expect_eq(next_of(&fields, "last", RP_TYPE_U8).u64, 255u);
	cr_expect_eq(rp_fields_next(&fields, &value), 0);
}

Test(fields, are_the_same_in_a_listener_and_a_recording)
{
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_listener *listener = listen_to("Test-Walked");
	FILE *file = tmpfile();
	struct rp_session *session = stream_to(dup(fileno(file)), "Test-Walked");
	struct rp_reader *reader;
	struct rp_fields fields;

	write_all();
	expect_listener(listener);
	expect_end(listener);
	cr_assert_eq(rp_session_stop(session, NULL), 0);
	cr_assert_eq(lseek(fileno(file), 0, SEEK_SET), 0);
	cr_assert_eq(rp_reader_open_fd(fileno(file), &reader), 0);
	do
		cr_assert_eq(rp_reader_next(reader, &event), 1);
	while (strcmp(event.type->provider, "Test-Walked") != 0);
	rp_reader_get_fields(&event, &fields);
	expect_all(&fields);
	rp_reader_close(reader);
	fclose(file);
}

/* Visits all values, including inner ones. Return: their number, or the error. */
static int walk(struct rp_fields fields)
{
	struct rp_value value = RP_VALUE_INIT;
	int count = 0, ret;
	char text[8];

	while ((ret = rp_fields_next(&fields, &value)) == 1) {
		int inner = walk(value.inner);

		cr_assert_leq((const uint8_t *)value.bytes + value.size_bytes, fields.end);
		(void)rp_value_get_text(&value, text, sizeof(text));
		count += 1 + (inner > 0 ? inner : 0);
	}
	cr_assert_eq(rp_fields_next(&fields, &value), ret, "what ended it stays");
	return ret < 0 ? ret : count;
}

/* Copies the payload to memory of its exact size, so that sanitizers report a read beyond it. */
static int walk_exactly(struct rp_listener_event event, const void *payload, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct rp_fields fields;
	int ret;

	memcpy(copy, payload, size);
	event.payload = copy;
	event.payload_bytes = size;
	rp_listener_get_fields(&event, &fields);
	ret = walk(fields);
	free(copy);
	return ret;
}

Test(fields, cut_payloads_are_reported_at_every_length)
{
	struct rp_listener *listener = listen_to("Test-Walked");
	struct rp_listener_event event;

	write_all();
	expect_event(listener, &event);
	for (size_t size = 0; size < event.payload_bytes; size++)
		cr_expect_eq(walk_exactly(event, event.payload, size), -EBADMSG, "%zu", size);
	cr_expect_eq(walk_exactly(event, event.payload, event.payload_bytes), 22 + 2 + 3 + 5 + 6);
	expect_end(listener);
}

Test(fields, any_bytes_are_walked_within_their_bounds)
{
	struct rp_listener *listener = listen_to("Test-Walked");
	struct rp_listener_event event;
	uint8_t bytes[256];
	uint32_t random = 1;

	write_all();
	expect_event(listener, &event);
	for (int i = 0; i < 20000; i++) {
		size_t size = event.payload_bytes < sizeof(bytes) ? event.payload_bytes : 256;

		memcpy(bytes, event.payload, size);
		for (int j = 0; j < 4; j++) {
			random = random * 1664525 + 1013904223;
			bytes[(random >> 8) % size] = (uint8_t)(random >> 24);
		}
		(void)walk_exactly(event, bytes, size);
	}
	expect_end(listener);
}

/*
 * If the payload ends within an array, its present elements are read, then an error is returned.
 */
Test(fields, cut_array_is_given_as_far_as_it_goes)
{
	static const struct rp_field array = { "a", NULL, 0, RP_TYPE_ARRAY, RP_TYPE_U16, 0, NULL };
	static const uint8_t payload[] = { 3, 0, 0x34, 0x12, 0x78 };
	struct rp_listener_event event = {
		.size = sizeof(event),
		.fields = &array,
		.field_count = 1,
		.payload = payload,
		.payload_bytes = sizeof(payload),
	};
	struct rp_value value = RP_VALUE_INIT, element = RP_VALUE_INIT;
	struct rp_fields fields;

	rp_listener_get_fields(&event, &fields);
	cr_assert_eq(rp_fields_next(&fields, &value), 1);
	cr_expect_eq(value.count, 3);
	cr_expect_eq(value.size_bytes, 3u);
	cr_expect_eq(rp_fields_next(&value.inner, &element), 1);
	cr_expect_eq(element.u64, 0x1234u);
	cr_expect_eq(rp_fields_next(&value.inner, &element), -EBADMSG);
	cr_expect_eq(rp_fields_next(&fields, &value), -EBADMSG);
	cr_expect_eq(rp_fields_find(&fields, "b", &value), -EBADMSG);
}

static void expect_cut(const struct rp_value *value, size_t space, const char *expected)
{
	char text[32];

	memset(text, 'x', sizeof(text));
	cr_expect_eq(rp_value_get_text(value, text, space), strlen(TEXT), "space %zu", space);
	if (space)
		cr_expect_str_eq(text, expected, "space %zu: \"%s\"", space, text);
	cr_expect_eq(text[space], 'x', "nothing behind the space");
	cr_expect_eq(rp_value_get_text(value, NULL, 0), strlen(TEXT));
}

Test(fields, text_is_cut_at_the_end_of_a_character)
{
	struct rp_listener *listener = listen_to("Test-Walked");
	static const char *const names[] = { "text", "wide" };
	struct rp_listener_event event;
	struct rp_fields fields;
	struct rp_value value = RP_VALUE_INIT;

	write_all();
	expect_event(listener, &event);
	rp_listener_get_fields(&event, &fields);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(rp_fields_find(&fields, names[i], &value), 0);
		expect_cut(&value, 0, "");
		expect_cut(&value, 1, "");
		expect_cut(&value, 3, "gr");
		expect_cut(&value, 4, "gr");
		expect_cut(&value, 5, "gr\xc3\xbc");
		expect_cut(&value, 11, "gr\xc3\xbc\xc3\x9f ");
		expect_cut(&value, 12, "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
		expect_cut(&value, 13, TEXT);
	}
	expect_end(listener);
}
