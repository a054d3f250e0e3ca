/* SPDX-License-Identifier: MIT */
#include "tools/client/container.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ID_DIGITS 64
#define ID_SHOWN 12			/* as docker ps does */

static bool is_id(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isxdigit((unsigned char)text[i]))
			return false;
	return length == ID_DIGITS;
}

static void set_name(char ret_name[RP_CONTAINER_MAX], const char *text, size_t length)
{
	if (length >= RP_CONTAINER_MAX)
		length = RP_CONTAINER_MAX - 1;
	memcpy(ret_name, text, length);
	ret_name[length] = '\0';
}

/* Return: the text after the prefix if the part has that and the suffix; NULL. */
static const char *between(const char *part, size_t length, const char *prefix, const char *suffix,
			   size_t *ret_length)
{
	const size_t before = strlen(prefix), after = strlen(suffix);

	if (length <= before + after || strncmp(part, prefix, before) != 0 ||
	    strncmp(part + length - after, suffix, after) != 0)
		return NULL;
	*ret_length = length - before - after;
	return part + before;
}

/* A part of a path: "<64 digits>", "docker-<64 digits>.scope", "lxc.payload.NAME" and others. */
static bool take_part(const char *part, size_t length, bool after_lxc,
		      char ret_name[RP_CONTAINER_MAX])
{
	static const char *const names[][2] = {
		{ "lxc.payload.", "" }, { "machine-", ".scope" },
		{ "systemd-nspawn@", ".service" },
	};
	const char *dot = memchr(part, '.', length), *dash;
	const size_t stem = dot ? (size_t)(dot - part) : length;
	const char *name;
	size_t size;

	dash = memrchr(part, '-', stem);
	name = dash ? dash + 1 : part;
	if (is_id(name, (size_t)(part + stem - name))) {
		set_name(ret_name, name, ID_SHOWN);
		return true;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		name = between(part, length, names[i][0], names[i][1], &size);
		if (name) {
			set_name(ret_name, name, size);
			return true;
		}
	}
	if (after_lxc && length)
		set_name(ret_name, part, length);
	return after_lxc && length;
}

/* The innermost container counts, so the parts are taken from the end. */
static bool take_path(const char *path, size_t length, char ret_name[RP_CONTAINER_MAX])
{
	size_t end = length;

	while (end > 0) {
		const char *slash = memrchr(path, '/', end);
		const size_t start = slash ? (size_t)(slash - path) + 1 : 0;
		const bool after_lxc = start >= 5 && !strncmp(path + start - 5, "/lxc/", 5);

		if (take_part(path + start, end - start, after_lxc, ret_name))
			return true;
		end = start ? start - 1 : 0;
	}
	return false;
}

void rp_container_find(const char *cgroups, char ret_name[RP_CONTAINER_MAX])
{
	*ret_name = '\0';
	for (const char *line = cgroups; *line;) {
		const size_t length = strcspn(line, "\n");
		const char *path = memchr(line, ':', length);

		path = path ? memchr(path + 1, ':', length - (size_t)(path + 1 - line)) : NULL;
		if (path && take_path(path + 1, length - (size_t)(path + 1 - line), ret_name))
			return;
		line += length + (line[length] == '\n');
	}
}

void rp_container_read(pid_t pid, pid_t inner_pid, char ret_name[RP_CONTAINER_MAX])
{
	char path[64], text[4096];
	ssize_t length;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	file = fopen(path, "re");
	if (file) {
		size = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[size] = '\0';
	rp_container_find(text, ret_name);
	if (*ret_name || inner_pid == pid)
		return;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	length = readlink(path, ret_name, RP_CONTAINER_MAX - 1);
	ret_name[length > 0 ? length : 0] = '\0';
}
