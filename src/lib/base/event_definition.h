/* SPDX-License-Identifier: MIT */
#ifndef RP_BASE_EVENT_DEFINITION_H
#define RP_BASE_EVENT_DEFINITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/types.h>

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

#endif
