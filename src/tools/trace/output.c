/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "tools/trace/output.h"
#include "tools/cli/display_text.h"
#include "tools/cli/signals.h"
#include "tools/cli/tool.h"

/* How long a full pipe delays the end of a session, and how long a filter does. */
#define STOP_MS 2000
#define STOP_FILTER_MS 20000

char *rp_output_pattern(const char *given, const char *name, const char *suffix)
{
	char when[32], safe[64], *pattern = NULL, *clean;
	time_t now = time(NULL);
	struct tm parts;
	size_t i;

	if (given)
		return strdup(given);
	clean = rp_text_clean(name, true);
	if (!clean)
		return NULL;
	for (i = 0; clean[i] && i < sizeof(safe) - 1; i++)
		safe[i] = strchr("/ {}", clean[i]) ? '_' : clean[i];
	safe[i] = '\0';
	free(clean);
	/* A later command would read a name that begins with a dash as an option. */
	if (safe[0] == '-' || safe[0] == '.')
		safe[0] = '_';
	localtime_r(&now, &parts);
	strftime(when, sizeof(when), "%Y%m%d_%H%M%S", &parts);
	return asprintf(&pattern, "%s_{pid}_%s.%s", safe, when, suffix) < 0 ? NULL : pattern;
}

bool rp_output_is_taken(const char *path)
{
	struct stat file;

	if (!strcmp(path, "-") || lstat(path, &file))
		return false;
	return stat(path, &file) || !(S_ISFIFO(file.st_mode) || S_ISCHR(file.st_mode));
}

int rp_output_open(struct rp_output *output, const char *path, bool force)
{
	const int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
	bool is_stdout = !strcmp(path, "-");
	int fd = is_stdout ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) :
		 open(path, flags | O_EXCL, 0600);
	int error = errno;
	struct stat stat;

	output->path = is_stdout ? "standard output" : path;
	output->filter_fd = output->status_fd = -1;
	output->copy_fd = output->stop_fd = 0;
	output->takes_signals = NULL;
	output->is_stopping = output->is_cancelled = output->is_socket = false;
	output->compress = NULL;
	output->made = fd >= 0 && !is_stdout;
	if (fd < 0 && error == EEXIST && (force || !rp_output_is_taken(path))) {
		fd = open(path, flags, 0600);
		error = errno;
	}
	output->fd = fd;
	output->regular = fd >= 0 && !is_stdout && !fstat(fd, &stat) && S_ISREG(stat.st_mode);
	if (fd >= 0)
		return 0;
	if (error == EEXIST)
		rp_tool_error("%s exists already; choose another file by -o, or give --force",
			      path);
	else
		rp_tool_error("cannot write %s: %s", path, strerror(error));
	return -error;
}

int rp_output_begin(struct rp_output *output)
{
	return output->regular && ftruncate(output->fd, 0) ? -errno : 0;
}

/* Handle a readable `stop_fd`. Return: whether the wait ends. */
static bool takes_stop(struct rp_output *output)
{
	if (output->takes_signals)
		return output->takes_signals(output->signals_data);
	output->is_stopping = true;
	return false;
}

/*
 * Wait for the descriptor, without a deadline until a stop is requested. Return: 0; -ECANCELED.
 */
static int wait_or_stop(struct rp_output *output, int fd, short events)
{
	const int stop_ms = output->filter_fd >= 0 ? STOP_FILTER_MS : STOP_MS;
	int64_t end_ms = 0;

	/* Signals may have been read since the last wait. */
	if (output->takes_signals && output->takes_signals(output->signals_data))
		output->is_cancelled = true;
	while (!output->is_cancelled) {
		const bool leaves_signals = output->is_stopping && !output->takes_signals;
		struct pollfd waits[] = {
			{ .fd = fd, .events = events },
			{ .fd = leaves_signals ? -1 : output->stop_fd, .events = POLLIN },
		};
		int ready, timeout_ms = -1;

		if (output->is_stopping) {
			const int64_t now_ms = rp_now_ms();

			end_ms = end_ms ? end_ms : now_ms + stop_ms;
			timeout_ms = end_ms > now_ms ? (int)(end_ms - now_ms) : 0;
		}
		ready = poll(waits, 2, timeout_ms);
		if (ready > 0 && waits[0].revents)
			return 0;
		output->is_cancelled = ready == 0 || (ready > 0 && takes_stop(output));
	}
	return -ECANCELED;
}

static int write_or_stop(struct rp_output *output, const char *bytes, size_t size)
{
	const int fd = output->filter_fd >= 0 ? output->filter_fd : output->fd;

	while (size) {
		const ssize_t written = output->is_socket ?
			send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) :
			write(fd, bytes, size);

		if (written >= 0) {
			bytes += written;
			size -= (size_t)written;
			continue;
		}
		/* A filter ends with its reader, or because it failed. */
		if (errno == EPIPE)
			return output->filter_fd >= 0 && rp_output_has_reader(output) ? -EPIPE :
			       -ECANCELED;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (wait_or_stop(output, fd, POLLOUT))
			return -ECANCELED;
	}
	return 0;
}

void rp_output_make_interruptible(struct rp_output *output, int stop_fd,
				  bool (*takes_signals)(void *data), void *data)
{
	struct stat stat;
	char path[32];
	int fd;

	output->takes_signals = takes_signals;
	output->signals_data = data;
	if (output->filter_fd >= 0) {
		if (fcntl(output->filter_fd, F_SETFL, O_NONBLOCK) == 0)
			output->stop_fd = stop_fd;
		return;
	}
	if (fstat(output->fd, &stat) != 0)
		return;
	if (S_ISSOCK(stat.st_mode)) {
		output->is_socket = true;
		output->stop_fd = stop_fd;
	}
	if (!S_ISFIFO(stat.st_mode))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", output->fd);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (dup3(fd, output->fd, O_CLOEXEC) >= 0)
		output->stop_fd = stop_fd;
	close(fd);
}

void rp_output_end_interruptible(struct rp_output *output)
{
	output->stop_fd = 0;
	output->takes_signals = NULL;
}

bool rp_output_has_reader(const struct rp_output *output)
{
	struct pollfd wait = { .fd = output->fd };

	return poll(&wait, 1, 0) <= 0 || !(wait.revents & (POLLERR | POLLHUP));
}

void rp_output_report_unread(const struct rp_output *output)
{
	if (rp_output_has_reader(output))
		rp_tool_error("the reader of %s has stopped reading; the trace stops before its "
			      "end", output->path);
}

int rp_output_put(struct rp_output *output, const void *bytes, size_t size)
{
	if (output->stop_fd)
		return write_or_stop(output, bytes, size);
	return rp_file_write(output->filter_fd >= 0 ? output->filter_fd : output->fd, bytes, size);
}

int rp_output_write(struct rp_output *output, const void *bytes, size_t size)
{
	if (output->copy_fd && rp_file_write(output->copy_fd, bytes, size) != 0)
		rp_output_drop_copy(output);
	if (output->compress)
		return output->compress(output->compressor, output, bytes, size);
	return rp_output_put(output, bytes, size);
}

static ssize_t write_stream(void *data, const char *bytes, size_t size)
{
	struct rp_output *output = data;
	const int ret = rp_output_write(data, bytes, size);

	/* A caller that cancels nothing reports what happened: nothing reads the pipe any more. */
	errno = ret == -ECANCELED && !output->is_cancelled ? EPIPE : -ret;
	output->error = output->error ? output->error : errno;
	return ret ? 0 : (ssize_t)size;
}

FILE *rp_output_open_stream(struct rp_output *output)
{
	output->error = 0;
	return fopencookie(output, "w", (cookie_io_functions_t){ .write = write_stream });
}

bool rp_output_is_full(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EFBIG;
}

bool rp_output_filter_says(struct rp_output *output, char word)
{
	char said = 0;
	ssize_t n;

	do
		n = read(output->status_fd, &said, 1);
	while (n < 0 && errno == EINTR);
	return n == 1 && said == word;
}

int rp_output_filter_end(struct rp_output *output)
{
	int ret = 0;

	if (output->filter_fd < 0)
		return 0;
	close(output->filter_fd);
	if (output->stop_fd)
		ret = wait_or_stop(output, output->status_fd, POLLIN);
	if (ret)
		kill(output->filter_pid, SIGKILL);
	else if (!rp_output_filter_says(output, 'd'))
		ret = -EIO;
	close(output->status_fd);
	output->filter_fd = output->status_fd = -1;
	return ret;
}

int rp_output_close(struct rp_output *output)
{
	int filtered = rp_output_filter_end(output);
	int ret = output->fd >= 0 && close(output->fd) ? -errno : 0;

	output->fd = -1;
	return ret ? ret : filtered;
}

void rp_output_discard(struct rp_output *output)
{
	rp_output_drop_copy(output);
	rp_output_close(output);
	if (output->made)
		unlink(output->path);
}

int rp_output_open_spool(const struct rp_output *output, const char *directory)
{
	const char *slash = output->regular ? strrchr(output->path, '/') : NULL;
	char *path = NULL;
	int fd;

	if (!output->regular)
		path = strdup(directory);
	else
		path = slash ? strndup(output->path, (size_t)(slash - output->path) + 1) :
		       strdup(".");
	if (!path)
		return -ENOMEM;
	fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	free(path);
	/* Some file systems do not support O_TMPFILE. */
	if (fd < 0 && asprintf(&path, "%s/ringpipe-XXXXXX", directory) > 0) {
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
		free(path);
	}
	return fd < 0 ? -errno : fd;
}

void rp_output_copy(struct rp_output *output, const char *directory)
{
	int fd = rp_output_open_spool(output, directory);

	output->copy_fd = fd > 0 ? fd : 0;
}

void rp_output_drop_copy(struct rp_output *output)
{
	if (output->copy_fd)
		close(output->copy_fd);
	output->copy_fd = 0;
}
