/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

/* A larger map is read up to here. */
#define MAP_BYTES_MAX (64u << 20)

/*
 * Opens a regular file that belongs to the process's user: anybody may write into /tmp. A process
 * that has ended had this program's /tmp, or its map cannot be found.
 */
static int open_map(const struct rp_machine_process *process)
{
	struct stat map;
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root/tmp/perf-%d.map", process->pid,
		 process->inner_pid);
	if (process->has_ended)
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", process->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -1;
	if (fstat(fd, &map) == 0 && S_ISREG(map.st_mode) && map.st_uid == process->user)
		return fd;
	close(fd);
	return -1;
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
			start, start + bytes, number, line + 1,
		};
	}
	if (map->count)
		qsort(map->functions, map->count, sizeof(*map->functions), compare);
}

void rp_perf_map_read(struct rp_perf_map *map, const struct rp_machine_process *process)
{
	int fd = open_map(process);

	rp_perf_map_fini(map);
	map->process = process;
	if (fd < 0)
		return;
	map->text = read_text(fd);
	close(fd);
	if (map->text)
		parse(map);
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
	free(map->functions);
	free(map->text);
	*map = (struct rp_perf_map){ 0 };
}
