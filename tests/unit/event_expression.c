/* SPDX-License-Identifier: MIT */
/* Expressions on events, as --where and --until take them. */
#include <errno.h>

#include "nettrace_trace.h"

#include "tools/trace/event_expression.h"

static const struct rp_field members[] = {
	{ .name = "x", .type = RP_TYPE_I32 }, { .name = "name", .type = RP_TYPE_STRING },
};

static const struct rp_field fields[] = {
	{ .name = "text", .type = RP_TYPE_STRING }, { .name = "small", .type = RP_TYPE_I8 },
	{ .name = "big", .type = RP_TYPE_U64 }, { .name = "real", .type = RP_TYPE_F64 },
	{ .name = "flag", .type = RP_TYPE_BOOL }, { .name = "id", .type = RP_TYPE_U16 },
	{ .name = "http.method", .type = RP_TYPE_STRING },
	{ .name = "odd name", .type = RP_TYPE_U8 }, { .name = "lowest", .type = RP_TYPE_I64 },
	{ .name = "nan", .type = RP_TYPE_F64 }, { .name = "guid", .type = RP_TYPE_GUID },
	{ .name = "single", .type = RP_TYPE_F32 }, { .name = "at", .type = RP_TYPE_POINTER },
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

static const uint8_t payload[] =
	"Zo\xc3\xab\0" "\xfb"				/* -5 */
	"\xff\xff\xff\xff\xff\xff\xff\xff"
	"\0\0\0\0\0\0\xf8\x3f" "\x01"			/* 1.5, true */
	"\x4d\0" "GET\0" "\x07"				/* 77 */
	"\0\0\0\0\0\0\0\x80" "\0\0\0\0\0\0\xf8\x7f"
	"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"
	"\0\0\0\x3f" "\x10\0\0\0\0\0\0\0";		/* 0.5, 16 */

/* Whether the event fulfils the expression; -1: it is wrong. */
static int fulfils(const char *text, const struct rp_reader_event *event)
{
	struct rp_expression *expression;
	struct rp_expression_error error;
	int ret = rp_expression_compile(text, &expression, &error);

	if (ret) {
		cr_expect_eq(ret, -EINVAL);
		return -1;
	}
	ret = rp_expression_matches(expression, event, event->process);
	/* The second time, the type is known. */
	cr_expect_eq(rp_expression_matches(expression, event, event->process), ret, "%s", text);
	rp_expression_destroy(expression);
	return ret;
}

struct open_trace {
	uint8_t *bytes;
	struct rp_reader *reader;
	struct rp_reader_event event;
};

/* A trace with one event of these fields. */
static struct open_trace open_trace(const struct rp_field *all, size_t count, const void *content,
				    size_t size)
{
	struct rp_encoder *encoder = trace_begin();
	const struct rp_encoder_event_type *type = trace_define(encoder, "Order", 9, all, count);
	struct open_trace trace = { .event = RP_READER_EVENT_INIT };
	static const struct rp_guid activity = { { 1, 2, 3 } };
	const struct rp_encoder_event event = {
		.type = type, .time_ns = TRACE_START_NS + 1500000, .thread = 7, .processor = 2,
		.activity = &activity, .payload = content, .payload_bytes = size,
	};

	cr_assert_eq(rp_encoder_event(encoder, &event), 0);
	trace.bytes = trace_end(encoder, &size);
	trace.reader = trace_open(trace.bytes, size);
	cr_assert_eq(rp_reader_next(trace.reader, &trace.event), 1);
	return trace;
}

static void close_trace(struct open_trace *trace)
{
	rp_reader_close(trace->reader);
	free(trace->bytes);
}

static const struct {
	const char *text;
	int fulfils;
} cases[] = {
	/* Names of the event */
	{ "provider == \"Test-Provider\"", 1 }, { "provider != \"Test-Provider\"", 0 },
	{ "provider ~ \"^Test-\"", 1 }, { "event == 'Order'", 1 }, { "event < \"P\"", 1 },
	{ "id == 9", 1 }, { "id == 77", 0 }, { "field.id == 77", 1 },
	{ "level == informational", 1 },
	{ "level < warning", 0 }, { "level >= 4", 1 }, { "opcode == 0", 1 }, { "version == 0", 1 },
	{ "keywords == 0x0", 1 }, { "thread == 7", 1 }, { "process == 4242", 1 },
	{ "processor == 2", 1 }, { "time == 1.5ms", 1 }, { "time == 1500us", 1 },
	{ "time > 1499999ns", 1 }, { "time > 0.0015s", 0 }, { "time < 1m and time < 1h", 1 },
	{ "thread_name == \"\"", 0 }, { "not has thread_name", 1 }, { "has provider", 1 },
	{ "activity == \"01020300-0000-0000-0000-000000000000\"", 1 },
	{ "activity ~ \"^0102\"", 1 }, { "has activity and not has related_activity", 1 },
	{ "related_activity != \"01020300-0000-0000-0000-000000000000\"", 0 },
	{ "has trace_id or has span_id", 0 },
	/* Fields: texts */
	{ "text == \"Zo\xc3\xab\"", 1 }, { "text == \"Zo\\xc3\\xab\"", 1 },
	{ "text == \"Zo\\u00eb\"", 1 }, { "text == \"Zoe\"", 0 }, { "text != \"Zoe\"", 1 },
	{ "text > \"Zoe\"", 1 }, { "text < \"Zp\"", 1 }, { "text >= \"Zo\"", 1 },
	{ "text == 5", 0 }, { "text != 5", 0 }, { "text ~ \"^Z.*$\"", 1 }, { "text ~ 'x|o'", 1 },
	{ "text ~ '^o'", 0 }, { "text ~ '^[^]{]o'", 1 }, { "text ~ '[]{]'", 0 },
	{ "http.method == \"GET\"", 1 },
	{ "field.http.method == \"GET\"", 1 }, { "field.\"http.method\" == \"GET\"", 1 },
	/* Fields: numbers */
	{ "small == -5", 1 }, { "small < -4", 1 }, { "small < -5", 0 }, { "small <= -5", 1 },
	{ "small >= -5", 1 }, { "small > -5", 0 }, { "small > -5.5", 1 }, { "small != -5", 0 },
	{ "small == -0x5", 1 }, { "small == \"-5\"", 0 }, { "small ~ \"5\"", 0 },
	{ "big > 9223372036854775807", 1 }, { "big < 0", 0 }, { "big == 18446744073709551615", 1 },
	{ "big == 18446744073709551614", 0 }, { "big == 0xffffffffffffffff", 1 },
	{ "big < 18446744073709551616.0", 1 }, { "big == 18446744073709551616.0", 0 },
	{ "big == -1", 0 }, { "lowest == -9223372036854775808", 1 },
	{ "lowest < -9223372036854775807", 1 }, { "lowest == -0x8000000000000000", 1 },
	{ "lowest <= -9.3e18", 0 }, { "real > 1.4", 1 }, { "real <= 1.5", 1 }, { "real > 1.5", 0 },
	{ "real == 15e-1", 1 }, { "real > 1", 1 }, { "real < 2", 1 }, { "single == 0.5", 1 },
	{ "nan == 0 or nan < 0 or nan > 0", 0 }, { "nan != 0", 1 }, { "at == 0x10", 1 },
	{ "field.\"odd name\" == 7", 1 }, { "small < 1s", 1 },
	/* Fields: others */
	{ "flag == true", 1 }, { "flag != false", 1 }, { "flag == false", 0 }, { "flag == 1", 0 },
	{ "guid == \"00112233-4455-6677-8899-AABBCCDDEEFF\"", 1 }, { "guid ~ '-aabb'", 1 },
	{ "has guid", 1 }, { "none == 0", 0 }, { "none != 0", 0 }, { "has none", 0 },
	{ "text.x == 1", 0 }, { "has text.x", 0 },
	/* Logic */
	{ "not none == 0", 1 }, { "not not small == -5", 1 },
	{ "not small == -5 or flag == true", 1 },
	{ "small == 1 and flag == true or flag == true", 1 },
	{ "flag == true or flag == true and small == 1", 1 },
	{ "(flag == true or flag == true) and small == 1", 0 },
	{ "not (small == 1 or small == 2)", 1 }, { "not (small == 1 or small == -5)", 0 },
	{ "not (flag == true and not (big > 5 and real < 1))", 0 },
	{ "provider == \"x\" or small == -5", 1 }, { "provider == \"x\" and small == -5", 0 },
	{ "\t( small==-5 )\n", 1 }, { "field.and == 1", 0 }, { "field.has == 1 or field == 1", 0 },
};

Test(event_expression, comparisons_hold_as_the_manual_says)
{
	struct open_trace trace = open_trace(fields, FIELD_COUNT, payload, sizeof(payload) - 1);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(fulfils(cases[i].text, &trace.event), cases[i].fulfils, "%s",
			     cases[i].text);
	close_trace(&trace);
}

/* Each integer around the powers of two is equal to itself alone. */
Test(event_expression, integers_are_compared_without_loss)
{
	static const struct rp_field both[] = {
		{ .name = "i", .type = RP_TYPE_I64 }, { .name = "u", .type = RP_TYPE_U64 },
	};
	char text[200];

	for (int bit = 52; bit < 64; bit++) {
		for (int add = -1; add <= 1; add++) {
			const uint64_t u = (1ull << bit) + (uint64_t)(int64_t)add;
			const int64_t i = -(int64_t)(u >> 1) - (int64_t)(u & 1);
			const uint64_t content[] = { (uint64_t)i, u };
			struct open_trace trace = open_trace(both, 2, content, sizeof(content));

			sprintf(text,
				"i == %lld and u == %llu and i < %lld and u > %llu and i > %lld",
				(long long)i, (unsigned long long)u, (long long)i + 1,
				(unsigned long long)u - 1, (long long)i - 1);
			/* The lowest integer has none below it. */
			if (i == INT64_MIN)
				*strrchr(text, 'a') = '\0';
			cr_expect_eq(fulfils(text, &trace.event), 1, "%s", text);
			sprintf(text, "u == %llu or u == %llu or i == %lld",
				(unsigned long long)u - 1, (unsigned long long)u + 1,
				(long long)i + 1);
			cr_expect_eq(fulfils(text, &trace.event), 0, "%s", text);
			close_trace(&trace);
		}
	}
}

Test(event_expression, members_of_structs_have_names_with_dots)
{
	static const struct rp_field outer[] = {
		{ .name = "first", .type = RP_TYPE_STRING },
		{ .name = "point", .type = RP_TYPE_STRUCT, .members = members, .member_count = 2 },
		{ .name = "list", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U32 },
		{ .name = "last", .type = RP_TYPE_U8 },
	};
	static const uint8_t content[] =
		"ab\0" "\xff\xff\xff\xff" "in\0" "\x01\0" "\5\0\0\0" "\x09";
	struct open_trace trace = open_trace(outer, 4, content, sizeof(content) - 1);

	cr_expect_eq(fulfils("point.x == -1 and point.name == \"in\"", &trace.event), 1);
	cr_expect_eq(fulfils("has point and has point.x and not has point.y", &trace.event), 1);
	cr_expect_eq(fulfils("point == 1 or point.x.y == 1 or list == 5", &trace.event), 0);
	cr_expect_eq(fulfils("has list and last == 9", &trace.event), 1);
	close_trace(&trace);
}

/* The types have the same names and different fields. */
Test(event_expression, types_are_distinguished_also_when_there_are_many)
{
	enum { TYPES = 600 };
	static const struct rp_field one[] = {
		{ .name = "a", .type = RP_TYPE_U16 }, { .name = "b", .type = RP_TYPE_U16 },
	};
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *types[TYPES];
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_expression *expression;
	struct rp_expression_error error;
	struct rp_reader *reader;
	unsigned int count = 0;
	uint8_t *bytes;
	size_t size;

	for (uint32_t i = 0; i < TYPES; i++)
		types[i] = trace_define(encoder, "Same", i + 1, i % 3 ? one : one + 1,
					i % 3 ? 2 : 1);
	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < TYPES; i++) {
			const uint16_t content[] = { (uint16_t)i, 7 };

			trace_event(encoder, types[i], TRACE_START_NS, 1, content, i % 3 ? 4 : 2);
		}
	}
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	cr_assert_eq(rp_expression_compile("a == 100 or b == 99 or id == 7", &expression,
					   &error), 0);
	while (rp_reader_next(reader, &event) == 1) {
		const uint32_t i = event.type->id - 1;

		cr_expect_eq(rp_expression_matches(expression, &event, 0),
			     i == 100 || i == 99 || i == 6, "%u", i);
		count++;
	}
	cr_expect_eq(count, 4 * TYPES);
	rp_expression_destroy(expression);
	rp_reader_close(reader);
	free(bytes);
}

static const struct {
	const char *text;
	size_t at;
} errors[] = {
	{ "", 0 }, { "  ", 2 }, { "a", 1 }, { "a ==", 4 }, { "a == ", 5 }, { "== 1", 0 },
	{ "a = 1", 2 }, { "a == 1 && b == 2", 7 }, { "a == 1 || b == 2", 7 }, { "!a == 1", 0 },
	{ "a =~ 'x'", 2 }, { "(a == 1", 7 }, { "a == 1)", 6 }, { "a == 1 b", 7 }, { "a == b", 5 },
	{ "a == 1 and", 10 }, { "a == 1 and or", 11 }, { "not", 3 }, { "has", 3 }, { "has 5", 4 },
	{ "()", 1 }, { "a == \"x", 5 }, { "a == 'x", 5 }, { "a == \"\\q\"", 6 },
	{ "a == \"\\x0\"", 6 }, { "a == \"\\x00\"", 6 }, { "a == \"\\ud800\"", 6 },
	{ "a == 0x", 7 }, { "a == 0xg", 7 }, { "a == 18446744073709551616", 5 },
	{ "a == -9223372036854775809", 5 }, { "a == 0x10000000000000000", 5 }, { "a == 1e999", 5 },
	{ "a == 1.5ns", 5 }, { "a == 5d", 6 }, { "a == 1e3s", 8 }, { "a == 3000000h", 5 },
	{ "time > 5", 7 }, { "time > 1.5", 7 }, { "id == \"x\"", 6 }, { "provider == 5", 12 },
	{ "level == fatal", 9 }, { "id == error", 6 }, { "a == error", 5 }, { "a < true", 4 },
	{ "id ~ \"5\"", 3 }, { "a ~ 5", 4 }, { "a ~ \"(\"", 4 }, { "a ~ \"x{300}{300}\"", 4 },
	{ "a ~ '(x)\\1'", 4 }, { "activity == \"x\"", 12 }, { "activity < \"x\"", 11 },
	{ "trace_id == \"12\"", 12 }, { "span_id == 5", 11 }, { "a. == 1", 0 },
	{ "field. == 1", 0 },
	{ "a == #", 5 }, { "a == -", 5 }, { "a:b:c", 1 }, { "\xc3\xab == == 1", 6 },
};

Test(event_expression, errors_have_a_position_and_a_sentence)
{
	struct rp_expression *expression;
	struct rp_expression_error error;

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		error.at = SIZE_MAX;
		*error.message = '\0';
		cr_expect_eq(rp_expression_compile(errors[i].text, &expression, &error), -EINVAL,
			     "%s", errors[i].text);
		cr_expect_eq(error.at, errors[i].at, "%s: %zu: %s", errors[i].text, error.at,
			     error.message);
		cr_expect_gt(strlen(error.message), 10, "%s", errors[i].text);
	}
}
