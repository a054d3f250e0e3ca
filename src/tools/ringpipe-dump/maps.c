/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-dump/maps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* proc(5): address perms offset dev inode path. Return: whether the line begins a mapping. */
static bool parse_header(const char *line, struct rp_dump_mapping *mapping, const char **ret_path)
{
	char perms[5];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n",
		   &mapping->start, &mapping->end, perms, &mapping->offset, &mapping->inode,
		   &at) < 5 || strlen(perms) != 4 || mapping->start >= mapping->end)
		return false;
	mapping->readable = perms[0] == 'r';
	mapping->writable = perms[1] == 'w';
	mapping->executable = perms[2] == 'x';
	mapping->shared = perms[3] == 's';
	*ret_path = line + at;
	return true;
}

static int add(struct rp_dump_maps *maps, const struct rp_dump_mapping *mapping, const char *path)
{
	struct rp_dump_mapping *row;

	if (maps->count == maps->capacity) {
		size_t capacity = maps->capacity ? 2 * maps->capacity : 256;
		struct rp_dump_mapping *grown = realloc(maps->rows, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		maps->rows = grown;
		maps->capacity = capacity;
	}
	row = &maps->rows[maps->count];
	*row = *mapping;
	row->path = strndup(path, strcspn(path, "\n"));
	if (!row->path)
		return -ENOMEM;
	maps->count++;
	/* Mappings that the kernel provides, and that change or cannot be read. */
	if (!strncmp(row->path, "[vvar", 5) || !strcmp(row->path, "[vsyscall]"))
		row->excluded = true;
	return 0;
}

static void parse_field(const char *line, struct rp_dump_mapping *mapping)
{
	uint64_t kilobytes;
	char flag[3];
	int n;

	if (sscanf(line, "Rss: %" SCNu64, &kilobytes) == 1 ||
	    sscanf(line, "Swap: %" SCNu64, &kilobytes) == 1)
		mapping->touched |= kilobytes > 0;
	/* smaps counts the huge pages of hugetlbfs separately. */
	if (strstr(line, "_Hugetlb:") && sscanf(strchr(line, ':'), ": %" SCNu64, &kilobytes) == 1)
		mapping->touched |= kilobytes > 0;
	if (strncmp(line, "VmFlags:", 8) != 0)
		return;
	for (line += 8; sscanf(line, " %2s%n", flag, &n) == 1; line += n) {
		if (!strcmp(flag, "dd") || !strcmp(flag, "io") || !strcmp(flag, "pf"))
			mapping->excluded = true;
	}
}

int rp_dump_maps_parse(struct rp_dump_maps *maps, FILE *file)
{
	struct rp_dump_mapping mapping;
	size_t capacity = 0;
	const char *path;
	char *line = NULL;
	int r = 0;

	*maps = (struct rp_dump_maps){ 0 };
	while (r == 0 && getline(&line, &capacity, file) > 0) {
		mapping = (struct rp_dump_mapping){ 0 };
		if (parse_header(line, &mapping, &path))
			r = add(maps, &mapping, path);
		else if (maps->count > 0)
			parse_field(line, &maps->rows[maps->count - 1]);
	}
	if (r == 0 && ferror(file))
		r = -EIO;
	free(line);
	return r;
}

int rp_dump_maps_read(struct rp_dump_maps *maps, pid_t pid)
{
	char path[64];
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	r = rp_dump_maps_parse(maps, file);
	fclose(file);
	return r;
}

void rp_dump_maps_fini(struct rp_dump_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		free(maps->rows[i].path);
	free(maps->rows);
}
