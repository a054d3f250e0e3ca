/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/perf_map.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "tools/ringpipe-record/foreign_file.h"
#include "tools/ringpipe-record/image.h"
#include "tools/ringpipe-record/jit_dump.h"

/* A larger map is read up to here. */
#define MAP_BYTES_MAX (64u << 20)

/*
 * Opens a regular file that belongs to the process's user: any user may write into /tmp. A process
 * that has ended had this program's folders, or its files cannot be found. Return: -1: none.
 */
static int open_file(const struct rp_machine_process *process, const char *path_there)
{
	char path[PATH_MAX + 32];
	struct stat map;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root%s", process->pid, path_there);
	fd = rp_foreign_file_open(process->has_ended ? path_there : path, O_NOFOLLOW,
				  process->pid, 0, &map);
	if (fd >= 0 && map.st_uid != process->user) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Return: a text for free(), or NULL. */
static char *read_text(int fd)
{
	size_t used = 0, capacity = 0;
	char *text = NULL;
	ssize_t got = 1;

	while (got > 0 && used < MAP_BYTES_MAX) {
		char *grown = rp_array_reserve(text, used, &capacity, 65536, 1);

		if (!grown)
			break;
		text = grown;
		got = read(fd, text + used, 65535);
		used += got > 0 ? (size_t)got : 0;
	}
	if (text)
		text[used] = '\0';
	return text;
}

static int compare(const void *a, const void *b)
{
	const struct rp_perf_map_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* A line is the start and size in hex, and the name. */
static void parse(struct rp_perf_map *map)
{
	char *line = map->text, *end;

	for (size_t number = 0; line && *line; line = end ? end + 1 : NULL, number++) {
		struct rp_perf_map_function *grown;
		uint64_t start, bytes;

		end = strchr(line, '\n');
		if (end)
			*end = '\0';
		start = strtoull(line, &line, 16);
		bytes = strtoull(line, &line, 16);
		if (!start || !bytes || start + bytes < start || *line != ' ')
			continue;
		grown = rp_array_reserve(map->functions, map->count, &map->capacity, 1,
					 sizeof(*grown));
		if (!grown)
			break;
		map->functions = grown;
		grown[map->count++] = (struct rp_perf_map_function){
			start, start + bytes, number, line + 1, NULL,
		};
	}
}

/* The name of code that was moved is that of the function which was there last. */
static char *copy_name(const struct rp_perf_map *map, const struct rp_jit_function *function)
{
	if (function->name)
		return strdup(function->name);
	for (size_t i = map->count; i > 0; i--)
		if (map->functions[i - 1].start == function->old_start)
			return strdup(map->functions[i - 1].name);
	return NULL;
}

static int add_jit_function(void *data, const struct rp_jit_function *function)
{
	struct rp_perf_map *map = data;
	const uint64_t end = function->start + function->bytes;
	char *name = end > function->start ? copy_name(map, function) : NULL;
	struct rp_perf_map_function *grown;

	grown = name ? rp_array_reserve(map->functions, map->count, &map->capacity, 1,
					sizeof(*grown)) : NULL;
	if (!grown) {
		free(name);
		return 0;
	}
	map->functions = grown;
	grown[map->count] = (struct rp_perf_map_function){
		function->start, end, map->count, name, name,
	};
	map->count++;
	return 0;
}

/* The process has mapped a page of each jitdump file. */
static void read_jit_dumps(struct rp_perf_map *map, const struct rp_machine_process *process)
{
	for (size_t i = 0; i < process->space.count; i++) {
		const struct rp_image *image = process->space.mapped[i].image;
		int fd;

		if (!image || !rp_jit_dump_is_path(image->path))
			continue;
		fd = open_file(process, image->path);
		if (fd < 0)
			continue;
		(void)rp_jit_dump_read(fd, add_jit_function, map);
		close(fd);
	}
}

void rp_perf_map_read(struct rp_perf_map *map, const struct rp_machine_process *process)
{
	char path[64];
	int fd;

	rp_perf_map_fini(map);
	map->process = process;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map",
		 process->has_ended ? process->pid : process->inner_pid);
	fd = open_file(process, path);
	if (fd >= 0) {
		map->text = read_text(fd);
		close(fd);
	}
	if (map->text)
		parse(map);
	read_jit_dumps(map, process);
	if (map->count)
		qsort(map->functions, map->count, sizeof(*map->functions), compare);
}

const struct rp_perf_map_function *rp_perf_map_find(const struct rp_perf_map *map,
						    uint64_t address)
{
	size_t above = rp_array_find(map->functions, map->count, sizeof(*map->functions),
				     address + 1);

	return above > 0 && address < map->functions[above - 1].end ? &map->functions[above - 1] :
	       NULL;
}

void rp_perf_map_fini(struct rp_perf_map *map)
{
	for (size_t i = 0; i < map->count; i++)
		free(map->functions[i].owned);
	free(map->functions);
	free(map->text);
	*map = (struct rp_perf_map){ 0 };
}
