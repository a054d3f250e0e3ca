/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-symbolize/code_names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "modules/symbols/find.h"
#include "modules/symbols/inlines.h"
#include "nettrace/event_header.h"
#include "tools/ringpipe-symbolize/debug_server.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"
#define PAYLOAD_MAX (4 * 10u + 2u + RP_SYMBOL_NAME_MAX)

struct found_function {
	uint64_t start, end;		/* addresses of the ELF file; end: exclusive */
	char *name;
};

/* The functions of one file. */
struct rp_file_names {
	const struct rp_code_names *all;
	struct found_function *functions;	/* sorted by start */
	size_t count, capacity;
	struct rp_inlines *inlines;	/* NULL: not wanted, or none found */
	bool is_found;
	bool has_failed;		/* no memory */
};

static const struct found_function *find_function(const struct rp_file_names *names, uint64_t at)
{
	size_t above = rp_array_find(names->functions, names->count, sizeof(*names->functions),
				     at + 1);

	return above > 0 && at < names->functions[above - 1].end ? &names->functions[above - 1] :
	       NULL;
}

static void free_functions(struct rp_file_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->functions[i].name);
	free(names->functions);
}

static size_t count_missing(const struct rp_file_names *names, const struct rp_code_file *file)
{
	size_t missing = 0;

	for (size_t i = 0; i < file->asked_count; i++)
		missing += !find_function(names, file->asked[i].address);
	return missing;
}

static void add_function(void *data, uint64_t start, uint64_t end, const char *name)
{
	struct rp_file_names *names = data;
	size_t at = rp_array_find(names->functions, names->count, sizeof(*names->functions), start);
	struct found_function *grown;
	char *copy;

	if (at < names->count && names->functions[at].start == start)
		return;
	grown = rp_array_reserve(names->functions, names->count, &names->capacity, 1,
				 sizeof(*grown));
	copy = strdup(name);
	if (grown)
		names->functions = grown;
	if (!grown || !copy) {
		free(copy);
		names->has_failed = true;
		return;
	}
	memmove(grown + at + 1, grown + at, (names->count - at) * sizeof(*grown));
	grown[at] = (struct found_function){ start, end, copy };
	names->count++;
}

static bool is_over(void *data)
{
	const struct rp_file_names *names = data;

	return names->all->is_over(names->all->data);
}

/* Open the DWARF of a file or of its debug file, unless that of another place is open. */
static void find_inlines(struct rp_file_names *names, const struct rp_code_file *file,
			 const struct rp_symbols_query *query)
{
	const char *path = query->path_count ? query->paths[0] : NULL;
	char id[2 * RP_BUILD_ID_MAX + 1] = "", debug[PATH_MAX];

	if (!names->all->has_inlines || names->inlines || file->build_id_bytes < 2)
		return;
	if (path && rp_inlines_open(path, file->build_id, file->build_id_bytes,
				    &names->inlines) == 0)
		return;
	for (uint32_t i = 0; i < file->build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", file->build_id[i]);
	if ((size_t)snprintf(debug, sizeof(debug), "%s/.build-id/%.2s/%s.debug",
			     query->debug_directory, id, id + 2) < sizeof(debug) &&
	    rp_inlines_open(debug, file->build_id, file->build_id_bytes, &names->inlines) == 0)
		return;
	if (path && rp_symbols_find_linked(query, debug) == 0)
		(void)rp_inlines_open(debug, file->build_id, file->build_id_bytes,
				      &names->inlines);
}

/* Ask one place for the addresses that have no name yet. 0; -ENOMEM. */
static int query(struct rp_file_names *names, const struct rp_code_file *file, const char *path,
		 const char *debug_directory)
{
	struct rp_symbols_query query = {
		.size = sizeof(query),
		.paths = &path,
		.path_count = path ? 1 : 0,
		.named = path ? path : file->path,
		.debug_directory = debug_directory,
		.build_id = file->build_id,
		.build_id_bytes = file->build_id_bytes,
		.found = add_function,
		.is_over = is_over,
		.data = names,
	};
	uint64_t *left = malloc((file->asked_count + 1) * sizeof(*left));
	int ret;

	if (!left)
		return -ENOMEM;
	for (size_t i = 0; i < file->asked_count; i++)
		if (!find_function(names, file->asked[i].address))
			left[query.address_count++] = file->asked[i].address;
	query.addresses = left;
	ret = query.address_count ? rp_symbols_find(&query) : 0;
	names->is_found |= ret == 0;
	free(left);
	if (ret != -ENOMEM)
		find_inlines(names, file, &query);
	return ret == -ENOMEM || names->has_failed ? -ENOMEM : 0;
}

/*
 * A directory has files as an archive of `ringpipe record` has them, .build-id/xx/yyyy, or debug
 * files as gdb knows them, .build-id/xx/yyyy.debug; or the file itself by its name.
 */
static int query_directory(struct rp_file_names *names, const struct rp_code_file *file,
			   const char *directory, size_t length)
{
	char id[2 * RP_BUILD_ID_MAX + 1] = "", root[PATH_MAX], path[PATH_MAX + 512];
	const char *slash = strrchr(file->path, '/');
	int ret;

	if (length == 0 || length >= sizeof(root))
		return 0;
	memcpy(root, directory, length);
	root[length] = '\0';
	for (uint32_t i = 0; i < file->build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", file->build_id[i]);
	snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s", root, id, *id ? id + 2 : "");
	ret = query(names, file, path, root);
	if (ret == 0 && slash) {
		snprintf(path, sizeof(path), "%s%.255s", root, slash);
		ret = query(names, file, path, root);
	}
	return ret;
}

static int query_server(struct rp_file_names *names, const struct rp_code_file *file)
{
	char *path;
	int ret;

	if (!file->build_id_bytes ||
	    (!count_missing(names, file) && (!names->all->has_inlines || names->inlines)))
		return 0;
	path = rp_debug_server_get(file->build_id, file->build_id_bytes, is_over, names);
	ret = path ? query(names, file, path, DEBUG_DIRECTORY) : 0;
	free(path);
	return ret;
}

/*
 * The name of the part of a function that ends with an address. Return: NULL: no memory.
 */
static char *part_name(const struct rp_file_names *names, const struct found_function *function,
		       const struct rp_code_asked *asked)
{
	char name[RP_SYMBOL_NAME_MAX];

	return strdup(rp_inlines_describe(names->inlines, asked->address - asked->is_return,
					  function->name, name, sizeof(name)) ?
		      name : function->name);
}

/* Append a part; it extends the last one if both have the same name. Takes the name. 0; -ENOMEM. */
static int add_part(struct rp_file_names *to, uint64_t start, uint64_t end, char *name)
{
	struct found_function *last = to->count ? &to->functions[to->count - 1] : NULL, *grown;

	if (name && last && last->end == start && !strcmp(last->name, name)) {
		last->end = end;
		free(name);
		return 0;
	}
	grown = name ? rp_array_reserve(to->functions, to->count, &to->capacity, 1,
					sizeof(*grown)) : NULL;
	if (!grown) {
		free(name);
		return -ENOMEM;
	}
	to->functions = grown;
	grown[to->count++] = (struct found_function){ start, end, name };
	return 0;
}

/* Split one function into parts that end with the addresses of stacks. 0; -ENOMEM. */
static int split_function(const struct rp_file_names *names, const struct rp_code_file *file,
			  const struct found_function *function, struct rp_file_names *to)
{
	size_t first = rp_array_find(file->asked, file->asked_count, sizeof(*file->asked),
				     function->start), last = first;
	uint64_t start = function->start;
	int ret = 0;

	while (last < file->asked_count && file->asked[last].address < function->end)
		last++;
	for (size_t i = first; ret == 0 && i < last; i++) {
		const struct rp_code_asked *asked = &file->asked[i];
		const uint64_t end = i + 1 < last ? asked->address + 1 : function->end;

		ret = is_over((void *)names) ? 0 :
		      add_part(to, start, end, part_name(names, function, asked));
		start = end;
	}
	return ret;
}

/*
 * Give the parts of functions names with their inlined functions. Viewers find the function that
 * contains an address, so the parts cover the function and do not overlap. 0; -ENOMEM.
 */
static int split_functions(struct rp_file_names *names, const struct rp_code_file *file)
{
	struct rp_file_names parts = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < names->count; i++) {
		struct found_function *own = &names->functions[i];

		/* A symbol may contain others. */
		if (i + 1 < names->count && own->end > own[1].start)
			own->end = own[1].start;
		ret = split_function(names, file, own, &parts);
	}
	free_functions(names);
	names->functions = parts.functions;
	names->count = parts.count;
	names->capacity = parts.capacity;
	return ret;
}

static int find_file(struct rp_code_names *all, size_t index)
{
	const struct rp_code_file *file = &all->code->files[index];
	struct rp_file_names *names = &all->files[index];
	const char *at = all->directories;
	int ret = 0;

	names->all = all;
	while (ret == 0 && at && *at) {
		size_t length = strcspn(at, ":");

		ret = query_directory(names, file, at, length);
		at += length + (at[length] == ':');
	}
	/* Without a build id, a file at that path may be another one. */
	if (ret == 0 && file->build_id_bytes)
		ret = query(names, file, file->path, DEBUG_DIRECTORY);
	if (ret == 0)
		ret = query_server(names, file);
	if (ret == 0 && names->inlines)
		ret = split_functions(names, file);
	/* A trace may have more files than a process may open. */
	rp_inlines_close(names->inlines);
	names->inlines = NULL;
	return ret;
}

int rp_code_names_find(struct rp_code_names *names)
{
	int ret = 0;

	names->files = calloc(names->code->file_count + 1, sizeof(*names->files));
	if (!names->files)
		return -ENOMEM;
	for (size_t i = 0; ret == 0 && i < names->code->file_count; i++)
		if (names->code->files[i].asked_count && !names->is_over(names->data))
			ret = find_file(names, i);
	return ret;
}

size_t rp_code_names_missing(const struct rp_code_names *names, size_t file, bool *ret_is_found)
{
	*ret_is_found = names->files[file].is_found;
	return count_missing(&names->files[file], &names->code->files[file]);
}

static int put_function(struct rp_code_names *names, struct rp_trace_convert *convert,
			const struct rp_code_mapping *mapping,
			const struct found_function *function)
{
	const size_t length = strnlen(function->name, RP_SYMBOL_NAME_MAX);
	uint8_t payload[PAYLOAD_MAX], *at = payload;

	names->functions++;
	at = rp_wire_varint_put(at, names->code->last_id + names->functions);
	at = rp_wire_varint_put(at, mapping->id);
	at = rp_wire_varint_put(at, function->start + mapping->bias);
	at = rp_wire_varint_put(at, function->end + mapping->bias - 1);
	*at++ = (uint8_t)(length & 0xff);
	*at++ = (uint8_t)(length >> 8);
	memcpy(at, function->name, length);
	return rp_trace_convert_add_function(convert, mapping->process, payload,
					     (size_t)(at - payload) + length);
}

bool rp_code_names_replace(const struct rp_code_names *names, uint64_t process, uint64_t start)
{
	const struct rp_code_address address = { .process = process, .address = start };
	const struct rp_code_mapping *mapping = rp_trace_code_find(names->code, &address);

	return mapping && mapping->file != SIZE_MAX &&
	       find_function(&names->files[mapping->file], start - mapping->bias);
}

/* Addresses are sorted, so those of a function in a process follow each other. */
int rp_code_names_add(struct rp_code_names *names, struct rp_trace_convert *convert)
{
	const struct rp_trace_code *code = names->code;
	const struct found_function *last = NULL;
	const struct rp_code_mapping *last_mapping = NULL;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < code->address_count; i++) {
		const struct rp_code_address *address = &code->addresses[i];
		const struct rp_code_mapping *mapping = rp_trace_code_find(code, address);
		const struct found_function *function;

		function = mapping && mapping->file != SIZE_MAX ?
			   find_function(&names->files[mapping->file],
					 address->address - mapping->bias) : NULL;
		names->named += !!function;
		names->nameless += !function;
		if (!function || (function == last && mapping == last_mapping))
			continue;
		ret = put_function(names, convert, mapping, function);
		last = function;
		last_mapping = mapping;
	}
	return ret;
}

void rp_code_names_fini(struct rp_code_names *names)
{
	for (size_t i = 0; names->files && i < names->code->file_count; i++) {
		free_functions(&names->files[i]);
		rp_inlines_close(names->files[i].inlines);
	}
	free(names->files);
}
