/* SPDX-License-Identifier: MIT */
#include "tool/functions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <ringpipe/reader.h>

#include "tool/json.h"

#define SYMBOL_ID 4u			/* ProcessSymbol of Universal.System */

struct payload {
	const uint8_t *at, *end;
};

/* An unsigned LEB128. */
static bool take_number(struct payload *payload, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; payload->at < payload->end && shift < 64; shift += 7) {
		uint8_t byte = *payload->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

/* A u16 of bytes and the text, as JSON; NULL when it is not whole, or without memory. */
static char *take_json(struct payload *payload)
{
	struct json_object *string;
	char *text = NULL, *json = NULL;
	uint16_t size;

	if (payload->end - payload->at < 2)
		return NULL;
	memcpy(&size, payload->at, sizeof(size));
	if (payload->end - payload->at - 2 >= size)
		text = strndup((const char *)payload->at + 2, size);
	if (!text)
		return NULL;
	string = rp_json_string(text);
	if (string)
		json = strdup(json_object_to_json_string_ext(string, JSON_C_TO_STRING_PLAIN));
	json_object_put(string);
	free(text);
	return json;
}

static int add(struct rp_functions *functions, struct rp_function function)
{
	if (functions->count == functions->room) {
		size_t room = functions->room ? 2 * functions->room : 256;
		struct rp_function *grown = realloc(functions->items, room * sizeof(*grown));

		if (!grown) {
			free(function.json);
			return -ENOMEM;
		}
		functions->items = grown;
		functions->room = room;
	}
	function.told = functions->count;
	functions->items[functions->count++] = function;
	return 0;
}

static int take_symbol(struct rp_functions *functions, const struct rp_reader_event *event)
{
	const uint8_t *bytes = event->payload;
	struct payload payload = { bytes, bytes + event->payload_bytes };
	struct rp_function function;
	uint64_t id, mapping;

	if (!take_number(&payload, &id) || !take_number(&payload, &mapping) ||
	    !take_number(&payload, &function.start) || !take_number(&payload, &function.last))
		return 0;
	function.json = take_json(&payload);
	return function.json ? add(functions, function) : 0;
}

static int compare(const void *a, const void *b)
{
	const struct rp_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->told > y->told ? -1 : 1;
}

int rp_functions_read(const char *path, struct rp_functions *ret_functions)
{
	struct rp_reader_event event = { .size = sizeof(event) };
	struct rp_reader *reader;
	int ret = 0;

	*ret_functions = (struct rp_functions){ 0 };
	if (rp_reader_open(path, &reader) != 0)
		return 0;
	while (ret == 0 && rp_reader_next(reader, &event) == 1) {
		if (event.type->id == SYMBOL_ID && event.type->field_count == 0 &&
		    strcmp(event.type->provider, "Universal.System") == 0)
			ret = take_symbol(ret_functions, &event);
	}
	rp_reader_close(reader);
	if (ret_functions->count)
		qsort(ret_functions->items, ret_functions->count, sizeof(*ret_functions->items),
		      compare);
	return ret;
}

void rp_functions_fini(struct rp_functions *functions)
{
	for (size_t i = 0; i < functions->count; i++)
		free(functions->items[i].json);
	free(functions->items);
}

const char *rp_functions_find(const struct rp_functions *functions, uint64_t address)
{
	size_t low = 0, high = functions->count;

	/* The first one that begins beyond the address; before it stands the one to look at. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (functions->items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address <= functions->items[low - 1].last ? functions->items[low - 1].json :
	       NULL;
}
