/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe/top_names.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "host/symbols.h"
#include "tools/cli/signals.h"
#include "tools/ringpipe/top_methods.h"
#include "tools/ringpipe/top_module.h"

#define MAPPINGS_MAX 65536u
#define SEARCH_MS 1000

/* An executable mapping of a file. */
struct top_mapping {
	uint64_t start, end, offset;
	ino_t inode;
	char *path;
};

/* An address, and the function and file that contain it. */
struct top_code {
	uint64_t address;
	char *name;			/* or NULL */
	char *file;			/* without folders; or NULL */
	bool is_method;			/* as in struct rp_top_function */
	bool is_generated;		/* the file is one in memory, which rows do not show */
};

struct rp_top_names {
	pid_t pid;
	struct rp_top_methods *methods;	/* or NULL */
	rp_symbols_find_callback find;	/* NULL: there is no module */
	struct top_mapping *mappings;	/* in the order of their addresses */
	size_t mapping_count, mapping_capacity;
	struct top_code *codes;	/* sorted */
	size_t code_count, code_capacity;
};

int rp_top_names_create(pid_t pid, struct rp_top_methods *methods, struct rp_top_names **ret_names)
{
	struct rp_top_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	names->pid = pid;
	names->methods = methods;
	names->find = rp_top_module_load();
	*ret_names = names;
	return 0;
}

static void free_mappings(struct rp_top_names *names)
{
	for (size_t i = 0; i < names->mapping_count; i++)
		free(names->mappings[i].path);
	names->mapping_count = 0;
}

void rp_top_names_destroy(struct rp_top_names *names)
{
	if (!names)
		return;
	free_mappings(names);
	free(names->mappings);
	for (size_t i = 0; i < names->code_count; i++) {
		free(names->codes[i].name);
		free(names->codes[i].file);
	}
	free(names->codes);
	free(names);
}

/* Add the mapping in a line of /proc/PID/maps. Return: 0, also for other lines; -ENOMEM. */
static int take_line(struct rp_top_names *names, const char *line)
{
	struct top_mapping mapping = { 0 }, *grown;
	uint64_t inode;
	char rights[5];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n",
		   &mapping.start, &mapping.end, rights, &mapping.offset, &inode, &at) < 5 ||
	    at == 0 || rights[2] != 'x' || !line[at])
		return 0;
	grown = rp_array_reserve(names->mappings, names->mapping_count, &names->mapping_capacity, 1,
				 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	names->mappings = grown;
	mapping.inode = (ino_t)inode;
	mapping.path = strndup(line + at, strcspn(line + at, "\n"));
	if (!mapping.path)
		return -ENOMEM;
	grown[names->mapping_count++] = mapping;
	return 0;
}

/* If the mappings may not be read, there are none. Return: 0; -ENOMEM. */
static int read_mappings(struct rp_top_names *names)
{
	char path[64], *line = NULL;
	size_t space = 0;
	FILE *file;
	int ret = 0;

	free_mappings(names);
	snprintf(path, sizeof(path), "/proc/%d/maps", names->pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (ret == 0 && names->mapping_count < MAPPINGS_MAX && getline(&line, &space, file) > 0)
		ret = take_line(names, line);
	free(line);
	fclose(file);
	return ret;
}

static const struct top_mapping *find_mapping(const struct rp_top_names *names, uint64_t address)
{
	size_t above = rp_array_find(names->mappings, names->mapping_count,
				     sizeof(*names->mappings), address + 1);

	return above > 0 && address < names->mappings[above - 1].end ? &names->mappings[above - 1] :
	       NULL;
}

/*
 * Return: whether the descriptor is of the mapped file, and not of a later one of its name. The
 * device is not compared, because some file systems state another one in the mappings.
 */
static bool is_mapped_file(int fd, const struct top_mapping *mapping)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       status.st_ino == mapping->inode;
}

/* Return: the address in the ELF file minus the offset in the file. */
static bool read_bias(int fd, const struct top_mapping *mapping, uint64_t *ret_bias)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(segment))
		return false;
	for (unsigned int i = 0; i < header.e_phnum; i++) {
		const uint64_t at = header.e_phoff + i * sizeof(segment);

		if (at > INT64_MAX || pread(fd, &segment, sizeof(segment), (off_t)at) !=
		    sizeof(segment))
			return false;
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) ||
		    mapping->offset + (mapping->end - mapping->start) <= segment.p_offset ||
		    mapping->offset >= segment.p_offset + segment.p_filesz)
			continue;
		*ret_bias = segment.p_vaddr - segment.p_offset;
		return true;
	}
	return false;
}

/* A query for the addresses of one mapping. */
struct top_query {
	struct top_code *codes;	/* sorted by address, all in the mapping */
	size_t count;
	uint64_t to_memory;		/* added to an address of the file */
	int64_t end_ms;
};

static void name_codes(void *data, uint64_t start, uint64_t end, const char *name)
{
	struct top_query *query = data;
	size_t at = rp_array_find(query->codes, query->count, sizeof(*query->codes),
				  start + query->to_memory);

	for (; at < query->count && query->codes[at].address < end + query->to_memory; at++) {
		free(query->codes[at].name);
		query->codes[at].name = strdup(name);
	}
}

static bool is_late(void *data)
{
	return rp_now_ms() >= ((const struct top_query *)data)->end_ms;
}

static int run_query(const struct rp_top_names *names, struct top_query *query, int fd,
		     const struct top_mapping *mapping)
{
	char own[64];
	const char *const paths[] = { own };
	struct rp_symbols_query symbols = {
		.size = sizeof(symbols), .address_count = (uint32_t)query->count, .paths = paths,
		.path_count = 1, .named = mapping->path, .debug_directory = "/usr/lib/debug",
		.found = name_codes, .is_over = is_late, .data = query,
	};
	uint64_t *addresses = calloc(query->count, sizeof(*addresses));

	if (!addresses)
		return -ENOMEM;
	for (size_t i = 0; i < query->count; i++)
		addresses[i] = query->codes[i].address - query->to_memory;
	symbols.addresses = addresses;
	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	/* Without names, the rows have the file. */
	(void)names->find(&symbols);
	free(addresses);
	return 0;
}

/* Name the addresses, which are all in the mapping. Return: 0; -ENOMEM. */
static int name_mapping(struct rp_top_names *names, const struct top_mapping *mapping,
			struct top_query *query)
{
	char path[PATH_MAX];
	uint64_t bias;
	int fd, ret = 0;

	if (!names->find || *mapping->path != '/' || query->count > UINT32_MAX)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/root%s", names->pid, mapping->path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return 0;
	if (is_mapped_file(fd, mapping) && read_bias(fd, mapping, &bias)) {
		query->to_memory = mapping->start - mapping->offset - bias;
		ret = run_query(names, query, fd, mapping);
	}
	close(fd);
	return ret;
}

static int compare_codes(const void *left, const void *right)
{
	const struct top_code *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

/* Return: the first index of a new address; -ENOMEM. */
static ssize_t add_codes(struct rp_top_names *names, const struct rp_top_address *addresses,
			  size_t count)
{
	const size_t known = names->code_count;
	struct top_code *grown = rp_array_reserve(names->codes, known, &names->code_capacity,
						   count ? count : 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	names->codes = grown;
	for (size_t i = 0; i < count; i++) {
		const size_t at = rp_array_find(grown, known, sizeof(*grown), addresses[i].address);

		if (at == known || grown[at].address != addresses[i].address)
			grown[names->code_count++] = (struct top_code){
				.address = addresses[i].address,
			};
	}
	qsort(grown + known, names->code_count - known, sizeof(*grown), compare_codes);
	return (ssize_t)known;
}

/* Return: the mapping of the addresses from `at` on, and the number of those in it. */
static const struct top_mapping *next_mapping(const struct rp_top_names *names, size_t at,
					      size_t *ret_count)
{
	const struct top_mapping *mapping = find_mapping(names, names->codes[at].address);
	size_t end = at + 1;

	while (mapping && end < names->code_count && names->codes[end].address < mapping->end)
		end++;
	*ret_count = end - at;
	return mapping;
}

static int set_files(struct top_query *query, const struct top_mapping *mapping)
{
	const char *slash = strrchr(mapping->path, '/');

	for (size_t i = 0; i < query->count; i++) {
		query->codes[i].file = strdup(slash ? slash + 1 : mapping->path);
		if (!query->codes[i].file)
			return -ENOMEM;
	}
	return 0;
}

static int name_new(struct rp_top_names *names, size_t first)
{
	const int64_t end_ms = rp_now_ms() + SEARCH_MS;
	size_t count;
	int ret = first < names->code_count ? read_mappings(names) : 0;

	for (size_t at = first; at < names->code_count && ret == 0; at += count) {
		const struct top_mapping *mapping = next_mapping(names, at, &count);
		struct top_query query = { &names->codes[at], count, 0, end_ms };

		if (!mapping)
			continue;
		ret = set_files(&query, mapping);
		if (ret == 0)
			ret = name_mapping(names, mapping, &query);
	}
	qsort(names->codes, names->code_count, sizeof(*names->codes), compare_codes);
	return ret;
}

/*
 * Give generated code the names of its methods. The runtime reports them late, so this also names
 * addresses that were seen before.
 */
static void name_methods(struct rp_top_names *names, bool has_new)
{
	if (!names->methods || (!rp_top_methods_update(names->methods) && !has_new))
		return;
	for (size_t i = 0; i < names->code_count; i++) {
		struct top_code *code = &names->codes[i];

		if (code->name)
			continue;
		code->name = rp_top_methods_find(names->methods, code->address);
		code->is_method = code->name;
		/* The runtime maps the code that it generates from a file in memory. */
		code->is_generated = code->name && code->file &&
				     !strncmp(code->file, "memfd:", 6);
	}
}

static int compare_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

/* Rows of one function are equal: those with a name by name and file, others by file. */
static int compare_functions(const void *left, const void *right)
{
	const struct rp_top_function *a = left, *b = right;
	int order = compare_texts(a->file, b->file);

	if (order == 0)
		order = compare_texts(a->name, b->name);
	if (order == 0 && !a->name && !a->file)
		order = (a->address > b->address) - (a->address < b->address);
	return order;
}

static int compare_samples(const void *left, const void *right)
{
	const struct rp_top_function *a = left, *b = right;

	if (a->now != b->now)
		return a->now > b->now ? -1 : 1;
	if (a->all != b->all)
		return a->all > b->all ? -1 : 1;
	return compare_functions(left, right);
}

static size_t merge_rows(struct rp_top_function *rows, size_t count)
{
	size_t kept = 0;

	qsort(rows, count, sizeof(*rows), compare_functions);
	for (size_t i = 0; i < count; i++) {
		if (kept > 0 && compare_functions(&rows[kept - 1], &rows[i]) == 0) {
			rows[kept - 1].now += rows[i].now;
			rows[kept - 1].all += rows[i].all;
		} else {
			rows[kept++] = rows[i];
		}
	}
	qsort(rows, kept, sizeof(*rows), compare_samples);
	return kept;
}

int rp_top_names_group(struct rp_top_names *names, const struct rp_top_address *addresses,
		       size_t count, struct rp_top_function **ret_rows, size_t *ret_count)
{
	const ssize_t first = add_codes(names, addresses, count);
	struct rp_top_function *rows;
	const bool has_new = first >= 0 && (size_t)first < names->code_count;
	int ret = first < 0 ? (int)first : name_new(names, (size_t)first);

	if (ret)
		return ret;
	name_methods(names, has_new);
	rows = calloc(count + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct top_code *code = &names->codes[rp_array_find(
			names->codes, names->code_count, sizeof(*code), addresses[i].address)];

		rows[i] = (struct rp_top_function){
			code->name, code->is_generated ? NULL : code->file, code->address,
			addresses[i].now, addresses[i].all, code->is_method,
		};
	}
	*ret_count = merge_rows(rows, count);
	*ret_rows = rows;
	return 0;
}
