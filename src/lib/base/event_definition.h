/* SPDX-License-Identifier: MIT */
#ifndef RP_BASE_EVENT_DEFINITION_H
#define RP_BASE_EVENT_DEFINITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

#include "base/hash.h"

/* The definition of an event as plain data; its pointers are borrowed. */
struct rp_definition {
	const char *provider;		/* UTF-8 */
	const char *name;
	uint32_t id;
	uint8_t version;
	uint8_t level;
	uint8_t opcode;
	uint64_t keywords;
	const struct rp_field *fields;
	size_t field_count;
	bool is_wire;			/* payloads have the layout of a nettrace stream */
	bool is_internal;		/* the library's own event, which is not counted */
};

/* Return: the id of an event that is declared with RP_EVENT_ID_AUTO. */
static inline uint32_t rp_event_id_from_name(const char *name)
{
	const uint32_t first = 32768, count = RP_EVENT_ID_MAX - first + 1;
	const uint32_t id = first + (uint32_t)(rp_hash_text(RP_HASH_BEGIN, name) % count);

	/* The two highest ids belong to the provider's counters: EventCounters in two shapes. */
	return id > RP_EVENT_ID_MAX - 2 ? id - 2 : id;
}

#endif
