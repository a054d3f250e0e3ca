/* SPDX-License-Identifier: MIT */
/*
 * Decodes any bytes as JSON events. The fields of a decoded event must be complete, print as JSON
 * that json-c accepts, and be equal for an equal text. A text that json-c refuses must stay a text.
 * reader_fuzz.c shows how to run it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/reader.h>

#include "input.h"
#include "tools/cli/json.h"
#include "tools/trace/json_event.h"
#include "tools/trace/json_text.h"

static const struct rp_reader_field fields[] = {
	{ .name = "source", .type = RP_TYPE_STRING },
	{ .name = "json", .type = RP_TYPE_STRING },
};

static struct rp_reader_type type = {
	.provider = "Fuzzed", .name = "json_error", .id = 1, .fields = fields, .field_count = 2,
};

/* Return: the fields as JSON text, for free(). */
static char *print_fields(const struct rp_reader_event *event)
{
	struct json_tokener *tokener = json_tokener_new_ex(2 * RP_JSON_DEPTH_MAX);
	struct json_object *object;
	struct rp_value value = RP_VALUE_INIT;
	struct rp_fields walk;
	int ret;
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	rp_reader_get_fields(event, &walk);
	fuzz_walk(walk);
	if (!stream || !tokener || rp_reader_print_json(event, stream) != 0)
		__builtin_trap();
	fclose(stream);
	while ((ret = rp_fields_next(&walk, &value)) == 1)
		;
	if (ret < 0)	/* the fields are cut */
		__builtin_trap();
	object = json_tokener_parse_ex(tokener, text, (int)size + 1);
	if (!object)
		__builtin_trap();
	json_object_put(object);
	json_tokener_free(tokener);
	return text;
}

/* json-c accepts more than JSON, so it accepts every text that is decoded. */
static void check_text(const char *text, size_t bytes)
{
	struct json_tokener *tokener = json_tokener_new_ex(RP_JSON_DEPTH_MAX);
	struct json_object *value, *own;
	char reason[64] = "";
	int ret = rp_json_text_parse(text, bytes, &own, reason, sizeof(reason));

	if (!tokener || (ret != 0) != (*reason != '\0'))
		__builtin_trap();
	value = json_tokener_parse_ex(tokener, text, (int)bytes + 1);
	if (ret == 0 && json_tokener_get_error(tokener) != json_tokener_success)
		__builtin_trap();
	json_object_put(value);
	json_object_put(own);
	json_tokener_free(tokener);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rp_json_decoder decoder = { 0 }, other = { 0 };
	char *payload = malloc(size + 3), *first, *second;
	struct rp_reader_event event = RP_READER_EVENT_INIT;
	const struct rp_reader_event *decoded;

	if (!payload)
		return 0;
	memcpy(payload, "s", 2);
	memcpy(payload + 2, bytes, size);
	payload[size + 2] = '\0';
	event.type = &type;
	event.payload = payload;
	event.payload_bytes = size + 3;
	check_text(payload + 2, strlen(payload + 2));
	decoded = rp_json_decode(&decoder, &event);
	if (!decoded || decoded == &event || rp_json_event_is(decoded->type))
		__builtin_trap();
	first = print_fields(decoded);
	if (rp_json_decode(&decoder, &event)->type != decoded->type)
		__builtin_trap();
	second = print_fields(rp_json_decode(&other, &event));
	if (strcmp(first, second) != 0)
		__builtin_trap();
	free(first);
	free(second);
	rp_json_decoder_fini(&decoder);
	rp_json_decoder_fini(&other);
	free(payload);
	return 0;
}
