/* SPDX-License-Identifier: MIT */
/* The events of a process, with their fields. */
#ifndef RP_TOOL_EVENTS_H
#define RP_TOOL_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/client/target.h"
#include "tools/cli/tool.h"

struct rp_event_field {
	char *name;
	uint8_t type;			/* enum rp_type */
	uint8_t element;		/* of an ARRAY */
	bool is_secret;
	struct rp_event_field *members;
	uint32_t member_count;
};

struct rp_event_row {
	char *provider;
	char *name;
	uint32_t id;
	uint32_t version;
	uint32_t level;
	uint64_t keywords;
	struct rp_event_field *fields;
	uint32_t field_count;
};

struct rp_event_rows {
	struct rp_event_row *rows;	/* sorted by provider, id and version, without repeats */
	size_t count;
};

/*
 * Ask a process for its events. Return: 0; -EOPNOTSUPP, without an error line: a .NET runtime or an
 * older libringpipe, which does not report them; other -errno, after an error line.
 */
int rp_event_rows_get(const struct rp_target *target, struct rp_event_rows *ret_rows);
void rp_event_rows_fini(struct rp_event_rows *rows);

/*
 * Print the events, with their fields on request; `all` includes those that only .NET's tools read.
 */
int rp_event_rows_print(const struct rp_event_rows *rows, bool with_fields, bool all,
			enum rp_format format);

#endif
