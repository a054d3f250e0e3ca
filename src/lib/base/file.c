/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t rp_file_read(const char *path, void *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t done = 0;

	if (fd < 0)
		return -errno;
	while (done < size) {
		ssize_t got = read(fd, (char *)buffer + done, size - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int error = errno;

			close(fd);
			return -error;
		}
		if (got == 0)
			break;
		done += (size_t)got;
	}
	close(fd);
	return (ssize_t)done;
}

int rp_file_write(int fd, const void *bytes, size_t size)
{
	while (size) {
		ssize_t done = write(fd, bytes, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		bytes = (const char *)bytes + done;
		size -= (size_t)done;
	}
	return 0;
}

int rp_file_identify(int fd, struct rp_file_id *ret_id)
{
	struct stat file;

	*ret_id = (struct rp_file_id){ 0, 0 };
	if (fstat(fd, &file) != 0)
		return -errno;
	*ret_id = (struct rp_file_id){ file.st_dev, file.st_ino };
	return 0;
}

int rp_file_lock(int fd, short type)
{
	struct flock whole = { .l_type = type, .l_whence = SEEK_SET };

	if (fcntl(fd, F_OFD_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES))
		return -EBUSY;
	return 0;
}

void rp_file_identify_path(const char *path, struct rp_file_id *ret_id)
{
	struct stat file;

	*ret_id = (struct rp_file_id){ 0, 0 };
	if (lstat(path, &file) == 0)
		*ret_id = (struct rp_file_id){ file.st_dev, file.st_ino };
}

static bool is_same(const struct rp_file_id *a, const struct rp_file_id *b)
{
	return a->inode != 0 && a->device == b->device && a->inode == b->inode;
}

int rp_file_check(int fd, const struct rp_file_id *id, uint64_t *ret_bytes)
{
	struct rp_file_id now;
	struct stat file;

	if (fstat(fd, &file) != 0) {
		*ret_bytes = UINT64_MAX;
		return errno != EBADF && id->inode != 0 ? 0 : -EBADF;
	}
	*ret_bytes = (uint64_t)file.st_size;
	now = (struct rp_file_id){ file.st_dev, file.st_ino };
	return is_same(id, &now) ? 0 : -EBADF;
}

bool rp_file_is(int fd, const struct rp_file_id *id)
{
	uint64_t bytes;

	return rp_file_check(fd, id, &bytes) == 0;
}

char *rp_file_path(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return NULL;
	path[length] = '\0';
	return strdup(path);
}

bool rp_file_is_at(const char *path, const struct rp_file_id *id)
{
	struct rp_file_id now;

	rp_file_identify_path(path, &now);
	return is_same(id, &now);
}
