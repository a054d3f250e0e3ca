/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/target.h"

const char *rp_target_directory(void)
{
	const char *directory = getenv("TMPDIR");

	return directory && *directory ? directory : "/tmp";
}

/* The beginning of a file of /proc, with a NUL behind it. Return: bytes read, or -errno. */
static ssize_t read_proc(pid_t pid, const char *name, char *buffer, size_t size)
{
	char path[64];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, buffer, size - 1);
	if (length < 0)
		length = -errno;
	close(fd);
	if (length >= 0)
		buffer[length] = '\0';
	return length;
}

int rp_process_start_time(pid_t pid, uint64_t *ret_start_time)
{
	char stat[1024];
	const char *at;

	if (read_proc(pid, "stat", stat, sizeof(stat)) <= 0)
		return -ESRCH;
	/* The name, field 2, may hold blanks and parentheses: count from its end. */
	at = strrchr(stat, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, " %" SCNu64, ret_start_time) != 1)
		return -ESRCH;
	return 0;
}

/* Digits up to `end`, which is stepped over. Return: 0 or -EINVAL. */
static int parse_part(const char **text, const char *end, uint64_t max, uint64_t *ret_number)
{
	const char *stop = strstr(*text, end);
	char digits[24];
	size_t length = stop ? (size_t)(stop - *text) : 0;

	if (!stop || length >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, *text, length);
	digits[length] = '\0';
	*text = stop + strlen(end);
	return rp_number_parse(digits, max, ret_number) ? -EINVAL : 0;
}

/* ^dotnet-diagnostic-(\d+)-(\d+)-socket$ */
static int parse_socket_name(const char *name, pid_t *ret_pid, uint64_t *ret_key)
{
	static const char prefix[] = "dotnet-diagnostic-";
	uint64_t pid, key;

	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return -EINVAL;
	name += sizeof(prefix) - 1;
	if (parse_part(&name, "-", INT_MAX, &pid) ||
	    parse_part(&name, "-socket", UINT64_MAX, &key) || *name)
		return -EINVAL;
	*ret_pid = (pid_t)pid;
	*ret_key = key;
	return 0;
}

static char *read_command_line(pid_t pid)
{
	char buffer[4096];
	ssize_t length = read_proc(pid, "cmdline", buffer, sizeof(buffer));

	if (length < 0)
		length = 0;
	while (length > 0 && buffer[length - 1] == '\0')
		length--;
	for (ssize_t i = 0; i < length; i++) {
		if (buffer[i] == '\0')
			buffer[i] = ' ';
	}
	return strndup(buffer, (size_t)length);
}

/* The kernel cuts names at 15 bytes; the first argument often has the whole one. */
static char *read_name(pid_t pid)
{
	char name[64], argument[4096];
	const char *base;

	if (read_proc(pid, "comm", name, sizeof(name)) <= 0)
		return strdup("?");
	name[strcspn(name, "\n")] = '\0';
	if (strlen(name) == 15 && read_proc(pid, "cmdline", argument, sizeof(argument)) > 0) {
		base = strrchr(argument, '/');
		base = base ? base + 1 : argument;
		if (!strncmp(base, name, 15))
			return strdup(base);
	}
	return strdup(name);
}

static char *read_user(uid_t uid)
{
	const struct passwd *entry = getpwuid(uid);
	char *user = NULL;

	if (entry)
		return strdup(entry->pw_name);
	return asprintf(&user, "%u", uid) < 0 ? NULL : user;
}

void rp_target_fini(struct rp_target *target)
{
	free(target->path);
	free(target->user);
	free(target->name);
	free(target->command_line);
}

void rp_target_list_fini(struct rp_target_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		rp_target_fini(&list->rows[i]);
	free(list->rows);
}

/*
 * Return: 1 with a target; 0 when the file is no socket of a living process, or one that a stranger
 * laid there in its name; -ENOMEM.
 */
static int examine(const char *directory, const char *name, struct rp_target *ret_target)
{
	struct rp_target target = { 0 };
	struct stat socket_stat, process_stat;
	char process[32];
	uint64_t key;

	if (parse_socket_name(name, &target.pid, &key) || target.pid == 0 ||
	    rp_process_start_time(target.pid, &target.start_time) || target.start_time != key)
		return 0;
	if (asprintf(&target.path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	snprintf(process, sizeof(process), "/proc/%d", target.pid);
	if (lstat(target.path, &socket_stat) || stat(process, &process_stat) ||
	    !S_ISSOCK(socket_stat.st_mode) ||
	    (socket_stat.st_uid != process_stat.st_uid && socket_stat.st_uid != 0)) {
		free(target.path);
		return 0;
	}
	target.uid = process_stat.st_uid;
	target.user = read_user(target.uid);
	target.name = read_name(target.pid);
	target.command_line = read_command_line(target.pid);
	if (!target.user || !target.name || !target.command_line) {
		rp_target_fini(&target);
		return -ENOMEM;
	}
	*ret_target = target;
	return 1;
}

static int compare_pids(const void *left, const void *right)
{
	const struct rp_target *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

/* One row for a pid: a key can be written with zeros before it, so names are not unique. */
static void drop_repeated(struct rp_target_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (kept && list->rows[kept - 1].pid == list->rows[i].pid)
			rp_target_fini(&list->rows[i]);
		else
			list->rows[kept++] = list->rows[i];
	}
	list->count = kept;
}

int rp_target_list_scan(struct rp_target_list *ret_list)
{
	const char *directory = rp_target_directory();
	struct rp_target_list list = { 0 };
	DIR *dir = opendir(directory);
	const struct dirent *entry;
	int ret = 0;

	if (!dir)
		return -errno;
	while (ret >= 0 && (entry = readdir(dir))) {
		struct rp_target target, *rows;

		ret = examine(directory, entry->d_name, &target);
		if (ret <= 0)
			continue;
		rows = realloc(list.rows, (list.count + 1) * sizeof(*rows));
		if (!rows) {
			rp_target_fini(&target);
			ret = -ENOMEM;
			break;
		}
		list.rows = rows;
		list.rows[list.count++] = target;
	}
	closedir(dir);
	if (ret < 0) {
		rp_target_list_fini(&list);
		return ret;
	}
	if (list.count)
		qsort(list.rows, list.count, sizeof(*list.rows), compare_pids);
	drop_repeated(&list);
	*ret_list = list;
	return 0;
}

static void explain_missing(pid_t pid, const char *name)
{
	uint64_t start_time;

	if (name)
		rp_tool_error("no process named %s can be traced; ringpipe ps lists those that can",
			      name);
	else if (rp_process_start_time(pid, &start_time))
		rp_tool_error("there is no process %d", pid);
	else
		rp_tool_error("process %d has no diagnostics socket in %s: it does not use "
			      "libringpipe or .NET, has diagnostics turned off, or runs with "
			      "another TMPDIR", pid, rp_target_directory());
}

int rp_target_find(pid_t pid, const char *name, struct rp_target *ret_target)
{
	struct rp_target_list list;
	size_t found = 0, matches = 0;
	int ret = rp_target_list_scan(&list);

	if (ret) {
		rp_tool_error("cannot look for processes in %s: %s", rp_target_directory(),
			      strerror(-ret));
		return ret;
	}
	for (size_t i = 0; i < list.count; i++) {
		if (name ? strcmp(list.rows[i].name, name) : list.rows[i].pid != pid)
			continue;
		found = i;
		matches++;
	}
	if (matches == 1) {
		*ret_target = list.rows[found];
		list.rows[found] = list.rows[--list.count];
	} else if (matches == 0) {
		explain_missing(pid, name);
		ret = -ESRCH;
	} else {
		rp_tool_error("%zu processes are named %s; choose one by -p PID (ringpipe ps "
			      "lists them)", matches, name);
		ret = -ENOTUNIQ;
	}
	rp_target_list_fini(&list);
	return ret;
}
