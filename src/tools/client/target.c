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

#include "tools/client/proc.h"
#include "tools/client/target.h"

const char *rp_target_directory(void)
{
	const char *directory = getenv("TMPDIR");

	return directory && *directory ? directory : "/tmp";
}

/* Parses digits up to `end`, and skips `end`. Return: 0 or -EINVAL. */
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

struct name {
	pid_t pid;
	uint64_t key;
	bool is_async;
};

/* ^(dotnet|ringpipe)-diagnostic-(\d+)-(\d+)-socket$ */
static int parse_socket_name(const char *name, struct name *ret_name)
{
	static const char *const whose[] = { "dotnet", "ringpipe" };
	static const char middle[] = "-diagnostic-";
	uint64_t pid, key;
	size_t i = 0;

	while (i < 2 && strncmp(name, whose[i], strlen(whose[i])) != 0)
		i++;
	if (i == 2)
		return -EINVAL;
	name += strlen(whose[i]);
	if (strncmp(name, middle, sizeof(middle) - 1) != 0)
		return -EINVAL;
	name += sizeof(middle) - 1;
	if (parse_part(&name, "-", INT_MAX, &pid) ||
	    parse_part(&name, "-socket", UINT64_MAX, &key) || *name)
		return -EINVAL;
	*ret_name = (struct name){ (pid_t)pid, key, i == 1 };
	return 0;
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

/* Whether the file is a socket owned by the user of the process. */
static bool is_its_socket(const char *path, const struct rp_proc *process)
{
	struct stat file;

	return lstat(path, &file) == 0 && S_ISSOCK(file.st_mode) &&
	       (file.st_uid == process->uid || file.st_uid == 0);
}

/* Takes ownership of `path`. Return: 1, or -ENOMEM. */
static int fill_target(const struct rp_proc *process, char *path, bool is_async,
		       struct rp_target *ret_target)
{
	struct rp_target target = {
		.pid = process->pid,
		.uid = process->uid,
		.start_time = process->start_time,
		.path = path,
		.is_async = is_async,
		.user = read_user(process->uid),
		.name = rp_proc_name(process->pid),
		.command_line = rp_proc_command_line(process->pid),
	};

	if (!target.user || !target.name || !target.command_line) {
		rp_target_fini(&target);
		return -ENOMEM;
	}
	*ret_target = target;
	return 1;
}

/* Return: 1 with a target; 0 if the file is not the socket of a living process; -ENOMEM. */
static int examine(const char *directory, const char *name, struct rp_target *ret_target)
{
	struct rp_proc process;
	struct name parts;
	char *path;

	if (parse_socket_name(name, &parts) || parts.pid == 0 ||
	    rp_proc_read(parts.pid, &process) || !rp_proc_sees_start(&process, parts.key))
		return 0;
	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	if (is_its_socket(path, &process))
		return fill_target(&process, path, parts.is_async, ret_target);
	free(path);
	return 0;
}

/*
 * Finds the socket in the folder of the process, by the pid that the process itself sees. In
 * another time namespace, the start time in the socket's name differs from the one that this
 * process reads. The function then takes the newest socket, as .NET's tools do. The caller checks
 * who listens before it sends anything. Return: the path, for free(), or NULL.
 */
static char *find_socket(const char *directory, const struct rp_proc *process,
			 bool is_async)
{
	DIR *dir = opendir(directory);
	struct timespec newest = { 0, 0 };
	const struct dirent *entry;
	char *found = NULL;

	while (dir && (entry = readdir(dir))) {
		struct stat file;
		struct name parts;
		char *path;

		if (parse_socket_name(entry->d_name, &parts) || parts.is_async != is_async ||
		    parts.pid != process->inner_pid ||
		    (parts.pid == process->pid && !rp_proc_sees_start(process, parts.key)) ||
		    fstatat(dirfd(dir), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) ||
		    file.st_mtim.tv_sec < newest.tv_sec ||
		    (file.st_mtim.tv_sec == newest.tv_sec &&
		     file.st_mtim.tv_nsec < newest.tv_nsec) ||
		    asprintf(&path, "%s/%s", directory, entry->d_name) < 0)
			continue;
		if (!is_its_socket(path, process)) {
			free(path);
			continue;
		}
		free(found);
		found = path;
		newest = file.st_mtim;
	}
	if (dir)
		closedir(dir);
	return found;
}

/*
 * Converts a path of the process for use in this process. Return: for free(), or NULL without
 * memory.
 */
static char *seen_from_here(const struct rp_proc *process, const char *inside)
{
	const bool is_absolute = *inside == '/';
	char *path;

	if (is_absolute && !rp_proc_is_apart(process))
		return strdup(inside);
	return asprintf(&path, "/proc/%d/%s/%s", process->pid, is_absolute ? "root" : "cwd",
			inside + strspn(inside, "/")) < 0 ? NULL : path;
}

/*
 * Looks, through the process's root, in the folder that its own environment names: it has another
 * mount namespace (a container, systemd's PrivateTmp), a chroot, or only another TMPDIR.
 * Return: as examine().
 */
static int examine_inside(const struct rp_proc *process, char *inside, bool is_async,
			  struct rp_target *ret_target)
{
	char *directory, *path;
	size_t length = strlen(inside);

	while (length > 1 && inside[length - 1] == '/')
		inside[--length] = '\0';
	directory = seen_from_here(process, inside);
	path = directory ? find_socket(directory, process, is_async) : NULL;
	free(directory);
	return path ? fill_target(process, path, is_async, ret_target) : 0;
}

static int compare_pids(const void *left, const void *right)
{
	const struct rp_target *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static int compare_targets(const void *left, const void *right)
{
	const struct rp_target *a = left, *b = right;
	int order = compare_pids(a, b);

	return order ? order : b->is_async - a->is_async;
}

/*
 * Keeps one row for a pid and a kind: keys may have leading zeros, so one process can have two
 * names.
 */
static void drop_repeated(struct rp_target_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (kept && compare_targets(&list->rows[kept - 1], &list->rows[i]) == 0)
			rp_target_fini(&list->rows[i]);
		else
			list->rows[kept++] = list->rows[i];
	}
	list->count = kept;
}

/* Return: 0 or -ENOMEM, after which the target is freed. */
static int add_target(struct rp_target_list *list, struct rp_target *target)
{
	struct rp_target *rows = realloc(list->rows, (list->count + 1) * sizeof(*rows));

	if (!rows) {
		rp_target_fini(target);
		return -ENOMEM;
	}
	list->rows = rows;
	list->rows[list->count++] = *target;
	return 0;
}

static void sort(struct rp_target_list *list)
{
	if (list->count)
		qsort(list->rows, list->count, sizeof(*list->rows), compare_targets);
	drop_repeated(list);
}

pid_t rp_target_socket_pid(const char *name, bool *ret_is_async)
{
	struct name parsed;

	if (parse_socket_name(name, &parsed))
		return 0;
	*ret_is_async = parsed.is_async;
	return parsed.pid;
}

/*
 * Adds the targets named by the sockets in this process's folder. The folder of an ended login may
 * be missing: the sockets of other folders are then found all the same.
 */
static int scan_directory(struct rp_target_list *list)
{
	const char *directory = rp_target_directory();
	DIR *dir = opendir(directory);
	const struct dirent *entry;
	int ret = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (ret >= 0 && (entry = readdir(dir))) {
		struct rp_target target;

		ret = examine(directory, entry->d_name, &target);
		if (ret > 0)
			ret = add_target(list, &target);
	}
	closedir(dir);
	sort(list);
	return ret < 0 ? ret : 0;
}

static bool is_listed(const struct rp_target_list *list, size_t count, pid_t pid)
{
	const struct rp_target key = { .pid = pid };

	return count && bsearch(&key, list->rows, count, sizeof(key), compare_pids);
}

/* Which processes a scan of all of /proc adds. */
enum scan_scope {
	APART,			/* those with another root or namespace */
	EVERYWHERE,		/* those with another TMPDIR too, or a socket elsewhere */
};

/* Return: the folder of a process that the scan adds, for free(); otherwise NULL. */
static char *find_folder(const struct rp_proc *process, enum scan_scope scope)
{
	const bool is_apart = rp_proc_is_apart(process);
	char *directory;

	if ((!is_apart && scope == APART) || rp_proc_directory(process->pid, &directory) < 0)
		return NULL;
	if (is_apart || strcmp(directory, rp_target_directory()) != 0)
		return directory;
	free(directory);
	return NULL;
}

/* Adds the processes that their own environments lead to. */
static int scan_processes(struct rp_target_list *list, enum scan_scope scope)
{
	const size_t sorted = list->count;
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	int ret = 0;

	while (dir && ret >= 0 && (entry = readdir(dir))) {
		struct rp_target target;
		struct rp_proc process;
		char *folder;
		uint64_t pid;

		if (rp_number_parse(entry->d_name, INT_MAX, &pid) ||
		    is_listed(list, sorted, (pid_t)pid) || rp_proc_read((pid_t)pid, &process))
			continue;
		folder = find_folder(&process, scope);
		for (int own_name = 1; folder && ret >= 0 && own_name >= 0; own_name--) {
			ret = examine_inside(&process, folder, own_name, &target);
			if (ret > 0)
				ret = add_target(list, &target);
		}
		free(folder);
	}
	if (dir)
		closedir(dir);
	sort(list);
	return ret < 0 ? ret : 0;
}

struct bound_scan {
	struct rp_target_list *list;
	size_t sorted;			/* rows that the list had before the scan */
	pid_t pid;			/* the only process to add; 0: all */
};

/* Return: 0 or -ENOMEM. */
static int add_bound(const char *path, void *data)
{
	const char *name = strrchr(path, '/') + 1;
	struct bound_scan *scan = data;
	struct rp_target target;
	struct name parts;
	char *directory;
	int ret;

	if (parse_socket_name(name, &parts) || (scan->pid && scan->pid != parts.pid) ||
	    is_listed(scan->list, scan->sorted, parts.pid))
		return 0;
	directory = strndup(path, (size_t)(name - path) - (name - path > 1));
	ret = directory ? examine(directory, name, &target) : -ENOMEM;
	free(directory);
	return ret > 0 ? add_target(scan->list, &target) : ret;
}

/* Adds the sockets that the kernel lists, independently of environments. */
static int scan_bound(struct rp_target_list *list, pid_t pid)
{
	struct bound_scan scan = { .list = list, .sorted = list->count, .pid = pid };
	int ret = rp_proc_sockets(pid, add_bound, &scan);

	sort(list);
	return ret;
}

static int scan(enum scan_scope scope, struct rp_target_list *ret_list)
{
	struct rp_target_list list = { 0 };
	int ret = scan_directory(&list);

	if (!ret)
		ret = scan_processes(&list, scope);
	if (!ret && scope == EVERYWHERE)
		ret = scan_bound(&list, 0);
	if (ret) {
		rp_target_list_fini(&list);
		return ret;
	}
	*ret_list = list;
	return 0;
}

int rp_target_list_scan(struct rp_target_list *ret_list)
{
	return scan(EVERYWHERE, ret_list);
}

static void explain_missing(const struct rp_proc *process)
{
	const enum rp_proc_code code = rp_proc_code(process->pid);
	char *directory = NULL;
	int ret = rp_proc_directory(process->pid, &directory);

	if (ret == -ESRCH || code == RP_PROC_NO_MEMORY)
		rp_tool_error("process %d has no diagnostics socket: it is a kernel thread, or its "
			      "main thread has ended", process->pid);
	else if (ret < 0)
		rp_tool_error("process %d has no diagnostics socket in %s or /proc/net/unix, and "
			      "its TMPDIR cannot be read (/proc/%d/environ: %s)", process->pid,
			      rp_target_directory(), process->pid, strerror(-ret));
	else if (code == RP_PROC_OTHER)
		rp_tool_error("process %d has no diagnostics socket: neither libringpipe.so nor "
			      ".NET is loaded there; if one of them is linked statically, its "
			      "diagnostics are disabled or failed to start", process->pid);
	else
		rp_tool_error("process %d has no diagnostics socket in %s: its diagnostics "
			      "are disabled, its socket was removed, it is starting or ending, "
			      "or it could not create a socket there (the directory is missing "
			      "or read-only, or its name is too long)", process->pid, directory);
	free(directory);
}

/* Looks in this process's folder. Return: as examine(). */
static int look_here(const struct rp_proc *process, bool is_async, struct rp_target *ret_target)
{
	char name[96];

	snprintf(name, sizeof(name), "%s-diagnostic-%d-%llu-socket",
		 is_async ? "ringpipe" : "dotnet", process->pid,
		 (unsigned long long)process->start_time);
	return examine(rp_target_directory(), name, ret_target);
}

/* Moves the first row of the process out of the list. Return: 1 with a target; 0: it has no row. */
static int take_row(struct rp_target_list *list, pid_t pid, struct rp_target *ret_target)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->rows[i].pid != pid)
			continue;
		*ret_target = list->rows[i];
		list->rows[i] = list->rows[--list->count];
		return 1;
	}
	return 0;
}

/* Looks in the kernel's list. */
static int find_bound(pid_t pid, struct rp_target *ret_target)
{
	struct rp_target_list list = { 0 };
	int ret = scan_bound(&list, pid);

	if (ret == 0)
		ret = take_row(&list, pid, ret_target);
	rp_target_list_fini(&list);
	return ret;
}

/* Looks for sockets of each kind from `first` to `last`; a kind is whether it is .NET's. */
static int look(pid_t pid, int first, int last, struct rp_target *ret_target)
{
	struct rp_proc process;
	char *inside = NULL;
	int ret = 0, found = 0;

	if (rp_proc_read(pid, &process))
		return 0;
	for (int kind = first; ret == 0 && kind <= last; kind++)
		ret = look_here(&process, !kind, ret_target);
	if (ret == 0)
		found = rp_proc_directory(pid, &inside);
	for (int kind = first; inside && ret == 0 && kind <= last; kind++)
		ret = examine_inside(&process, inside, !kind, ret_target);
	free(inside);
	/* The kernel's list is long, so only a process that names no folder is looked for there. */
	return ret == 0 && found == 1 && first < last ? find_bound(pid, ret_target) : ret;
}

int rp_target_look(pid_t pid, struct rp_target *ret_target)
{
	return look(pid, 0, 1, ret_target);
}

int rp_target_look_kind(pid_t pid, bool is_async, struct rp_target *ret_target)
{
	return look(pid, !is_async, !is_async, ret_target);
}

/*
 * Looks in this process's folder, then in the folder that the process names, then in the kernel's
 * list.
 */
static int find_pid(pid_t pid, struct rp_target *ret_target)
{
	struct rp_target_list list = { 0 };
	struct rp_proc process;
	char *inside = NULL;
	int ret;

	if (rp_proc_read(pid, &process)) {
		rp_tool_error("there is no process %d", pid);
		return -ESRCH;
	}
	(void)scan_directory(&list);
	ret = take_row(&list, pid, ret_target);
	if (ret == 0)
		(void)rp_proc_directory(pid, &inside);
	for (int own_name = 1; inside && ret == 0 && own_name >= 0; own_name--)
		ret = examine_inside(&process, inside, own_name, ret_target);
	free(inside);
	rp_target_list_fini(&list);
	if (ret == 0)
		ret = find_bound(pid, ret_target);
	if (ret == 0)
		explain_missing(&process);
	else if (ret < 0)
		rp_tool_error("out of memory");
	return ret == 0 ? -ESRCH : ret < 0 ? ret : 0;
}

/* Return: how many processes have the name; `ret_row` is the first row of the last one. */
static size_t count_name(const struct rp_target_list *list, const char *name, size_t *ret_row)
{
	size_t matches = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->rows[i].name, name) ||
		    (matches && list->rows[*ret_row].pid == list->rows[i].pid))
			continue;
		*ret_row = i;
		matches++;
	}
	return matches;
}

/* Prefers processes that share this process's TMPDIR. */
static int find_name(const char *name, struct rp_target *ret_target)
{
	struct rp_target_list list = { 0 };
	size_t row = 0, matches = 0;
	int ret = scan(APART, &list);

	if (ret == 0)
		matches = count_name(&list, name, &row);
	if (ret == 0 && matches == 0) {
		rp_target_list_fini(&list);
		list = (struct rp_target_list){ 0 };
		ret = scan(EVERYWHERE, &list);
		matches = ret == 0 ? count_name(&list, name, &row) : 0;
	}
	if (ret) {
		rp_tool_error("cannot look for processes in %s: %s", rp_target_directory(),
			      strerror(-ret));
	} else if (matches == 1) {
		*ret_target = list.rows[row];
		list.rows[row] = list.rows[--list.count];
	} else if (matches == 0) {
		rp_tool_error("no process named %s can be traced; ringpipe ps lists those that can",
			      name);
		ret = -ESRCH;
	} else {
		rp_tool_error("%zu processes are named %s; choose one by -p PID (ringpipe ps "
			      "lists them)", matches, name);
		ret = -ENOTUNIQ;
	}
	rp_target_list_fini(&list);
	return ret;
}

int rp_target_find(pid_t pid, const char *name, struct rp_target *ret_target)
{
	return name ? find_name(name, ret_target) : find_pid(pid, ret_target);
}
