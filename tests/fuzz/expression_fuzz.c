/* SPDX-License-Identifier: MIT */
/*
 * Compiles any text as an expression, and evaluates it on events. The bytes after the first NUL are
 * the payload of the events. reader_fuzz.c shows how to run it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/reader.h>

#include "tools/trace/event_expression.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct rp_reader_field members[] = {
	{ .name = "x", .type = RP_TYPE_I32, .wire_bytes = 4 },
	{ .name = "s", .type = RP_TYPE_STRING16 },
};

static const struct rp_reader_field fields[] = {
	{ .name = "a", .type = RP_TYPE_U64, .wire_bytes = 8 },
	{ .name = "b", .type = RP_TYPE_BOOL, .wire_bytes = 4 },
	{ .name = "s", .type = RP_TYPE_STRING16 },
	{ .name = "v", .type = RP_TYPE_I64 },
	{ .name = "p", .type = RP_TYPE_STRUCT, .members = members, .member_count = 2 },
	{ .name = "t", .type = RP_TYPE_TIME, .wire_bytes = 8 },
	{ .name = "g", .type = RP_TYPE_GUID, .wire_bytes = 16 },
	{ .name = "f", .type = RP_TYPE_F64, .wire_bytes = 8 },
	{ .name = "u", .type = RP_TYPE_STRING, .encoding = RP_READER_COUNTED },
	{ .name = "l", .type = RP_TYPE_ARRAY, .element = RP_TYPE_U16, .wire_bytes = 2 },
	{ .name = "c", .type = RP_TYPE_CHAR, .wire_bytes = 2 },
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

/* All types have the same payload. */
static struct rp_reader_type types[] = {
	{ .provider = "p", .name = "e", .id = 1, .fields = fields, .field_count = FIELD_COUNT },
	{ .provider = "Shop", .name = "", .id = 2, .fields = fields + 2, .field_count = 3 },
	{ .provider = "", .name = "e", .message = "" },
};

static bool matches(struct rp_expression *expression, struct rp_reader_type *type,
		    const uint8_t *payload, size_t size)
{
	const struct rp_reader_event event = {
		.size = sizeof(event), .type = type, .time_ns = 5, .thread = 7, .process = 9,
		.processor = UINT32_MAX, .thread_name = "", .payload = payload,
		.payload_bytes = size, .level = 4, .span_id = 1,
	};

	return rp_expression_matches(expression, &event, event.process);
}

static void evaluate(const char *text, struct rp_expression *expression, const uint8_t *payload,
		     size_t size)
{
	struct rp_expression *negated;
	struct rp_expression_error error;
	char *text_negated = NULL;

	if (asprintf(&text_negated, "not (%s)", text) < 0)
		return;
	/* The longer text may exceed a limit. */
	if (rp_expression_compile(text_negated, &negated, &error) != 0)
		negated = NULL;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const bool result = matches(expression, &types[i], payload, size);

		if (negated && matches(negated, &types[i], payload, size) == result)
			__builtin_trap();
		rp_expression_forget(expression);
		if (matches(expression, &types[i], payload, size) != result)
			__builtin_trap();
	}
	rp_expression_destroy(negated);
	free(text_negated);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_expression_error error = { .at = SIZE_MAX };
	struct rp_expression *expression = NULL;
	char *text = strndup((const char *)bytes, size);
	const size_t length = text ? strlen(text) : 0, rest = size - length - (length < size);
	uint8_t *payload = malloc(rest ? rest : 1);
	int ret = text ? rp_expression_compile(text, &expression, &error) : -ENOMEM;

	if (payload && rest)
		memcpy(payload, bytes + size - rest, rest);
	if (ret == 0 && payload)
		evaluate(text, expression, payload, rest);
	else if (ret == -EINVAL && (expression || error.at > length ||
				    strlen(error.message) < 10))
		__builtin_trap();
	rp_expression_destroy(expression);
	free(payload);
	free(text);
	return 0;
}
