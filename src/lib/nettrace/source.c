/* SPDX-License-Identifier: MIT */
#include "nettrace/source.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_BYTES (256u << 10)

void rp_byte_source_init_fd(struct rp_byte_source *source, int fd)
{
	memset(source, 0, sizeof(*source));
	source->fd = fd;
}

void rp_byte_source_init_read(struct rp_byte_source *source, rp_byte_source_read read, void *data)
{
	memset(source, 0, sizeof(*source));
	source->fd = -1;
	source->read = read;
	source->data = data;
}

void rp_byte_source_init_memory(struct rp_byte_source *source, const void *bytes, size_t size)
{
	memset(source, 0, sizeof(*source));
	source->fd = -1;
	source->bytes = bytes;
	source->end = size;
}

void rp_byte_source_fini(struct rp_byte_source *source)
{
	free(source->buffer);
	source->buffer = NULL;
}

static int make_space(struct rp_byte_source *source)
{
	size_t capacity = source->capacity ? source->capacity * 2 : FIRST_BYTES;
	uint8_t *buffer;

	if (source->end < source->capacity)
		return 0;
	if (source->start > source->marked) {
		const size_t unused = source->start - source->marked;

		memmove(source->buffer, source->buffer + unused, source->end - unused);
		source->end -= unused;
		source->start = source->marked;
		return 0;
	}
	buffer = realloc(source->buffer, capacity);
	if (!buffer)
		return -ENOMEM;
	source->buffer = buffer;
	source->bytes = buffer;
	source->capacity = capacity;
	return 0;
}

/* Return the bytes to read next. A limit only saves reading, so a stream may continue after it. */
static size_t bytes_wanted(const struct rp_byte_source *source)
{
	const size_t space = source->capacity - source->end;
	const uint64_t at = source->offset + (source->end - source->start);

	return source->limit > at && source->limit - at < space ?
	       (size_t)(source->limit - at) : space;
}

static int fill_by_call(struct rp_byte_source *source)
{
	ssize_t got;
	int ret = make_space(source);

	if (ret < 0)
		return ret;
	got = source->read(source->data, source->buffer + source->end, bytes_wanted(source));
	if (got > 0)
		source->end += (size_t)got;
	return got > 0 ? 0 : got ? (int)got : -ENODATA;
}

static int fill(struct rp_byte_source *source)
{
	struct pollfd pfd = { .fd = source->fd, .events = POLLIN };
	ssize_t got;
	int ret;

	if (source->fd < 0)
		return source->read ? fill_by_call(source) : -ENODATA;
	ret = make_space(source);
	if (ret < 0)
		return ret;
	for (;;) {
		got = read(source->fd, source->buffer + source->end, bytes_wanted(source));
		if (got > 0) {
			source->end += got;
			return 0;
		}
		if (!got)
			return -ENODATA;
		if (errno == EAGAIN)
			poll(&pfd, 1, -1);
		else if (errno != EINTR)
			return -errno;
	}
}

int rp_byte_source_peek(struct rp_byte_source *source, size_t size)
{
	int ret;

	while (source->end - source->start < size) {
		ret = fill(source);
		if (ret < 0)
			return ret;
	}
	return 0;
}

bool rp_byte_source_is_ready(const struct rp_byte_source *source)
{
	struct pollfd pfd = { .fd = source->fd, .events = POLLIN };

	if (source->fd < 0)
		return !source->is_ready || source->is_ready(source->data);
	return poll(&pfd, 1, 0) != 0;
}

int rp_byte_source_take(struct rp_byte_source *source, size_t size, const uint8_t **ret_bytes)
{
	int ret = rp_byte_source_peek(source, size);

	if (ret < 0)
		return ret;
	*ret_bytes = source->bytes + source->start;
	source->start += size;
	source->offset += size;
	if (source->is_marked)
		source->marked += size;
	return 0;
}

void rp_byte_source_mark(struct rp_byte_source *source)
{
	source->is_marked = true;
	source->marked = 0;
}

void rp_byte_source_rewind(struct rp_byte_source *source)
{
	source->start -= source->marked;
	source->offset -= source->marked;
	source->marked = 0;
}

int rp_byte_source_seek(struct rp_byte_source *source, uint64_t offset)
{
	const uint64_t step = offset - source->offset;
	int ret = 0;

	if (step <= source->end - source->start) {
		source->start += (size_t)step;
		source->offset = offset;
		source->marked = 0;
		return 0;
	}
	if (source->fd < 0)
		ret = source->seek ? source->seek(source->data, offset) : -ESPIPE;
	else if (lseek(source->fd, (off_t)offset, SEEK_SET) < 0)
		ret = -errno;
	if (ret < 0)
		return ret;
	source->start = source->end = 0;
	source->marked = 0;
	source->offset = offset;
	return 0;
}

size_t rp_byte_source_take_rest(struct rp_byte_source *source, const uint8_t **ret_bytes)
{
	size_t size = source->end - source->start;

	*ret_bytes = source->bytes + source->start;
	source->start = source->end;
	source->offset += size;
	return size;
}
