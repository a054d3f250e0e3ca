/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nettrace/reader_parts.h"
#include "tools/trace/compression.h"
#include "tools/trace/input.h"
#include "tools/trace/perf_data.h"
#include "tools/cli/display_text.h"
#include "tools/cli/tool.h"

/* Wait for bytes or a signal. Return: whether it is a signal. */
static bool is_stopped(const struct rp_input *input)
{
	struct pollfd fds[2] = {
		{ .fd = input->fd, .events = POLLIN },
		{ .fd = input->signal_fd, .events = POLLIN },
	};

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	return fds[1].revents;
}

/* Whether bytes or the end of the file can be read now. */
static bool is_ready(void *data)
{
	const struct rp_input *input = data;
	struct pollfd pfd = { .fd = input->fd, .events = POLLIN };

	return poll(&pfd, 1, 0) != 0;
}

/*
 * A file that a recording writes may grow faster than it is read, so it is read up to the size that
 * it had when it was opened. Return: how many of `size` bytes to read.
 */
static size_t bytes_left(const struct rp_input *input, size_t size)
{
	const off_t at = input->bytes && !input->is_converted ? lseek(input->fd, 0, SEEK_CUR) : -1;

	if (at < 0)
		return size;
	if ((uint64_t)at >= input->bytes)
		return 0;
	return input->bytes - (uint64_t)at < size ? (size_t)(input->bytes - (uint64_t)at) : size;
}

static ssize_t read_file(void *data, void *buffer, size_t size)
{
	struct rp_input *input = data;
	ssize_t got;

	do {
		if (is_stopped(input))
			return -ECANCELED;
		got = read(input->fd, buffer, bytes_left(input, size));
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	if (got > 0)
		input->taken += (uint64_t)got;
	return got < 0 ? -errno : got;
}

/* Copy perf.data from a pipe to an unnamed file. Return: its descriptor; -errno. */
static int spool(struct rp_input *input)
{
	FILE *file = tmpfile();
	char buffer[1 << 14];
	ssize_t got = (ssize_t)input->start_bytes;
	int fd, ret;

	if (!file)
		return -errno;
	memcpy(buffer, input->start, input->start_bytes);
	do {
		if (fwrite(buffer, 1, (size_t)got, file) != (size_t)got)
			got = -EIO;
		else
			got = read_file(input, buffer, sizeof(buffer));
	} while (got > 0);
	fd = got == 0 && fflush(file) == 0 ? dup(fileno(file)) : -1;
	ret = got < 0 ? (int)got : fd < 0 ? -errno : fd;
	fclose(file);
	return ret;
}

/* Replace the file by a trace with its events. */
static int convert_perf(struct rp_input *input)
{
	const int from = input->bytes ? input->fd : spool(input);
	struct stat status;
	int fd, ret = from < 0 ? from : fstat(from, &status) < 0 ? -errno : 0;
	void *bytes = ret ? MAP_FAILED : mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE,
					      from, 0);

	if (ret == 0 && bytes == MAP_FAILED)
		ret = -errno;
	if (ret == 0) {
		ret = rp_perf_data_convert(bytes, (size_t)status.st_size, input->path, &fd);
		input->is_explained = ret != 0;
		munmap(bytes, (size_t)status.st_size);
	}
	if (from >= 0 && from != input->fd)
		close(from);
	if (ret)
		return ret;
	if (input->fd > STDIN_FILENO)
		close(input->fd);
	input->fd = fd;
	input->start_bytes = 0;
	input->is_converted = true;
	return 0;
}

/* Read the first bytes, which show whether the file is compressed, or perf.data. */
static int take_start(struct rp_input *input)
{
	while (input->start_bytes < sizeof(input->start)) {
		ssize_t got = read_file(input, input->start + input->start_bytes,
					sizeof(input->start) - input->start_bytes);

		if (got < 0)
			return (int)got;
		if (got == 0)
			break;
		input->start_bytes += (size_t)got;
	}
	input->has_start = true;
	if (input->start_bytes == sizeof(input->start) && rp_perf_data_is_magic(input->start))
		return convert_perf(input);
	if (input->start_bytes < sizeof(input->start) || !rp_compression_is_magic(input->start))
		return 0;
	if (!rp_compression_is_supported())
		return -EOPNOTSUPP;
	input->decompressor = rp_decompressor_create(read_file, input, input->start,
						     input->start_bytes);
	if (!input->decompressor)
		return -ENOMEM;
	/* Without a table, the trace is read from its start to its end. */
	return !input->bytes || rp_frame_table_read(input->fd, input->bytes, &input->frames) !=
				-ENOMEM ? 0 : -ENOMEM;
}

static ssize_t decompress(struct rp_input *input, void *buffer, size_t size)
{
	ssize_t got = rp_decompressor_read(input->decompressor, buffer, size);

	if (got == -EBADMSG)
		rp_tool_error("%s: a damaged frame of zstd: %s", input->path,
			      rp_decompressor_error(input->decompressor));
	return got;
}

ssize_t rp_input_read(void *data, void *buffer, size_t size)
{
	struct rp_input *input = data;
	size_t left;
	int ret = input->has_start ? 0 : take_start(input);

	if (ret < 0)
		return ret;
	if (input->decompressor)
		return decompress(input, buffer, size);
	left = input->start_bytes - input->start_given;
	if (!left)
		return read_file(input, buffer, size);
	if (left > size)
		left = size;
	memcpy(buffer, input->start + input->start_given, left);
	input->start_given += left;
	return (ssize_t)left;
}

bool rp_input_can_seek(const struct rp_input *input)
{
	return input->bytes && !input->is_converted &&
	       (!input->decompressor || input->frames.count);
}

/* Continue to read at an offset of the decompressed trace. Return: 0; -ESPIPE; other -errno. */
static int seek_input(void *data, uint64_t offset)
{
	struct rp_input *input = data;

	int ret;

	if (!rp_input_can_seek(input))
		return -ESPIPE;
	if (input->decompressor) {
		ret = rp_decompressor_seek(input->decompressor, &input->frames, offset, &offset);
		if (ret <= 0)
			return ret;
	}
	if (lseek(input->fd, (off_t)offset, SEEK_SET) < 0)
		return -errno;
	input->start_given = input->start_bytes;
	return 0;
}

static void explain(const struct rp_input *input, int error, const char *message)
{
	if (input->is_explained)
		return;
	if (error == -EOPNOTSUPP)
		rp_tool_error("%s: compressed by zstd, which this build cannot read; "
			      "zstd -d restores the trace", input->path);
	else if (error == -EBADMSG)
		rp_tool_error("%s: not a nettrace file, or its beginning is damaged", input->path);
	else if (error == -EPROTONOSUPPORT)
		rp_tool_error("%s: %s", input->path, message);
	else if (error == -ECANCELED)
		rp_tool_error("stopped before %s was read", input->path);
	else
		rp_tool_error("%s: %s", input->path, strerror(-error));
}

int rp_input_open_bytes(struct rp_input *input, const char *path, int signal_fd)
{
	const bool is_stdin = !strcmp(path, "-");
	struct stat status;

	*input = (struct rp_input){
		.path = is_stdin ? "standard input" : path, .signal_fd = signal_fd,
		.fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC),
	};
	if (input->fd < 0) {
		int error = -errno;

		explain(input, error, "");
		return error;
	}
	if (!is_stdin && fstat(input->fd, &status) == 0 && S_ISREG(status.st_mode))
		input->bytes = (uint64_t)status.st_size;
	return 0;
}

int rp_input_open_undamaged(struct rp_input *input, const char *path, int signal_fd,
			    struct rp_reader **ret_reader)
{
	struct rp_byte_source source;
	char message[256] = "";
	int ret = rp_input_open_bytes(input, path, signal_fd);

	if (ret)
		return ret;
	rp_byte_source_init_read(&source, rp_input_read, input);
	source.seek = seek_input;
	source.is_ready = is_ready;
	ret = rp_reader_open_source(&source, ret_reader, message, sizeof(message));
	if (ret == 0)
		return 0;
	explain(input, ret, message);
	rp_input_close(input);
	return ret;
}

int rp_input_open(struct rp_input *input, const char *path, int signal_fd,
		  struct rp_reader **ret_reader)
{
	int ret = rp_input_open_undamaged(input, path, signal_fd, ret_reader);

	return ret ? ret : rp_reader_resume_after_damage(*ret_reader);
}

void rp_input_close(struct rp_input *input)
{
	if (input->fd > STDIN_FILENO)
		close(input->fd);
	input->fd = -1;
	rp_decompressor_destroy(input->decompressor);
	input->decompressor = NULL;
	rp_frame_table_fini(&input->frames);
}

static void explain_error(const struct rp_reader *reader, int error, char *buffer, size_t size)
{
	const char *said = rp_reader_error(reader), *offset = strstr(said, " at offset ");

	if (error == -ENODATA)
		snprintf(buffer, size, "the trace stops before its end%s", offset ? offset : "");
	else if (error == -EBADMSG)
		snprintf(buffer, size, "the trace is damaged%s%s", *said ? ": " : "", said);
	else if (error == -EPROTONOSUPPORT)
		snprintf(buffer, size, "%s", said);
	else
		snprintf(buffer, size, "%s", strerror(-error));
}

static void explain_damage(const struct rp_reader *reader, const struct rp_reader_stats *stats,
			   char *buffer, size_t size)
{
	struct rp_reader_damage first = RP_READER_DAMAGE_INIT;
	char places[48] = "", bytes[RP_TEXT_MAX], events[RP_TEXT_MAX];

	if (rp_reader_get_damage(reader, 0, &first))
		return;
	if (stats->damaged_ranges > 1)
		snprintf(places, sizeof(places), " in %" PRIu64 " places, first",
			 stats->damaged_ranges);
	snprintf(buffer, size, "the trace is damaged%s at offset %" PRIu64 ": %s; %s "
		 "damaged, and %s lost to it", places, first.offset, first.reason,
		 rp_text_counted(stats->damaged_bytes, "byte", bytes),
		 rp_text_counted(stats->lost_to_damage, "event", events));
}

const char *rp_input_given(const struct rp_reader *reader)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;

	rp_reader_get_stats(reader, &stats);
	return stats.damaged_ranges ? "the other events" : "the events before that";
}

const char *rp_input_explain(const struct rp_reader *reader, int error, char *buffer,
			      size_t size)
{
	struct rp_reader_stats stats = RP_READER_STATS_INIT;
	size_t used = 0;

	rp_reader_get_stats(reader, &stats);
	if (error == 0 && !stats.damaged_ranges)
		return NULL;
	*buffer = '\0';
	if (error)
		explain_error(reader, error, buffer, size);
	if (stats.damaged_ranges) {
		used = strlen(buffer);
		if (used)
			snprintf(buffer + used, size - used, "; ");
		used = strlen(buffer);
		explain_damage(reader, &stats, buffer + used, size - used);
	}
	return buffer;
}
