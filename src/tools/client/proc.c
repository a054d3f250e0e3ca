/* SPDX-License-Identifier: MIT */
#include "tools/client/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time_namespace.h"

/* Reads the beginning of a file of /proc and appends a NUL. Return: bytes read, or -errno. */
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

/* Reads a number after the third field of /proc/PID/stat. Return: 0 or -ESRCH. */
static int read_stat(pid_t pid, int wanted, uint64_t *ret_number)
{
	char stat[1024];
	const char *at;

	if (read_proc(pid, "stat", stat, sizeof(stat)) <= 0)
		return -ESRCH;
	/*
	 * The name, field 2, may contain blanks and parentheses: search for its end from the right.
	 */
	at = strrchr(stat, ')');
	for (int field = 2; at && field < wanted; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, " %" SCNu64, ret_number) != 1)
		return -ESRCH;
	return 0;
}

static FILE *open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

/*
 * Read the last id of the row "NSpid:", which lists one per namespace, from this process's to the
 * innermost. The row before it has the groups, up to 65,536 of them. Return: `otherwise` if there
 * is no such row; -ESRCH.
 */
static pid_t read_inner_id(pid_t pid, const char *status, pid_t otherwise)
{
	FILE *file = open_proc(pid, status);
	pid_t inner = otherwise;
	char *row = NULL;
	size_t space = 0;

	if (!file)
		return -ESRCH;
	while (getline(&row, &space, file) > 0) {
		if (strncmp(row, "NSpid:\t", 7) != 0)
			continue;
		inner = (pid_t)strtol(strrchr(row, '\t') + 1, NULL, 10);
		break;
	}
	free(row);
	fclose(file);
	return inner;
}

int rp_proc_threads(pid_t pid, int (*visit)(uint64_t inner, pid_t id, void *data), void *data)
{
	const struct dirent *entry;
	char path[300];
	int ret = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while (ret == 0 && (entry = readdir(dir))) {
		const pid_t id = (pid_t)strtol(entry->d_name, NULL, 10);
		pid_t inner;

		if (id <= 0)
			continue;
		snprintf(path, sizeof(path), "task/%d/status", id);
		inner = read_inner_id(pid, path, id);
		if (inner > 0)
			ret = visit((uint64_t)inner, id, data);
	}
	closedir(dir);
	return ret;
}

int rp_proc_read(pid_t pid, struct rp_proc *ret_proc)
{
	struct rp_proc process = { .pid = pid, .inner_pid = pid };
	const char *user;
	char status[4096];

	if (read_stat(pid, 22, &process.start_time) ||
	    read_proc(pid, "status", status, sizeof(status)) <= 0)
		return -ESRCH;
	/* The folder's owner is no substitute: it is root for a process that may not be dumped. */
	user = strstr(status, "\nUid:\t");
	if (!user || sscanf(user, "\nUid: %*u %u", &process.uid) != 1)
		return -ESRCH;
	process.inner_pid = read_inner_id(pid, "status", pid);
	if (process.inner_pid < 0)
		return -ESRCH;
	*ret_proc = process;
	return 0;
}

bool rp_proc_exists(pid_t pid, uint64_t start_time)
{
	struct rp_proc process;

	return rp_proc_read(pid, &process) == 0 && process.start_time == start_time;
}

bool rp_proc_runs(pid_t pid, uint64_t start_time)
{
	char path[64], program[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return rp_proc_exists(pid, start_time) &&
	       (readlink(path, program, sizeof(program)) >= 0 || errno != ENOENT);
}

bool rp_proc_sees_start(const struct rp_proc *process, uint64_t start_time)
{
	int64_t ahead_ns;
	uint64_t ahead;

	if (start_time == process->start_time)
		return true;
	ahead_ns = rp_time_namespace_read(process->pid, "boottime") -
		   rp_time_namespace_read(getpid(), "boottime");
	ahead = (uint64_t)(ahead_ns / (1000000000 / sysconf(_SC_CLK_TCK)));
	/* Each of the two times may be rounded. */
	return ahead && start_time - (process->start_time + ahead) + 1 <= 2;
}

/* Whether a line "ID:CONTROLLERS:PATH" of /proc/PID/cgroup has the path, or one below it. */
static bool is_line_in(const char *line, const char *cgroup)
{
	const size_t length = strlen(cgroup), end = strcspn(line, "\n");
	const char *path = memchr(line, ':', end);

	path = path ? memchr(path + 1, ':', end - (size_t)(path + 1 - line)) : NULL;
	if (!path)
		return false;
	path++;
	return strncmp(path, cgroup, length) == 0 &&
	       (strchr("/\n", path[length]) != NULL || cgroup[length - 1] == '/');
}

/* Return: 1; 0; -ESRCH. */
static int is_in_cgroup(pid_t pid, const char *cgroup)
{
	char text[4096];

	if (read_proc(pid, "cgroup", text, sizeof(text)) <= 0)
		return -ESRCH;
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (is_line_in(line, cgroup))
			return 1;
	return 0;
}

int rp_proc_matches(pid_t pid, const struct rp_proc_filter *filter)
{
	struct rp_proc process;

	if (filter->by_user) {
		if (rp_proc_read(pid, &process) < 0)
			return -ESRCH;
		if (process.uid != filter->user)
			return 0;
	}
	return filter->cgroup ? is_in_cgroup(pid, filter->cgroup) : 1;
}

static bool is_root(pid_t pid, const struct rp_proc *root)
{
	uint64_t start_time;

	return pid == root->pid && read_stat(pid, 22, &start_time) == 0 &&
	       start_time == root->start_time;
}

bool rp_proc_descends(pid_t pid, const struct rp_proc_roots *roots)
{
	/* An ended parent is replaced by one of its own ancestors, so this loop ends. */
	while (roots->count && pid > 0) {
		for (size_t i = 0; i < roots->count; i++) {
			if (is_root(pid, &roots->processes[i]))
				return true;
		}
		if (rp_proc_parent(pid, &pid) < 0)
			return false;
	}
	return roots->count == 0;
}

/* Visits the children that one thread created: "PID PID …". */
static int thread_children(const char *path, int (*child)(pid_t pid, void *data), void *data)
{
	FILE *file = fopen(path, "re");
	int ret = 0, pid;

	if (!file)
		return 0;
	while (ret == 0 && fscanf(file, "%d", &pid) == 1)
		ret = child(pid, data);
	fclose(file);
	return ret;
}

int rp_proc_children(pid_t pid, int (*child)(pid_t pid, void *data), void *data)
{
	const struct dirent *entry;
	char path[300];
	int ret = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && ret == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, entry->d_name);
		ret = thread_children(path, child, data);
	}
	if (dir)
		closedir(dir);
	return ret;
}

int rp_proc_parent(pid_t pid, pid_t *ret_parent)
{
	uint64_t parent;
	int ret = read_stat(pid, 4, &parent);

	if (ret == 0)
		*ret_parent = (pid_t)parent;
	return ret;
}

bool rp_proc_is_apart(const struct rp_proc *process)
{
	char path[64], own[64], its[64];
	struct stat own_root, its_root;
	ssize_t own_length, its_length;

	snprintf(path, sizeof(path), "/proc/%d/root/", process->pid);
	if (stat(path, &its_root) || stat("/", &own_root))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", process->pid);
	own_length = readlink("/proc/self/ns/mnt", own, sizeof(own));
	its_length = readlink(path, its, sizeof(its));
	return process->inner_pid != process->pid || own_root.st_dev != its_root.st_dev ||
	       own_root.st_ino != its_root.st_ino || its_length != own_length ||
	       (own_length > 0 && memcmp(own, its, (size_t)own_length));
}

int rp_proc_directory(pid_t pid, char **ret_directory)
{
	FILE *file = open_proc(pid, "environ");
	char *row = NULL, *directory = NULL;
	const char *found = "/tmp";
	bool has_text = false, has_variable = false;
	size_t space = 0;
	int error;

	if (!file)
		return -errno;
	errno = 0;
	while (getdelim(&row, &space, '\0', file) > 0) {
		has_text = true;
		has_variable |= strchr(row, '=') != NULL;
		if (!strncmp(row, "TMPDIR=", 7) && row[7]) {
			found = row + 7;
			break;
		}
	}
	error = ferror(file) ? errno : 0;
	directory = error ? NULL : strdup(found);
	free(row);
	fclose(file);
	if (!directory)
		return error ? -error : -ENOMEM;
	*ret_directory = directory;
	return has_text && !has_variable;
}

enum rp_proc_code rp_proc_code(pid_t pid)
{
	FILE *file = open_proc(pid, "maps");
	enum rp_proc_code code = RP_PROC_NO_MEMORY;
	char *row = NULL;
	size_t space = 0;

	if (!file)
		return RP_PROC_UNKNOWN;
	while (code != RP_PROC_TRACEABLE && getline(&row, &space, file) > 0)
		code = strstr(row, "/libringpipe.so") || strstr(row, "/libcoreclr.so") ?
		       RP_PROC_TRACEABLE : RP_PROC_OTHER;
	if (ferror(file))
		code = RP_PROC_UNKNOWN;
	free(row);
	fclose(file);
	return code;
}

int rp_proc_sockets(pid_t pid, int (*visit)(const char *path, void *data), void *data)
{
	FILE *file = pid ? open_proc(pid, "net/unix") : NULL;
	char *row = NULL;
	size_t space = 0;
	int ret = 0;

	if (!file)
		file = fopen("/proc/net/unix", "re");
	while (file && ret == 0 && getline(&row, &space, file) > 0) {
		/* Seven columns precede the path, which may contain blanks. */
		int at = 0;

		(void)sscanf(row, "%*s %*s %*s %*s %*s %*s %*s %n", &at);
		row[strcspn(row, "\n")] = '\0';
		if (at > 0 && row[at] == '/')
			ret = visit(row + at, data);
	}
	free(row);
	if (file)
		fclose(file);
	return ret;
}

char *rp_proc_command_line(pid_t pid)
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

/* The kernel cuts names at 15 bytes; the first argument often has the full name. */
char *rp_proc_name(pid_t pid)
{
	char name[64], argument[4096];
	const char *base;
	ssize_t length = read_proc(pid, "comm", name, sizeof(name));

	if (length <= 0)
		return strdup("?");
	/* The name itself may have newlines. */
	if (name[length - 1] == '\n')
		name[length - 1] = '\0';
	if (strlen(name) == 15 && read_proc(pid, "cmdline", argument, sizeof(argument)) > 0) {
		base = strrchr(argument, '/');
		base = base ? base + 1 : argument;
		if (!strncmp(base, name, 15))
			return strdup(base);
	}
	return strdup(name);
}
