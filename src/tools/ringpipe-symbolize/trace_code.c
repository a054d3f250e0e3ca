/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-symbolize/trace_code.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json.h>

#include "base/array.h"
#include "base/cursor.h"
#include "tools/trace/stack_frame.h"
#include "tools/trace/system_event.h"

/* Addresses are merged when this many were added since the last merge. */
#define MERGE_ADDRESSES 65536u

struct rp_code_metadata {
	uint64_t process, id;
	uint8_t build_id[RP_BUILD_ID_MAX];
	uint32_t build_id_bytes;
	uint64_t vaddr, file_offset;	/* of the segment */
};

struct rp_code_function {
	uint64_t process, start, last;
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_addresses(const void *left, const void *right)
{
	const struct rp_code_address *a = left, *b = right;
	int order = compare_numbers(a->process, b->process);

	order = order ? order : compare_numbers(a->address, b->address);
	return order ? order : a->is_return - b->is_return;
}

static bool is_same(const struct rp_code_address *a, const struct rp_code_address *b)
{
	return a->process == b->process && a->address == b->address;
}

/* Mappings and functions begin with the process and the start, metadata with process and id. */
static int compare_starts(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;
	int order = compare_numbers(a[0], b[0]);

	return order ? order : compare_numbers(a[1], b[1]);
}

/* Sort by process and start, and mappings with one start by their age. */
static int compare_mappings(const void *left, const void *right)
{
	const struct rp_code_mapping *a = left, *b = right;
	int order = compare_starts(a, b);

	return order ? order : compare_numbers(a->id, b->id);
}

static void merge_addresses(struct rp_trace_code *code)
{
	size_t kept = 0;

	if (code->address_count)
		qsort(code->addresses, code->address_count, sizeof(*code->addresses),
		      compare_addresses);
	for (size_t i = 0; i < code->address_count; i++)
		if (!kept || !is_same(&code->addresses[kept - 1], &code->addresses[i]))
			code->addresses[kept++] = code->addresses[i];
	code->address_count = code->address_merged = kept;
}

static int take_stack(struct rp_trace_code *code, const struct rp_reader_event *event)
{
	struct rp_code_address *grown;
	bool is_return = false;		/* the first frame of a program is none */

	if (code->address_count - code->address_merged >= MERGE_ADDRESSES)
		merge_addresses(code);
	grown = rp_array_reserve(code->addresses, code->address_count, &code->address_capacity,
				 event->frame_count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	code->addresses = grown;
	for (uint32_t i = 0; i < event->frame_count; i++) {
		struct rp_code_address one = {
			.process = event->process, .is_return = is_return,
		};

		memcpy(&one.address, (const uint8_t *)event->frames + i * sizeof(one.address),
		       sizeof(one.address));
		if (one.address >= RP_KERNEL_START)
			continue;
		grown[code->address_count++] = one;
		is_return = true;
	}
	return 0;
}

static uint64_t note_id(struct rp_trace_code *code, uint64_t id)
{
	if (id > code->last_id)
		code->last_id = id;
	return id;
}

static int take_mapping(struct rp_trace_code *code, uint64_t process, struct rp_cursor cursor)
{
	struct rp_code_mapping *grown, mapping = { .process = process, .file = SIZE_MAX };

	mapping.id = note_id(code, rp_system_take_number(&cursor));
	mapping.start = rp_system_take_number(&cursor);
	mapping.end = rp_system_take_number(&cursor);
	mapping.file_offset = rp_system_take_number(&cursor);
	mapping.path = rp_system_take_text(&cursor);
	mapping.metadata_id = rp_system_take_number(&cursor);
	if (!mapping.path)
		return 0;
	grown = rp_array_reserve(code->mappings, code->mapping_count, &code->mapping_capacity, 1,
				 sizeof(*grown));
	if (!grown) {
		free(mapping.path);
		return -ENOMEM;
	}
	code->mappings = grown;
	grown[code->mapping_count++] = mapping;
	return 0;
}

static int take_function(struct rp_trace_code *code, uint64_t process, struct rp_cursor cursor)
{
	struct rp_code_function *grown, function = { .process = process };

	(void)note_id(code, rp_system_take_number(&cursor));
	(void)rp_system_take_number(&cursor);
	function.start = rp_system_take_number(&cursor);
	function.last = rp_system_take_number(&cursor);
	grown = rp_array_reserve(code->functions, code->function_count, &code->function_capacity,
				 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	code->functions = grown;
	grown[code->function_count++] = function;
	return 0;
}

static uint64_t json_number(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return value ? strtoull(json_object_get_string(value), NULL, 0) : 0;
}

static uint32_t parse_hex(const char *digits, uint8_t *bytes, uint32_t space)
{
	uint32_t count = 0;
	unsigned int byte;

	while (count < space && sscanf(digits + 2 * (size_t)count, "%2x", &byte) == 1)
		bytes[count++] = (uint8_t)byte;
	return count;
}

static int take_metadata(struct rp_trace_code *code, uint64_t process, struct rp_cursor cursor)
{
	struct rp_code_metadata *grown, one = { .process = process };
	struct json_object *object;
	char *text;

	one.id = note_id(code, rp_system_take_number(&cursor));
	text = rp_system_take_text(&cursor);
	object = text ? json_tokener_parse(text) : NULL;
	free(text);
	if (object) {
		struct json_object *id = json_object_object_get(object, "build_id");

		if (id)
			one.build_id_bytes = parse_hex(json_object_get_string(id), one.build_id,
						       sizeof(one.build_id));
		one.vaddr = json_number(object, "p_vaddr");
		one.file_offset = json_number(object, "p_offset");
		json_object_put(object);
	}
	grown = rp_array_reserve(code->metadata, code->metadata_count, &code->metadata_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	code->metadata = grown;
	grown[code->metadata_count++] = one;
	return 0;
}

int rp_trace_code_take(struct rp_trace_code *code, const struct rp_reader_info *info,
		       const struct rp_reader_event *event)
{
	struct rp_cursor cursor = rp_cursor_over(event->payload, event->payload_bytes);
	int ret = 0;

	if (event->frame_count && info->pointer_bytes == sizeof(uint64_t))
		ret = take_stack(code, event);
	if (ret || !event->payload_bytes || !rp_system_is_event(event))
		return ret;
	switch (event->type->id) {
	case RP_SYSTEM_MAPPING:
		return take_mapping(code, event->process, cursor);
	case RP_SYSTEM_FUNCTION:
		return take_function(code, event->process, cursor);
	case RP_SYSTEM_METADATA:
		return take_metadata(code, event->process, cursor);
	}
	return 0;
}

/* Find the row that starts last at the address or before. Rows are as for compare_starts(). */
static const void *find_start(const void *rows, size_t count, size_t row_bytes,
			      const struct rp_code_address *address)
{
	const uint64_t key[2] = { address->process, address->address };
	const uint8_t *bytes = rows;
	const size_t above = RP_PARTITION_POINT(i, count,
						compare_starts(bytes + i * row_bytes, key) <= 0);

	return above ? bytes + (above - 1) * row_bytes : NULL;
}

const struct rp_code_mapping *rp_trace_code_find(const struct rp_trace_code *code,
						 const struct rp_code_address *address)
{
	const struct rp_code_mapping *mapping = find_start(code->mappings, code->mapping_count,
							   sizeof(*mapping), address);

	return mapping && mapping->process == address->process &&
	       address->address < mapping->end ? mapping : NULL;
}

/* Whether the trace has a name for the address that stays. */
static bool has_name(const struct rp_trace_code *code, const struct rp_code_address *address)
{
	const struct rp_code_mapping *mapping = code->is_renamed ?
						rp_trace_code_find(code, address) : NULL;
	const struct rp_code_function *function = find_start(code->functions, code->function_count,
							     sizeof(*function), address);

	return !(mapping && mapping->file != SIZE_MAX) &&
	       function && function->process == address->process &&
	       address->address <= function->last;
}

/* Return: the index of the file; SIZE_MAX: no memory. */
static size_t find_file(struct rp_trace_code *code, const char *path,
			const struct rp_code_metadata *metadata)
{
	struct rp_code_file *grown;

	for (size_t i = 0; i < code->file_count; i++) {
		const struct rp_code_file *file = &code->files[i];

		if (file->build_id_bytes == metadata->build_id_bytes &&
		    (file->build_id_bytes ? !memcmp(file->build_id, metadata->build_id,
						    file->build_id_bytes) :
		     !strcmp(file->path, path)))
			return i;
	}
	grown = rp_array_reserve(code->files, code->file_count, &code->file_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return SIZE_MAX;
	code->files = grown;
	grown += code->file_count;
	*grown = (struct rp_code_file){
		.path = strdup(path), .build_id_bytes = metadata->build_id_bytes,
	};
	memcpy(grown->build_id, metadata->build_id, sizeof(grown->build_id));
	return grown->path ? code->file_count++ : SIZE_MAX;
}

/* The metadata of a mapping may come before it or after it. */
static int join_metadata(struct rp_trace_code *code)
{
	if (code->metadata_count)
		qsort(code->metadata, code->metadata_count, sizeof(*code->metadata),
		      compare_starts);
	for (size_t i = 0; code->metadata_count && i < code->mapping_count; i++) {
		struct rp_code_mapping *mapping = &code->mappings[i];
		const uint64_t key[2] = { mapping->process, mapping->metadata_id };
		const struct rp_code_metadata *one;

		one = mapping->metadata_id ?
		      bsearch(key, code->metadata, code->metadata_count, sizeof(*one),
			      compare_starts) : NULL;
		if (!one)
			continue;
		mapping->bias = mapping->start - mapping->file_offset + one->file_offset -
				one->vaddr;
		mapping->file = find_file(code, mapping->path, one);
		if (mapping->file == SIZE_MAX)
			return -ENOMEM;
	}
	return 0;
}

static int ask(struct rp_trace_code *code, const struct rp_code_address *address)
{
	const struct rp_code_mapping *mapping = rp_trace_code_find(code, address);
	struct rp_code_asked *grown;
	struct rp_code_file *file;

	if (!mapping || mapping->file == SIZE_MAX || has_name(code, address))
		return 0;
	file = &code->files[mapping->file];
	grown = rp_array_reserve(file->asked, file->asked_count, &file->asked_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	file->asked = grown;
	grown[file->asked_count++] = (struct rp_code_asked){
		.address = address->address - mapping->bias, .is_return = address->is_return,
	};
	return 0;
}

static int compare_asked(const void *left, const void *right)
{
	const struct rp_code_asked *a = left, *b = right;
	int order = compare_numbers(a->address, b->address);

	return order ? order : a->is_return - b->is_return;
}

/* Processes that run the same file have the same addresses in it. */
static void merge_asked(struct rp_code_file *file)
{
	size_t kept = 0;

	if (file->asked_count)
		qsort(file->asked, file->asked_count, sizeof(*file->asked), compare_asked);
	for (size_t i = 0; i < file->asked_count; i++)
		if (!kept || file->asked[kept - 1].address != file->asked[i].address)
			file->asked[kept++] = file->asked[i];
	file->asked_count = kept;
}

int rp_trace_code_finish(struct rp_trace_code *code)
{
	size_t nameless = 0;
	int ret;

	merge_addresses(code);
	if (code->mapping_count)
		qsort(code->mappings, code->mapping_count, sizeof(*code->mappings),
		      compare_mappings);
	if (code->function_count)
		qsort(code->functions, code->function_count, sizeof(*code->functions),
		      compare_starts);
	ret = join_metadata(code);
	for (size_t i = 0; ret == 0 && i < code->address_count; i++) {
		ret = ask(code, &code->addresses[i]);
		if (!has_name(code, &code->addresses[i]))
			code->addresses[nameless++] = code->addresses[i];
	}
	code->address_count = nameless;
	for (size_t i = 0; i < code->file_count; i++)
		merge_asked(&code->files[i]);
	return ret;
}

void rp_trace_code_fini(struct rp_trace_code *code)
{
	for (size_t i = 0; i < code->file_count; i++) {
		free(code->files[i].path);
		free(code->files[i].asked);
	}
	for (size_t i = 0; i < code->mapping_count; i++)
		free(code->mappings[i].path);
	free(code->files);
	free(code->mappings);
	free(code->metadata);
	free(code->addresses);
	free(code->functions);
}
