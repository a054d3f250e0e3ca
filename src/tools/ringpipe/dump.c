/* SPDX-License-Identifier: MIT */
/*
 * ringpipe dump: requests a core of a process, which the library's helper in that process writes.
 * While the process is stopped, the helper reports the progress. ringpipe's own command 0x52/0x04
 * answers with an OK reply, then frames of 48 bytes {u32 state (1 under way, 2 done, 3 failed), u32
 * HRESULT, u32 threads, u32 threads not stopped, u64 memory done, u64 total memory, u64 file bytes,
 * u64 pause in ns}. A string follows the last frame. .NET runtimes have the commands 0x01/0x01 to
 * 0x01/0x03, which send a single reply.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "ipc/command_ids.h"
#include "tools/client/exchange.h"
#include "tools/trace/output.h"
#include "tools/client/proc.h"
#include "tools/cli/rows.h"
#include "tools/cli/status_line.h"
#include "tools/client/target.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

#define FRAME_BYTES 48u
#define STATE_RUNS 1u
#define STATE_DONE 2u
/* Limit for the line of text after the last frame. */
#define REASON_BYTES_MAX 4096u

/* Tried in this order, until the process knows the command. */
static const struct {
	uint8_t set;
	uint8_t id;
} dump_commands[] = {
	{ RP_MESSAGE_RINGPIPE, RP_OWN_DUMP },
	{ RP_MESSAGE_DUMP, RP_DUMP_3 },
	{ RP_MESSAGE_DUMP, RP_DUMP_2 },
	{ RP_MESSAGE_DUMP, RP_DUMP_1 },
};

#define DUMP_COMMANDS (sizeof(dump_commands) / sizeof(dump_commands[0]))

struct result {
	uint32_t state;
	uint32_t threads;
	uint32_t running;
	uint64_t done_bytes;
	uint64_t total_bytes;
	uint64_t file_bytes;
	uint64_t pause_ns;		/* 0: unknown, as with .NET */
};

struct dump {
	const struct rp_tool_options *options;
	struct rp_target target;
	char *path;			/* absolute, as the process sees it */
	char *seen;			/* the same file as `ringpipe` sees it */
	bool live;			/* draw a progress line */
	struct result result;
};

static void show_progress(const struct dump *dump)
{
	const struct result *result = &dump->result;
	char total[RP_TEXT_MAX];

	if (dump->live && result->total_bytes)
		rp_status_line_show("%3.0f %% of %s",
				    100.0 * (double)result->done_bytes /
				    (double)result->total_bytes,
				    rp_text_bytes(result->total_bytes, total));
}

static void end_progress(const struct dump *dump)
{
	if (dump->live)
		rp_status_line_clear();
}

/* Return: up to `size` bytes, fewer only at the end of the connection; -errno. */
static ssize_t receive(int fd, void *bytes, size_t size)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = recv(fd, (uint8_t *)bytes + got, size - got, 0);
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		if (n == 0)
			break;
		if (n > 0)
			got += (size_t)n;
		else if (errno == EAGAIN)
			poll(&wait, 1, -1);
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)got;
}

static void get_frame(struct rp_cursor *cursor, struct result *ret_result)
{
	ret_result->state = rp_cursor_get_u32(cursor);
	rp_cursor_skip(cursor, 4);
	ret_result->threads = rp_cursor_get_u32(cursor);
	ret_result->running = rp_cursor_get_u32(cursor);
	ret_result->done_bytes = rp_cursor_get_u64(cursor);
	ret_result->total_bytes = rp_cursor_get_u64(cursor);
	ret_result->file_bytes = rp_cursor_get_u64(cursor);
	ret_result->pause_ns = rp_cursor_get_u64(cursor);
}

static void explain(const struct dump *dump, struct rp_cursor *reason)
{
	char *text = rp_message_take_string(reason);

	rp_tool_error("cannot dump process %d: %s", dump->target.pid,
		      text ? text : "it gives no reason");
	free(text);
}

/*
 * Reads frames up to the last. Return: 0; -EREMOTEIO, reported; -EPROTO, -ECONNRESET: not reported.
 */
static int follow(struct dump *dump, int fd)
{
	uint8_t bytes[FRAME_BYTES], reason[REASON_BYTES_MAX];
	struct rp_cursor cursor;
	ssize_t n;

	do {
		n = receive(fd, bytes, sizeof(bytes));
		if (n < (ssize_t)sizeof(bytes))
			return n < 0 ? (int)n : -ECONNRESET;
		cursor = rp_cursor_over(bytes, sizeof(bytes));
		get_frame(&cursor, &dump->result);
		show_progress(dump);
	} while (dump->result.state == STATE_RUNS);
	end_progress(dump);
	if (dump->result.state == STATE_DONE)
		return 0;
	n = receive(fd, reason, sizeof(reason));
	cursor = rp_cursor_over(reason, n > 0 ? (size_t)n : 0);
	explain(dump, &cursor);
	return -EREMOTEIO;
}

/* Return: 0; -EAGAIN if the process does not know the command; other -errno, after reporting it. */
static int try_command(struct dump *dump, size_t command)
{
	static struct rp_message_buffer request;
	struct rp_exchange exchange;
	bool follows = dump_commands[command].set == RP_MESSAGE_RINGPIPE;
	int ret;

	rp_message_begin(&request, dump_commands[command].set, dump_commands[command].id);
	rp_message_put_string(&request, dump->path);
	rp_message_put_u32(&request, dump->options->dump_type);
	rp_message_put_u32(&request, 0);
	rp_message_end(&request);
	ret = rp_exchange_begin(&exchange, &dump->target, &request);
	if (!ret)
		ret = rp_exchange_run(&exchange, follows ? 5000 : INT_MAX);
	if (rp_exchange_unknown_command(&exchange, ret) && command + 1 < DUMP_COMMANDS) {
		ret = -EAGAIN;
	} else if (ret) {
		rp_exchange_explain(&exchange, "dump", ret);
	} else if (follows) {
		ret = follow(dump, exchange.fd);
		if (ret && ret != -EREMOTEIO)
			rp_exchange_explain(&exchange, "dump", ret);
	}
	rp_exchange_end(&exchange);
	return ret;
}

/* Prints no row for text, which has its line on standard error. */
static void print_row(const struct dump *dump, enum rp_format format)
{
	static const struct rp_column columns[] = {
		{ .key = "file" }, { .key = "bytes" },
		{ .key = "threads", .is_optional = true },
		{ .key = "threads_not_stopped", .is_optional = true },
		{ .key = "pause_ns", .is_optional = true },
	};
	const struct result *result = &dump->result;
	const bool is_known = result->pause_ns;
	struct rp_rows rows;

	rp_rows_init_live(&rows, format, columns, sizeof(columns) / sizeof(columns[0]), stdout);
	rp_rows_add_string(&rows, dump->seen);
	rp_rows_add_u64(&rows, result->file_bytes);
	rp_rows_add(&rows, is_known ? json_object_new_int64(result->threads) : NULL, NULL);
	rp_rows_add(&rows, is_known ? json_object_new_int64(result->running) : NULL, NULL);
	rp_rows_add(&rows, is_known ? json_object_new_uint64(result->pause_ns) : NULL, NULL);
	rp_rows_fini(&rows);
}

static int print_result(const struct dump *dump)
{
	const struct result *result = &dump->result;
	char bytes[RP_TEXT_MAX], threads[RP_TEXT_MAX];

	if (dump->options->format != RP_FORMAT_TEXT)
		print_row(dump, dump->options->format);
	if (dump->options->format != RP_FORMAT_TEXT || dump->options->given & RP_OPTION_QUIET)
		return RP_EXIT_OK;
	fprintf(stderr, "%s: %s", dump->seen, rp_text_bytes(result->file_bytes, bytes));
	if (result->pause_ns)
		fprintf(stderr, ", %s; the process was stopped for %.1f ms",
			rp_text_counted(result->threads, "thread", threads),
			(double)result->pause_ns / 1e6);
	fputc('\n', stderr);
	if (result->running)
		rp_tool_error("%u of the threads could not be stopped; their registers are missing",
			      result->running);
	return RP_EXIT_OK;
}

/*
 * The process has a different working directory. Return: the path for free(); NULL, after an error
 * line.
 */
static char *absolute_path(const struct rp_tool_options *options, const struct rp_target *target)
{
	char *pattern = rp_output_pattern(options->output, target->name, "core");
	char *given = pattern ? rp_text_expand_pid(pattern, target->pid) : NULL;
	char *folder = given && *given != '/' ? getcwd(NULL, 0) : NULL, *path = NULL;

	if (given && *given == '/')
		path = strdup(given);
	else if (folder && asprintf(&path, "%s/%s", folder, given) < 0)
		path = NULL;
	if (!path)
		rp_tool_error("cannot make a file name: %s", strerror(errno));
	free(folder);
	free(given);
	free(pattern);
	return path;
}

/* A process in a container has a different file system. Return: as absolute_path(). */
static char *path_from_here(const struct dump *dump)
{
	struct rp_proc process;
	char *seen;

	if (rp_proc_read(dump->target.pid, &process) || !rp_proc_is_apart(&process))
		seen = strdup(dump->path);
	else if (asprintf(&seen, "/proc/%d/root%s", dump->target.pid, dump->path) < 0)
		seen = NULL;
	if (!seen)
		rp_tool_error("cannot make a file name: %s", strerror(errno));
	return seen;
}

static int run(struct dump *dump)
{
	struct stat file;
	size_t command = 0;
	int ret;

	if (!(dump->options->given & RP_OPTION_FORCE) && lstat(dump->seen, &file) == 0) {
		rp_tool_error("%s exists already; choose another file by -o, or give --force",
			      dump->seen);
		return RP_EXIT_FAILURE;
	}
	do {
		ret = try_command(dump, command++);
	} while (ret == -EAGAIN);
	if (ret)
		return RP_EXIT_FAILURE;
	if (dump->result.file_bytes == 0 && stat(dump->seen, &file) == 0)
		dump->result.file_bytes = (uint64_t)file.st_size;
	return print_result(dump);
}

int rp_command_dump(const struct rp_tool_options *options)
{
	struct dump dump = { .options = options };
	int status = RP_EXIT_FAILURE;

	if (rp_target_find(options->pid, options->name, &dump.target))
		return RP_EXIT_FAILURE;
	dump.live = isatty(STDERR_FILENO) && !(options->given & RP_OPTION_QUIET);
	dump.path = absolute_path(options, &dump.target);
	dump.seen = dump.path ? path_from_here(&dump) : NULL;
	if (dump.seen)
		status = run(&dump);
	free(dump.seen);
	free(dump.path);
	rp_target_fini(&dump.target);
	return status;
}
