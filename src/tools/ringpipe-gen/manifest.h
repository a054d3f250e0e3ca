/* SPDX-License-Identifier: MIT */
/*
 * An ETW instrumentation manifest: the events that its providers can write, with all references
 * between its parts resolved.
 *
 * All lists are in the order of the file.
 */
#ifndef RP_TOOL_MANIFEST_H
#define RP_TOOL_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/ringpipe-gen/xml_tree.h"

/* The inType of a field. */
enum rp_manifest_type {
	RP_MANIFEST_UNICODE_STRING,
	RP_MANIFEST_ANSI_STRING,
	RP_MANIFEST_INT8,
	RP_MANIFEST_UINT8,
	RP_MANIFEST_INT16,
	RP_MANIFEST_UINT16,
	RP_MANIFEST_INT32,
	RP_MANIFEST_UINT32,
	RP_MANIFEST_INT64,
	RP_MANIFEST_UINT64,
	RP_MANIFEST_FLOAT,
	RP_MANIFEST_DOUBLE,
	RP_MANIFEST_BOOLEAN,
	RP_MANIFEST_BINARY,
	RP_MANIFEST_GUID,
	RP_MANIFEST_POINTER,
	RP_MANIFEST_FILETIME,
	RP_MANIFEST_SYSTEMTIME,
	RP_MANIFEST_SID,
	RP_MANIFEST_COUNTED_UNICODE_STRING,
	RP_MANIFEST_COUNTED_ANSI_STRING,
	RP_MANIFEST_COUNTED_BINARY,
	RP_MANIFEST_STRUCT,
};

/* A keyword, level, task or opcode, or a value of a map. */
struct rp_manifest_name {
	struct rp_manifest_name *next;
	const char *name;		/* in the manifest; of a map's value: its message */
	const char *symbol;		/* an identifier in C */
	uint64_t value;
	const struct rp_manifest_name *task;	/* of an opcode that belongs to a task, or NULL */
};

struct rp_manifest_map {
	struct rp_manifest_map *next;
	const char *name, *symbol;
	bool is_bitmap;
	struct rp_manifest_name *values;
};

/* How many elements, or how many bytes or characters, a field has. */
enum rp_manifest_extent {
	RP_MANIFEST_ONE,
	RP_MANIFEST_FIXED,		/* `extent_value` */
	RP_MANIFEST_BY_FIELD,		/* the value of `extent_field`, which precedes the field */
};

struct rp_manifest_field {
	struct rp_manifest_field *next;
	const char *name, *symbol;
	enum rp_manifest_type type;
	const struct rp_manifest_map *map;	/* or NULL */
	enum rp_manifest_extent count;	/* of elements: the attribute `count` */
	enum rp_manifest_extent length;	/* of a string or binary: the attribute `length` */
	uint64_t extent_value;
	const struct rp_manifest_field *extent_field;
	struct rp_manifest_field *members;	/* of a struct */
};

struct rp_manifest_template {
	struct rp_manifest_template *next;
	const char *name, *symbol;
	struct rp_manifest_field *fields;
	uint32_t field_count;
};

struct rp_manifest_event {
	struct rp_manifest_event *next;
	const char *symbol;
	const char *message;		/* or NULL */
	const struct rp_manifest_template *template;	/* or NULL */
	const struct rp_manifest_name *task, *opcode, *level;	/* or NULL */
	uint64_t keywords;
	uint16_t id;
	uint8_t version;
	const struct rp_xml_element *element;
};

struct rp_manifest_provider {
	struct rp_manifest_provider *next;
	const char *name, *guid;
	const char *symbol;		/* a prefix for functions */
	const char *prefix;		/* the same in upper case, for constants */
	struct rp_manifest_name *keywords, *levels, *tasks, *opcodes;
	struct rp_manifest_map *maps;
	struct rp_manifest_template *templates;
	struct rp_manifest_event *events;
	bool has_channels;
};

struct rp_manifest_string {
	const char *id, *value;
	const struct rp_xml_element *element;
};

struct rp_manifest {
	struct rp_xml_tree tree;
	struct rp_manifest_provider *providers;
	struct rp_manifest_string *strings;	/* sorted by id */
	size_t string_count;
};

/*
 * Read and check a manifest. Its texts are those of `culture`, or if it is NULL, those in English
 * or else the first ones. Return: 0; -errno, after an error line with the place in the file and the
 * rule that it breaks. rp_manifest_free() is necessary in both cases.
 */
int rp_manifest_read(struct rp_manifest *manifest, const char *path, const char *culture);
void rp_manifest_free(struct rp_manifest *manifest);

/* Return: the bytes of a value of a type with a fixed size; 0 for other types. */
size_t rp_manifest_type_bytes(enum rp_manifest_type type);

#endif
