/* SPDX-License-Identifier: MIT */
/* The outer layer of version 4: objects, definitions in events, sequence points of thread ids. */
#include <string.h>

#include "parts.h"

static void read_definitions(struct strict *strict, struct strict_input block)
{
	struct strict_header header = { 0 };
	uint64_t first, last;

	strict_read_times(strict, &block, &first, &last);
	if (block.at == block.end)
		strict_fail(strict, block.at, "a block without a definition");
	while (!strict_failed(strict) && block.at < block.end) {
		const uint8_t *at = block.at;
		struct strict_input blob = strict_read_header(strict, &block, &header);
		struct strict_definition *definition = NULL;
		const char *problem = "a definition goes past its block";

		if (!block.failed)
			problem = strict_define(blob, &definition);
		if (!problem && (header.metadata_id != 0 || header.time > last)) {
			problem = "a definition that is an event, or after its block";
			strict_definition_free(definition);
		}
		strict_add_definition(strict, definition, problem, at);
	}
}

static void read_point(struct strict *strict, struct strict_input block)
{
	uint64_t time = strict_number(&block, 8), count = strict_number(&block, 4);
	uint64_t named = 0;

	for (uint64_t i = 0; i < count && !block.failed && !strict_failed(strict); i++) {
		const uint8_t *at = block.at;
		uint64_t id = strict_number(&block, 8);
		uint32_t number = (uint32_t)strict_number(&block, 4);

		if (!block.failed)
			named += strict_read_number(strict, strict_thread_of(strict, id, at),
						    number, at);
	}
	strict_end_point(strict, &block, time, named);
}

static void read_trace_object(struct strict *strict, struct strict_input *c)
{
	strict_read_clock(strict, c);
	(void)strict_number(c, 4);	/* process */
	strict->processors = (uint32_t)strict_number(c, 4);
	(void)strict_number(c, 4);	/* sampling interval */
	if (strict->processors == 0)
		strict_fail(strict, c->at, "Trace: no processors");
}

/* Read the start of an object. Return: the index of its name in `names`; -1 for a fault. */
static int read_name(struct strict *strict, struct strict_input *c)
{
	static const char *const names[] = {
		"Trace", "EventBlock", "MetadataBlock", "StackBlock", "SPBlock",
	};
	const uint8_t *at = c->at, *tags = strict_take(c, 3), *name, *end;
	uint64_t version = strict_number(c, 4), least = strict_number(c, 4);
	uint64_t length = strict_number(c, 4);

	name = strict_take(c, length);
	end = strict_take(c, 1);
	if (c->failed)
		return -1;
	for (int i = 0; i < 5; i++) {
		if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0 &&
		    memcmp(tags, "\5\5\1", 3) == 0 && *end == 6 && version == least &&
		    version == (i ? 2 : 4))
			return i;
	}
	strict_fail(strict, at, "no object of V4: %.*s, version %llu",
		    length < 32 ? (int)length : 32, (const char *)name,
		    (unsigned long long)version);
	return -1;
}

static void read_block(struct strict *strict, int kind, struct strict_input *c)
{
	uint64_t size = strict_number(c, 4);
	size_t padding = -(size_t)(c->at - c->start) & 3;
	const uint8_t *zeros = strict_take(c, padding), *end;
	struct strict_input block = strict_part(c, size);

	end = strict_take(c, 1);
	if (c->failed)
		return;
	if (memcmp(zeros, "\0\0\0", padding) != 0 || *end != 6)
		strict_fail(strict, c->at, "a block whose padding or end is wrong");
	else if (kind == 1)
		strict_read_events(strict, block);
	else if (kind == 2)
		read_definitions(strict, block);
	else if (kind == 3)
		strict_read_stacks(strict, block);
	else
		read_point(strict, block);
}

static void read_file_header(struct strict *strict, struct strict_input *c)
{
	const uint8_t *magic = strict_take(c, 32), *end;

	if (!c->failed && memcmp(magic, "Nettrace\24\0\0\0!FastSerialization.1", 32) != 0)
		strict_fail(strict, c->start, "no head of a trace");
	if (!strict_failed(strict) && !c->failed && read_name(strict, c) != 0 && !c->failed)
		strict_fail(strict, c->at, "Trace does not come first");
	if (strict_failed(strict) || c->failed)
		return;
	read_trace_object(strict, c);
	end = strict_take(c, 1);
	if (!c->failed && *end != 6)
		strict_fail(strict, c->at, "Trace has no end");
}

void strict_read_version4(struct strict *strict, struct strict_input *c)
{
	read_file_header(strict, c);
	while (!strict_failed(strict) && !c->failed && c->at < c->end) {
		int kind;

		if (*c->at == 1) {
			strict->result->complete = true;
			if (++c->at != c->end)
				strict_fail(strict, c->at, "bytes after the end");
			break;
		}
		kind = read_name(strict, c);
		if (kind == 0)
			strict_fail(strict, c->at, "a second Trace");
		else if (kind > 0)
			read_block(strict, kind, c);
	}
}
