/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "nettrace_trace.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WIRE_MAX 65400u

static void expect_json(const struct rp_field *fields, size_t field_count, const void *payload,
			size_t payload_bytes, const char *expected)
{
	char *json = trace_round(fields, field_count, payload, payload_bytes, NULL);

	cr_expect_str_eq(json, expected);
	free(json);
}

Test(convert, converts_each_fixed_type_at_its_extremes)
{
	static const struct {
		uint8_t type;
		uint8_t size;
		uint64_t bits;
		const char *json;
	} rows[] = {
		{ RP_TYPE_BOOL, 1, 0, "false" },
		{ RP_TYPE_BOOL, 1, 1, "true" },
		{ RP_TYPE_BOOL, 1, 0x80, "true" },
		{ RP_TYPE_CHAR, 1, 'x', "\"x\"" },
		{ RP_TYPE_CHAR, 1, 0xff, "\"\xc3\xbf\"" },
		{ RP_TYPE_CHAR, 1, 0, "\"\\u0000\"" },
		{ RP_TYPE_I8, 1, 0x80, "-128" },
		{ RP_TYPE_I8, 1, 0x7f, "127" },
		{ RP_TYPE_U8, 1, 0xff, "255" },
		{ RP_TYPE_I16, 2, 0x8000, "-32768" },
		{ RP_TYPE_U16, 2, 0xffff, "65535" },
		{ RP_TYPE_I32, 4, 0x80000000, "-2147483648" },
		{ RP_TYPE_U32, 4, 0xffffffff, "4294967295" },
		{ RP_TYPE_I64, 8, 1ull << 63, "-9223372036854775808" },
		{ RP_TYPE_U64, 8, UINT64_MAX, "18446744073709551615" },
		{ RP_TYPE_POINTER, 8, 0x7fff12345678, "140733498807928" },
		{ RP_TYPE_F32, 4, 0x3dcccccd, "0.1" },
		{ RP_TYPE_F32, 4, 0x7f7fffff, "3.4028235e+38" },
		{ RP_TYPE_F32, 4, 0x7fc00000, "null" },
		{ RP_TYPE_F64, 8, 0x3fb999999999999a, "0.1" },
		{ RP_TYPE_F64, 8, 0x7fefffffffffffff, "1.7976931348623157e+308" },
		{ RP_TYPE_F64, 8, 0xfff0000000000000, "null" },
		{ RP_TYPE_F64, 8, 0x8000000000000000, "-0" },
		{ RP_TYPE_TIME, 8, 0, "\"1970-01-01T00:00:00.0000000Z\"" },
		{ RP_TYPE_TIME, 8, UINT64_MAX, "\"1969-12-31T23:59:59.9999999Z\"" },
		{ RP_TYPE_TIME, 8, 1709210096123456789, "\"2024-02-29T12:34:56.1234567Z\"" },
		{ RP_TYPE_TIME, 8, INT64_MAX, "\"2262-04-11T23:47:16.8547758Z\"" },
		{ RP_TYPE_TIME, 8, 1ull << 63, "\"1677-09-21T00:12:43.1452241Z\"" },
	};
	char expected[128];

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct rp_field field = { .name = "v", .type = rows[i].type };

		snprintf(expected, sizeof(expected), "{\"v\":%s}", rows[i].json);
		expect_json(&field, 1, &rows[i].bits, rows[i].size, expected);
	}
}

Test(convert, writes_guids_in_the_byte_order_of_dotnet)
{
	static const uint8_t in[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	static const uint8_t out[] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	const struct rp_field field = { .name = "g", .type = RP_TYPE_GUID };
	struct rp_encoder *encoder = trace_begin();
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder_event_type *type;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;
	char *json;

	type = trace_define(encoder, "G", 1, &field, 1);
	trace_event(encoder, type, TRACE_START_NS, 1, in, 16);
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_assert_eq(event.payload_bytes, 16);
	cr_expect_arr_eq(event.payload, out, 16);
	json = trace_json(&event);
	cr_expect_str_eq(json, "{\"g\":\"00010203-0405-0607-0809-0a0b0c0d0e0f\"}");
	free(json);
	rp_reader_close(reader);
	free(bytes);
}

Test(convert, replaces_what_is_not_utf8)
{
	static const struct {
		const char *in;
		const char *json;
	} rows[] = {
		{ "plain text longer than eight", "plain text longer than eight" },
		{ "12345678\xc3\xa9", "12345678\xc3\xa9" },
		{ "\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "\xef\xbf\xbf", "\xef\xbf\xbf" },
		{ "a\x80z", "a\xef\xbf\xbdz" },
		{ "\xc3", "\xef\xbf\xbd" },
		{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xe0\x9f\xbf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf0\x9f\x98z", "\xef\xbf\xbdz" },
		{ "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd" },
	};
	const struct rp_field field = { .name = "s", .type = RP_TYPE_STRING };
	char expected[128];

	for (size_t i = 0; i < COUNT(rows); i++) {
		snprintf(expected, sizeof(expected), "{\"s\":\"%s\"}", rows[i].json);
		expect_json(&field, 1, rows[i].in, strlen(rows[i].in) + 1, expected);
	}
}

Test(convert, ends_a_string_that_lost_its_nul)
{
	static const struct rp_field fields[] = {
		{ .name = "s", .type = RP_TYPE_STRING },
		{ .name = "t", .type = RP_TYPE_STRING16 },
		{ .name = "n", .type = RP_TYPE_U32 },
	};

	expect_json(fields, 3, "abc", 3, "{\"s\":\"abc\",\"t\":\"\",\"n\":0}");
	expect_json(fields, 3, "abc\0x\0y", 7, "{\"s\":\"abc\",\"t\":\"x\",\"n\":0}");
	expect_json(fields, 3, "\0x\0\0\0\7", 6, "{\"s\":\"\",\"t\":\"x\",\"n\":7}");
}

static const struct rp_field inner_fields[] = {
	{ .name = "x", .type = RP_TYPE_I16 },
	{ .name = "b", .type = RP_TYPE_BOOL },
};
static const struct rp_field middle_fields[] = {
	{ .name = "in", .type = RP_TYPE_STRUCT, .members = inner_fields, .member_count = 2 },
	{ .name = "y", .type = RP_TYPE_U8 },
};
static const struct rp_field nested_fields[] = {
	{ .name = "first", .type = RP_TYPE_U8 },
	{ .name = "s", .type = RP_TYPE_STRUCT, .members = middle_fields, .member_count = 2 },
	{ .name = "ints", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U16 },
	{ .name = "bools", .type = RP_TYPE_ARRAY, .element = RP_TYPE_BOOL },
	{ .name = "all", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT, .members = middle_fields,
	  .member_count = 2 },
	{ .name = "text", .type = RP_TYPE_STRING },
	{ .name = "blob", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U8 },
	{ .name = "last", .type = RP_TYPE_CHAR },
};
static const uint8_t nested_payload[] = {
	9, 0xff, 0xff, 1, 5, 2, 0, 1, 0, 2, 0, 3, 0, 1, 0, 1, 2, 0, 1, 0, 1, 6, 2, 0, 0, 7, 'h',
	'i', 0, 2, 0, 0xab, 0xcd, 'z',
};

Test(convert, converts_structs_arrays_and_arrays_of_structs)
{
	expect_json(nested_fields, COUNT(nested_fields), nested_payload, sizeof(nested_payload),
		    "{\"first\":9,\"s\":{\"in\":{\"x\":-1,\"b\":true},\"y\":5},\"ints\":[1,2],"
		    "\"bools\":[true,false,true],\"all\":[{\"in\":{\"x\":1,\"b\":true},\"y\":6},"
		    "{\"in\":{\"x\":2,\"b\":false},\"y\":7}],\"text\":\"hi\",\"blob\":\"abcd\","
		    "\"last\":\"z\"}");
}

Test(convert, makes_a_whole_payload_of_any_beginning)
{
	for (size_t size = 0; size <= sizeof(nested_payload); size++) {
		char *json = trace_round(nested_fields, COUNT(nested_fields), nested_payload, size,
					 NULL);

		cr_expect_null(strstr(json, "truncated"), "%zu bytes: %s", size, json);
		cr_expect_not_null(strstr(json, "\"last\":"), "%zu bytes: %s", size, json);
		free(json);
	}
}

Test(convert, believes_no_count)
{
	static const struct rp_field fields[] = {
		{ .name = "a", .type = RP_TYPE_ARRAY, .element = RP_TYPE_I32 },
		{ .name = "n", .type = RP_TYPE_U8 },
	};
	static const uint8_t payload[] = { 0xff, 0xff, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0 };

	expect_json(fields, 2, payload, sizeof(payload), "{\"a\":[1,2],\"n\":0}");
	expect_json(fields, 2, payload, 2, "{\"a\":[],\"n\":0}");
	expect_json(fields, 2, payload, 1, "{\"a\":[],\"n\":0}");
}

Test(convert, copies_a_payload_without_fields_as_it_is)
{
	struct rp_encoder *encoder = trace_begin();
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_encoder_event_type *type;
	struct rp_reader *reader;
	uint8_t *bytes;
	size_t size;

	type = trace_define(encoder, "Raw", 1, NULL, 0);
	trace_event(encoder, type, TRACE_START_NS, 1, "\1\2\3", 3);
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_assert_eq(event.payload_bytes, 3);
	cr_expect_arr_eq(event.payload, "\1\2\3", 3);
	rp_reader_close(reader);
	free(bytes);
}

Test(convert, drops_bytes_that_no_field_describes)
{
	static const struct rp_field field = { .name = "n", .type = RP_TYPE_U16 };
	size_t wire;
	char *json = trace_round(&field, 1, "\1\0\2\2\2", 5, &wire);

	cr_expect_str_eq(json, "{\"n\":1}");
	cr_expect_eq(wire, 2);
	free(json);
}

Test(convert, cuts_a_long_string_at_a_character)
{
	static const struct rp_field fields[] = {
		{ .name = "s", .type = RP_TYPE_STRING },
		{ .name = "n", .type = RP_TYPE_U32 },
	};
	size_t size = RP_PAYLOAD_MAX, wire, shift;
	char *payload = malloc(size), *json;

	/* Surrogate pairs on either side of the cut. */
	for (shift = 0; shift < 2; shift++) {
		memset(payload, 'a', size);
		for (size_t at = shift; at + 4 <= size - 5; at += 4)
			memcpy(payload + at, "\xf0\x9f\x98\x80", 4);
		payload[size - 5] = 0;
		memcpy(payload + size - 4, "\7\0\0\0", 4);
		json = trace_round(fields, 2, payload, size, &wire);
		cr_expect_leq(wire, WIRE_MAX);
		cr_expect_null(strstr(json, "\xef\xbf\xbd"));
		cr_expect_not_null(strstr(json, "\",\"n\":7}"));
		free(json);
	}
	memset(payload, 'a', size - 5);
	json = trace_round(fields, 2, payload, size, &wire);
	cr_expect_eq(wire, WIRE_MAX);
	cr_expect_eq(strlen(json), strlen("{\"s\":\"\",\"n\":7}") + (WIRE_MAX - 4) / 2 - 1);
	free(json);
	free(payload);
}

Test(convert, cuts_no_surrogate_pair_of_a_long_string16)
{
	static const struct rp_field field = { .name = "s", .type = RP_TYPE_STRING16 };
	size_t size = RP_PAYLOAD_MAX, wire;
	char *payload = malloc(size), *json;

	for (size_t shift = 0; shift < 4; shift += 2) {
		memset(payload, 'a', shift);
		for (size_t at = shift; at + 4 <= size; at += 4)
			memcpy(payload + at, "\x3d\xd8\x00\xde", 4);
		json = trace_round(&field, 1, payload, size, &wire);
		cr_expect_null(strstr(json, "\xef\xbf\xbd"));
		cr_expect_geq(wire, WIRE_MAX - 3);
		free(json);
	}
	free(payload);
}

Test(convert, cuts_a_long_array_at_an_element)
{
	static const struct rp_field fields[] = {
		{ .name = "a", .type = RP_TYPE_ARRAY, .element = RP_TYPE_BOOL },
		{ .name = "n", .type = RP_TYPE_U8 },
	};
	size_t size = 60003, wire;
	uint8_t *payload = calloc(1, size);
	char *json;

	payload[0] = 60000 & 0xff;
	payload[1] = 60000 >> 8;
	payload[size - 1] = 5;
	json = trace_round(fields, 2, payload, size, &wire);
	cr_expect_eq(wire, 2 + 4 * ((WIRE_MAX - 3) / 4) + 1);
	cr_expect_not_null(strstr(json, "false],\"n\":5}"));
	free(json);
	free(payload);
}

Test(convert, structs_may_hold_strings_and_have_no_name)
{
	static const struct rp_field members[] = {
		{ .name = "text", .type = RP_TYPE_STRING },
		{ .name = "n", .type = RP_TYPE_U8 },
		{ .name = "more", .type = RP_TYPE_STRING },
	};
	static const struct rp_field inner = { .name = "inner", .type = RP_TYPE_STRUCT,
					       .members = members, .member_count = 3 };
	static const struct rp_field fields[] = {
		{ .name = "", .type = RP_TYPE_STRUCT, .members = &inner, .member_count = 1 },
		{ .name = "last", .type = RP_TYPE_U8 },
	};
	static const uint8_t payload[] = "ab\0\x05" "c\0\x07";
	size_t wire;
	char *json = trace_round(fields, 2, payload, sizeof(payload) - 1, &wire);

	cr_expect_eq(wire, 6 + 1 + 4 + 1);
	cr_expect_not_null(strstr(json, "{\"\":{\"inner\":{\"text\":\"ab\",\"n\":5,"
				  "\"more\":\"c\"}},\"last\":7}"), "%s", json);
	free(json);
}

static int try_define(const struct rp_field *fields, size_t field_count)
{
	const struct rp_definition definition = {
		.provider = "P", .name = "E", .id = 1, .fields = fields, .field_count = field_count,
	};
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = NULL;
	int ret = rp_encoder_define(encoder, &definition, &type);

	cr_expect_eq(ret < 0, type == NULL);
	rp_encoder_destroy(encoder);
	return ret;
}

Test(convert, refuses_fields_it_cannot_lay_out)
{
	static const struct rp_field text = { .name = "s", .type = RP_TYPE_STRING };
	struct rp_field deep[40];
	const struct rp_field rows[] = {
		{ .name = "f", .type = RP_TYPE_NONE },
		{ .name = "f", .type = 77 },
		{ .name = "f", .type = RP_TYPE_ARRAY, .element = RP_TYPE_ARRAY },
		{ .name = "f", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRING },
		{ .name = "f", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT },
		{ .name = "f", .type = RP_TYPE_ARRAY, .element = RP_TYPE_STRUCT, .members = &text,
		  .member_count = 1 },
		{ .name = "f", .type = RP_TYPE_STRUCT, .member_count = 1 },
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		cr_expect_eq(try_define(&rows[i], 1), -EINVAL, "row %zu", i);
	for (size_t i = 0; i < COUNT(deep); i++)
		deep[i] = (struct rp_field) { .name = "d", .type = RP_TYPE_STRUCT,
					      .members = &deep[i + 1], .member_count = 1 };
	deep[COUNT(deep) - 1] = (struct rp_field) { .name = "d", .type = RP_TYPE_U8 };
	cr_expect_eq(try_define(deep, 1), -EINVAL);
}

Test(convert, refuses_fields_that_no_payload_can_hold)
{
	struct rp_field wide[200], all[40];

	for (size_t i = 0; i < COUNT(all); i++)
		all[i] = (struct rp_field) { .name = "w", .type = RP_TYPE_STRUCT, .members = wide,
					     .member_count = COUNT(wide) };
	for (size_t i = 0; i < COUNT(wide); i++)
		wide[i] = (struct rp_field) { .name = "w", .type = RP_TYPE_U64 };
	cr_expect_eq(try_define(all, COUNT(all)), 0);
	for (size_t i = 0; i < COUNT(wide); i++)
		wide[i] = (struct rp_field) { .name = "w", .type = RP_TYPE_GUID };
	cr_expect_eq(try_define(all, COUNT(all)), -EMSGSIZE);
}
