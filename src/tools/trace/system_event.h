/* SPDX-License-Identifier: MIT */
/*
 * Payloads of Universal.System, whose events declare no fields. An integer is a varint. A string is
 * a u16 with the number of its bytes, and then UTF-8.
 *
 *	0, 1  ExistingProcess, ProcessCreate	pid in its namespace, name, container
 *	3  ProcessMapping	id, start, end (exclusive), file offset, file, id of the metadata
 *	4  ProcessSymbol	id, id of the mapping, start, end (inclusive), name
 *	5  ProcessMappingMetadata	id, JSON, JSON
 */
#ifndef RP_TOOL_SYSTEM_EVENT_H
#define RP_TOOL_SYSTEM_EVENT_H

#include <stdlib.h>
#include <string.h>

#include <ringpipe/reader.h>

#include "base/cursor.h"

#define RP_SYSTEM_PROVIDER "Universal.System"
#define RP_SYSTEM_FUNCTION_NAME "ProcessSymbol"

enum rp_system_event {
	RP_SYSTEM_EXISTING_PROCESS, RP_SYSTEM_PROCESS_CREATE, RP_SYSTEM_PROCESS_EXIT,
	RP_SYSTEM_MAPPING, RP_SYSTEM_FUNCTION, RP_SYSTEM_METADATA,
};

static inline bool rp_system_is_event(const struct rp_reader_event *event)
{
	return strcmp(event->type->provider, RP_SYSTEM_PROVIDER) == 0;
}

/* Return: the number; 0: the payload is cut, and the cursor has failed. */
static inline uint64_t rp_system_take_number(struct rp_cursor *payload)
{
	uint64_t value;

	if (rp_cursor_varint(payload, &value) == 0)
		return value;
	rp_cursor_fail(payload);
	return 0;
}

/* Return: a copy for free(); NULL: the payload is cut, and the cursor has failed, or no memory. */
static inline char *rp_system_take_text(struct rp_cursor *payload)
{
	const uint8_t *text;
	uint16_t bytes;

	if (rp_cursor_u16(payload, &bytes) == 0 && rp_cursor_take(payload, bytes, &text) == 0)
		return strndup((const char *)text, bytes);
	rp_cursor_fail(payload);
	return NULL;
}

#endif
