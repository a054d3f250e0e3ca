/* SPDX-License-Identifier: MIT */
/*
 * The attributes that processes of a trace published for OpenTelemetry, and the name of the host,
 * from the events of the recorder.
 */
#ifndef RP_TOOL_ATTRIBUTE_TABLE_H
#define RP_TOOL_ATTRIBUTE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringpipe/reader.h>

#include "tools/trace/text_pool.h"

/* Further attributes and texts are left out, and longer texts are cut. */
#define RP_ATTRIBUTES_MAX 65536u
#define RP_ATTRIBUTES_OF_PROCESS_MAX 1024u
#define RP_ATTRIBUTE_BYTES_MAX (64u << 20)
#define RP_ATTRIBUTE_TEXT_BYTES 4096u

/* The type that a value had in its process. The trace has it as a text. */
enum rp_attribute_type {
	RP_ATTRIBUTE_TEXT,		/* also if the trace does not state the type */
	RP_ATTRIBUTE_BOOL,		/* "true" or "false" */
	RP_ATTRIBUTE_INTEGER,		/* of 64 bits with a sign */
	RP_ATTRIBUTE_DOUBLE,
	RP_ATTRIBUTE_TYPE_COUNT,
};

struct rp_attribute {
	const char *key, *value;	/* UTF-8; the value fits the type */
	enum rp_attribute_type type;
};

struct rp_attribute_process {
	uint64_t process;
	uint64_t published_ns;		/* a later publication replaces the attributes */
	struct rp_attribute *rows;
	size_t count, capacity;
};

/* Initialise it with zeros. */
struct rp_attribute_table {
	struct rp_attribute_process *processes;	/* by process */
	size_t count, capacity;
	const char *host;		/* NULL: unknown, or the trace has several */
	bool has_hosts;			/* several */
	/* For attribute_table.c only. */
	struct rp_text_pool texts;
	size_t row_count, bytes;
};

/*
 * Take the next event of the trace.
 * Return: 0; 1: the event changes the attributes of its process or the host; -ENOMEM.
 */
int rp_attribute_table_take(struct rp_attribute_table *table, const struct rp_reader_event *event);

/* Take all events of the file. Damage ends the reading early. Return: 0; -ENOMEM. */
int rp_attribute_table_read(struct rp_attribute_table *table, const char *path);

/* Return: the name of a type in the events of the recorder. */
const char *rp_attribute_type_name(enum rp_attribute_type type);

/* Return: the attributes of the process, in any order and each key once; NULL: it has none. */
const struct rp_attribute_process *
rp_attribute_table_find(const struct rp_attribute_table *table, uint64_t process);

/* Return: the value of the process's attribute; NULL: it has none. */
const char *rp_attribute_table_value(const struct rp_attribute_table *table, uint64_t process,
				     const char *key);

void rp_attribute_table_fini(struct rp_attribute_table *table);

#endif
