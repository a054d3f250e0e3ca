/* SPDX-License-Identifier: MIT */
/* Expressions and events that are longer, deeper or shorter than usual. */
#include <errno.h>

#include "nettrace_trace.h"

#include "tools/trace/event_expression.h"

static int compile(const char *text, struct rp_expression_error *error)
{
	struct rp_expression *expression = NULL;
	int ret = rp_expression_compile(text, &expression, error);

	rp_expression_destroy(expression);
	return ret;
}

/* Return: `count` copies of `part`, then `middle`, then as many of `after`; for free(). */
static char *nest(const char *part, size_t count, const char *middle, const char *after)
{
	char *text = calloc(1, count * (strlen(part) + strlen(after)) + strlen(middle) + 1);

	for (size_t i = 0; i < count; i++)
		strcat(text, part);
	strcat(text, middle);
	for (size_t i = 0; i < count; i++)
		strcat(text, after);
	return text;
}

Test(event_expression_hostile, parentheses_nest_to_the_limit)
{
	const size_t most = RP_EXPRESSION_DEPTH_MAX;

	for (size_t depth = most; depth <= most + 1; depth++) {
		struct rp_expression_error error = { .at = 0 };
		char *text = nest("not (", depth, "a == 1", ")");

		cr_expect_eq(compile(text, &error), depth > most ? -EINVAL : 0);
		cr_expect_eq(error.at, depth > most ? 5 * most + 4 : 0);
		free(text);
	}
}

Test(event_expression_hostile, the_number_of_comparisons_and_bytes_is_bounded)
{
	struct rp_expression_error error;
	char *text = nest("a==1 or ", RP_EXPRESSION_COMPARISONS_MAX - 1, "a==1", "");

	cr_expect_eq(compile(text, &error), 0);
	free(text);
	text = nest("a==1 or ", RP_EXPRESSION_COMPARISONS_MAX, "a==1", "");
	cr_expect_eq(compile(text, &error), -EINVAL);
	cr_expect_eq(error.at, 8 * RP_EXPRESSION_COMPARISONS_MAX);
	free(text);
	text = nest("not ", (RP_EXPRESSION_BYTES_MAX - 4) / 4, "a==1", "");
	cr_expect_eq(strlen(text), RP_EXPRESSION_BYTES_MAX);
	cr_expect_eq(compile(text, &error), 0);
	free(text);
	text = nest(" ", RP_EXPRESSION_BYTES_MAX - 3, "a==1", "");
	cr_expect_eq(compile(text, &error), -EINVAL);
	cr_expect_eq(error.at, RP_EXPRESSION_BYTES_MAX);
	free(text);
}

Test(event_expression_hostile, patterns_that_need_much_memory_are_refused)
{
	static const char *const patterns[] = {
		"a ~ '((((x{99}){99}){99}){99})'", "a ~ 'x{1,32767}'", "a ~ 'x{'", "a ~ '(x*)\\1'",
		"a ~ 'x{-1}'", "a ~ 'a++++++++++++++++++++'",
		"a ~ '(((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+'",
		"a ~ 'x?*'", "a ~ 'x{0,9}+'",
		"a ~ '[]+({]x{99}{99}{99}'", "a ~ 'x{99999999999999999999}'",
	};
	struct rp_expression_error error;
	char *pattern = nest("(", 200, "x", ")"), text[1000];

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		cr_expect_eq(compile(patterns[i], &error), -EINVAL, "%s", patterns[i]);
	sprintf(text, "a ~ '%s'", pattern);
	cr_expect_eq(compile(text, &error), 0);
	cr_expect_eq(compile("a ~ '^(GET|POST) /[a-z]+/[0-9]{1,9}(\\?([^&=]+=[^&]*&?)+)?$'",
			     &error), 0);
	cr_expect_eq(compile("a ~ '[{]{2}[+(]+[[:alpha:]{]+'", &error), 0);
	free(pattern);
	pattern = nest("(", 300, "x", ")");
	sprintf(text, "a ~ '%s'", pattern);
	cr_expect_eq(compile(text, &error), -EINVAL);
	free(pattern);
}

/* Every end of the payload, in memory of its exact size. */
Test(event_expression_hostile, fields_after_the_end_of_a_payload_are_lacking)
{
	static const struct rp_field fields[] = {
		{ .name = "a", .type = RP_TYPE_U32 }, { .name = "s", .type = RP_TYPE_STRING },
		{ .name = "b", .type = RP_TYPE_U32 },
	};
	static const uint8_t payload[] = "\1\0\0\0" "xyz\0" "\2\0\0\0";
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "Cut", 1, fields, 3);
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_expression *expression[3];
	struct rp_expression_error error;
	struct rp_reader *reader;
	uint8_t *bytes, *copy;
	size_t size;

	trace_event(encoder, type, TRACE_START_NS, 7, payload, sizeof(payload) - 1);
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	cr_assert_eq(rp_expression_compile("a == 1", &expression[0], &error), 0);
	cr_assert_eq(rp_expression_compile("s ~ 'y'", &expression[1], &error), 0);
	cr_assert_eq(rp_expression_compile("b == 2 and has b", &expression[2], &error), 0);
	/* The text is UTF-16 in the trace. */
	for (size_t end = 0; end <= event.payload_bytes; end++) {
		struct rp_reader_event cut = event;

		copy = malloc(end ? end : 1);
		memcpy(copy, event.payload, end);
		cut.payload = copy;
		cut.payload_bytes = end;
		cr_expect_eq(rp_expression_matches(expression[0], &cut, 0), end >= 4, "%zu", end);
		cr_expect_eq(rp_expression_matches(expression[1], &cut, 0), end >= 12, "%zu", end);
		cr_expect_eq(rp_expression_matches(expression[2], &cut, 0), end >= 16, "%zu", end);
		free(copy);
	}
	for (size_t i = 0; i < 3; i++)
		rp_expression_destroy(expression[i]);
	rp_reader_close(reader);
	free(bytes);
}

/* Longer than the values in expressions, and than what a regular expression searches. */
Test(event_expression_hostile, long_texts_are_compared_whole_and_searched_in_part)
{
	enum { BYTES = 30000 };
	static const struct rp_field fields[] = { { .name = "s", .type = RP_TYPE_STRING } };
	struct rp_encoder *encoder = trace_begin();
	struct rp_encoder_event_type *type = trace_define(encoder, "Long", 1, fields, 1);
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	struct rp_expression *expression[4];
	struct rp_expression_error error;
	struct rp_reader *reader;
	uint8_t *bytes, *text = malloc(BYTES);
	char *value = nest("x", 4000, "", ""), source[4100];
	size_t size;

	memset(text, 'x', BYTES);
	memcpy(text + BYTES - 5, "yend", 5);
	trace_event(encoder, type, TRACE_START_NS, 7, text, BYTES);
	bytes = trace_end(encoder, &size);
	reader = trace_open(bytes, size);
	cr_assert_eq(rp_reader_next(reader, &event), 1);
	for (size_t i = 0; i < 3; i++) {
		sprintf(source, "s %s '%s'", i == 0 ? "==" : i == 1 ? ">" : "<", value);
		cr_assert_eq(rp_expression_compile(source, &expression[i], &error), 0);
		cr_expect_eq(rp_expression_matches(expression[i], &event, 0), i == 1);
		rp_expression_destroy(expression[i]);
	}
	cr_assert_eq(rp_expression_compile("s ~ 'xyend$'", &expression[3], &error), 0);
	cr_expect(rp_expression_matches(expression[3], &event, 0));
	rp_expression_destroy(expression[3]);
	rp_reader_close(reader);
	free(bytes);
	free(text);
	free(value);
}
