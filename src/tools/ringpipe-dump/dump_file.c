/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-dump/dump_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* .NET overwrites an existing file, also through a symbolic link. This program replaces either. */
static int check_path(const char *path)
{
	struct stat file;

	if (lstat(path, &file) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(file.st_mode))
		return -EISDIR;
	return S_ISREG(file.st_mode) || S_ISLNK(file.st_mode) ? 0 : -EEXIST;
}

static int open_nameless(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(folder, sizeof(folder), "%.*s", slash > path ? (int)(slash - path) : 1, path);
	return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

int rp_dump_output_open(struct rp_dump_output *output, const char *path)
{
	int n, r = check_path(path);

	*output = (struct rp_dump_output){ .path = path, .fd = -1 };
	if (r < 0)
		return r;
	n = snprintf(output->part, sizeof(output->part), "%s.%d.part", path, getpid());
	if (n < 0 || (size_t)n >= sizeof(output->part))
		return -ENAMETOOLONG;
	output->fd = open_nameless(path);
	if (output->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		output->fd = open(output->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
				  O_CLOEXEC, 0600);
		output->has_name = output->fd >= 0;
	}
	if (output->fd < 0)
		return -errno;
	/* The umask may have removed permissions of the owner. */
	return fchmod(output->fd, 0600) < 0 ? -errno : 0;
}

static int link_to(const struct rp_dump_output *output, const char *path)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", output->fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

int rp_dump_output_publish(struct rp_dump_output *output)
{
	int r;

	if (!output->has_name) {
		r = link_to(output, output->path);
		if (r != -EEXIST)
			return r;
		r = link_to(output, output->part);
		if (r < 0)
			return r;
		output->has_name = true;
	}
	if (rename(output->part, output->path) < 0)
		return -errno;
	output->has_name = false;
	return 0;
}

void rp_dump_output_close(struct rp_dump_output *output)
{
	if (output->fd < 0)
		return;
	if (output->has_name)
		unlink(output->part);
	close(output->fd);
	output->fd = -1;
}
