/* SPDX-License-Identifier: MIT */
/* ringpipe recover: makes traces from the ring files of killed processes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "recover/files.h"
#include "recover/recovery.h"
#include "tools/cli/json.h"
#include "tools/trace/output.h"
#include "tools/cli/rows.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

static int open_directory(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static const char *const state_names[] = {
	[RP_RECOVERY_RUNNING] = "running",
	[RP_RECOVERY_LEFT] = "killed",
	[RP_RECOVERY_EMPTY] = "empty",
};

/* The directory of one session. */
struct found {
	int parent_fd;
	const char *name;
	const char *state;		/* for display */
	bool is_running;
	bool is_bare;			/* the process has not created its first file */
	struct rp_recover_header head;
};

/* PID-START */
static bool is_session_name(const char *name)
{
	size_t pid = strspn(name, "0123456789");
	size_t start = strspn(name + pid + (name[pid] == '-'), "0123456789abcdef");

	return pid && start && name[pid] == '-' && !name[pid + 1 + start];
}

/* Return: whether it is a session's directory; all others are ignored. */
static bool look_at(int parent_fd, const char *name, struct found *ret_found)
{
	struct found found = { .parent_fd = parent_fd, .name = name };
	int fd = is_session_name(name) ? open_directory(parent_fd, name) : -ENOENT, ret;
	enum rp_recovery_state state;

	if (fd < 0)
		return false;
	ret = rp_recovery_look(fd, &state, &found.head);
	close(fd);
	found.is_bare = ret == -ENOENT;
	if (found.is_bare)
		ret = 0, state = RP_RECOVERY_EMPTY;
	found.state = ret == 0 && state == RP_RECOVERY_LEFT && found.head.failed ? "failed" :
		      ret == 0 ? state_names[state] : ret == -EBADMSG ? "damaged" : strerror(-ret);
	/* A session of unknown state is left alone. */
	found.is_running = ret == 0 ? state == RP_RECOVERY_RUNNING : ret != -EBADMSG;
	*ret_found = found;
	return true;
}

static int list_one(const struct found *found, void *data)
{
	struct rp_rows *rows = data;
	char started[RP_TEXT_MAX], exact[RP_TEXT_MAX];

	rp_rows_add_string(rows, found->name);
	rp_rows_add_u64(rows, found->head.process_id);
	rp_rows_add_string(rows, found->head.name);
	rp_rows_add_string(rows, found->state);
	if (found->head.start_utc_ns)
		rp_rows_add(rows, rp_json_string(rp_text_utc_ns(found->head.start_utc_ns, exact)),
			    rp_text_utc(found->head.start_utc_ns, started));
	else
		rp_rows_add_string(rows, NULL);
	rp_rows_add_string(rows, found->head.output);
	return 0;
}

static int prune_one(const struct found *found, void *data)
{
	int ret = 0;

	(void)data;
	/* A process that is about to create its first file creates the directory again. */
	if (found->is_bare)
		ret = unlinkat(found->parent_fd, found->name, AT_REMOVEDIR) == 0 ? 0 : -errno;
	else if (!found->is_running)
		ret = rp_recovery_remove(found->parent_fd, found->name);
	if (ret != 0)
		rp_tool_error("cannot remove %s: %s", found->name, strerror(-ret));
	else if (!found->is_running)
		printf("removed %s (%s)\n", found->name, found->state);
	return ret;
}

/*
 * Calls `act` for every session's directory in `path`, which may be missing. Return: the exit
 * status.
 */
static int for_each(const char *path, int (*act)(const struct found *found, void *data),
		    void *data)
{
	int fd = open_directory(AT_FDCWD, path), status = RP_EXIT_OK;
	struct dirent *entry;
	struct found found;
	DIR *directory;

	if (fd == -ENOENT)
		return RP_EXIT_OK;
	directory = fd < 0 ? NULL : fdopendir(fd);
	if (!directory) {
		rp_tool_error("cannot read %s: %s", path, strerror(fd < 0 ? -fd : errno));
		if (fd >= 0)
			close(fd);
		return RP_EXIT_FAILURE;
	}
	while ((entry = readdir(directory))) {
		if (look_at(fd, entry->d_name, &found) && act(&found, data) != 0)
			status = RP_EXIT_FAILURE;
	}
	closedir(directory);
	return status;
}

static int list(const char *path, enum rp_format format)
{
	static const struct rp_column columns[] = {
		{ .key = "directory", .title = "DIRECTORY" },
		{ .key = "process_id", .title = "PID", .is_right = true },
		{ .key = "session", .title = "SESSION" },
		{ .key = "state", .title = "STATE" },
		{ .key = "start_utc", .title = "STARTED" },
		{ .key = "output", .title = "OUTPUT" },
	};
	struct rp_rows rows;
	int status, printed;

	rp_rows_init(&rows, format, columns, sizeof(columns) / sizeof(columns[0]));
	status = for_each(path, list_one, &rows);
	printed = rp_rows_print(&rows);
	rp_rows_fini(&rows);
	return printed == RP_EXIT_OK ? status : printed;
}

/* Return: a descriptor of the file to which the session wrote; -1: there is no such file. */
static int open_session_output(const struct rp_recover_header *head)
{
	int fd = open(head->output, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat stat;

	if (fd >= 0 && (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool is_same_file(int a, int b)
{
	struct stat one, two;

	return a >= 0 && b >= 0 && fstat(a, &one) == 0 && fstat(b, &two) == 0 &&
	       rp_file_is_same(&one, &two);
}

static int64_t utc_of(const struct rp_recovery_result *result, uint64_t ns)
{
	return (int64_t)((uint64_t)result->start_utc_ns + ns - result->start_ns);
}

static void report_window(const struct rp_recovery_result *result)
{
	char from[RP_TEXT_MAX], to[RP_TEXT_MAX];

	if (!result->has_window)
		return;
	if (result->from_ns == result->to_ns)
		printf("; complete at no time");
	else
		printf("; complete from %s to %s UTC",
		       rp_text_utc(utc_of(result, result->from_ns), from),
		       rp_text_utc(utc_of(result, result->to_ns), to));
}

static void emit(const struct rp_recovery_result *result, const struct rp_recover_header *head,
		 const char *path)
{
	char number[RP_TEXT_MAX];

	printf("%s: %s", path,
	       rp_text_counted(result->before + result->recovered, "event", number));
	printf(", %s of them from the rings", rp_text_count(result->recovered, number));
	printf("; %s lost", rp_text_count(result->lost, number));
	report_window(result);
	putchar('\n');
	fflush(stdout);
	if (!result->has_output)
		rp_tool_error("%s is missing, or the session did not write it: the trace begins "
			      "with the events in the rings", head->output);
	if (result->unknown)
		rp_tool_error("left out %s, because definitions are missing or damaged",
			      rp_text_counted(result->unknown, "event", number));
	if (result->damaged)
		rp_tool_error("left out %s of the rings",
			      rp_text_counted(result->damaged, "damaged part", number));
}

/* rp_output_open() opens files for writing only. */
static int reopen(const struct rp_output *output)
{
	char path[64];
	int fd;

	if (!output->regular)
		return -ESPIPE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", output->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int write_trace(int directory_fd, const struct rp_recover_header *head,
		       struct rp_output *output)
{
	struct rp_recovery_result result;
	struct rp_recovery recovery;
	int from = open_session_output(head), to = -EEXIST, ret;

	if (!is_same_file(from, output->fd))
		to = reopen(output);
	ret = to < 0 ? to : rp_output_begin(output);
	if (ret == 0)
		ret = rp_recovery_read(directory_fd, &recovery);
	if (ret == 0) {
		ret = rp_recovery_write(&recovery, from, to, &result);
		rp_recovery_fini(&recovery);
	}
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	if (ret == 0)
		emit(&result, head, output->path);
	else if (ret == -EEXIST)
		rp_tool_error("%s is the session's own output; choose another file with -o",
			      output->path);
	else
		rp_tool_error("cannot recover into %s: %s", output->path,
			      ret == -EBADMSG ? "the session's files are damaged" :
			      ret == -ESPIPE ? "it is not a regular file" : strerror(-ret));
	return ret;
}

static int recover_into(int directory_fd, const struct rp_recover_header *head,
			const struct rp_tool_options *options)
{
	char *pattern = rp_output_pattern(options->output, head->name, "nettrace");
	char *path = pattern ? rp_text_expand_pid(pattern, (pid_t)head->process_id) : NULL;
	struct rp_output output;
	int status = RP_EXIT_FAILURE;

	free(pattern);
	if (!path)
		rp_tool_error("out of memory");
	else if (rp_output_open(&output, path, options->given & RP_OPTION_FORCE) == 0) {
		if (write_trace(directory_fd, head, &output) != 0)
			rp_output_discard(&output);
		else if (rp_output_close(&output) != 0)
			rp_tool_error("cannot write %s", path);
		else
			status = RP_EXIT_OK;
	}
	free(path);
	return status;
}

static int recover(const char *path, const struct rp_tool_options *options)
{
	enum rp_recovery_state state;
	struct rp_recover_header head;
	int fd = open_directory(AT_FDCWD, path), ret, status = RP_EXIT_FAILURE;

	ret = fd < 0 ? fd : rp_recovery_look(fd, &state, &head);
	if (fd >= 0 && ret == -ENOENT)
		rp_tool_error("%s is not the directory of a session; see ringpipe recover "
			      "--list %s", path, path);
	else if (ret == -EBADMSG)
		rp_tool_error("%s is damaged, or of another version", path);
	else if (ret != 0)
		rp_tool_error("cannot read %s: %s", path, strerror(-ret));
	else if (state == RP_RECOVERY_RUNNING)
		rp_tool_error("%s: its process %u still runs", path, head.process_id);
	else if (state == RP_RECOVERY_EMPTY)
		rp_tool_error("%s: there is nothing to recover", path);
	else
		status = recover_into(fd, &head, options);
	if (fd >= 0)
		close(fd);
	return status;
}

int rp_command_recover(const struct rp_tool_options *options)
{
	const rp_option_set mode = options->given & (RP_OPTION_LIST | RP_OPTION_PRUNE);
	char standard[RP_RECOVERY_PARENT_BYTES];
	const char *path = options->operand_count ? options->operands[0] : NULL;

	if ((options->given & RP_OPTION_FORMAT) && mode != RP_OPTION_LIST) {
		rp_tool_error("recover: --format requires --list");
		return RP_EXIT_USAGE;
	}
	if (!mode && path)
		return recover(path, options);
	if (!mode || mode == (RP_OPTION_LIST | RP_OPTION_PRUNE) ||
	    (options->given & (RP_OPTION_OUTPUT | RP_OPTION_FORCE))) {
		rp_tool_error("recover: requires DIRECTORY, --list or --prune; see ringpipe "
			      "recover --help");
		return RP_EXIT_USAGE;
	}
	/*
	 * The first session creates the default directory; with --prune, a missing one is no error.
	 */
	if (mode == RP_OPTION_LIST && path && access(path, F_OK) != 0) {
		rp_tool_error("cannot read %s: %s", path, strerror(errno));
		return RP_EXIT_FAILURE;
	}
	rp_recovery_default_parent(standard);
	if (!path)
		path = standard;
	return mode == RP_OPTION_LIST ? list(path, options->format) :
					for_each(path, prune_one, NULL);
}
