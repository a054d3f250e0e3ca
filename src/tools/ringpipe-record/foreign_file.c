/* SPDX-License-Identifier: MIT */
#include "tools/ringpipe-record/foreign_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tools/ringpipe-record/bounded_call.h"

/* Sources of bounded calls that are no process ids. */
#define DEVICE_SOURCE (1ull << 63)
#define PROCESS_SOURCE (1ull << 62)
#define DEBUG_SOURCE (1ull << 61)

/* Not in linux/magic.h. */
#define CIFS_MAGIC 0xff534d42u

/* The path comes last, because only its bytes are sent. */
struct open_request {
	struct rp_foreign_file_limits limits;
	int flags;
	char path[PATH_MAX + 64];
};

struct open_reply {
	struct stat file;
	uint64_t copied_bytes;		/* that the number of bounded calls includes */
};

struct rp_foreign_file_limits rp_foreign_file_limits = {
	.wait_ns = 1000000000, .copy_bytes = 64ull << 20, .copies_bytes = 256ull << 20,
};

/* Return: whether reads of the file may wait for a server. */
static bool is_served(int fd)
{
	static const uint32_t kinds[] = {
		FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC, CIFS_MAGIC,
		V9FS_MAGIC, CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC, AFS_FS_MAGIC, CODA_SUPER_MAGIC,
		OCFS2_SUPER_MAGIC,
	};
	struct statfs about;

	if (fstatfs(fd, &about) != 0)
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if ((uint32_t)about.f_type == kinds[i])
			return true;
	}
	return false;
}

/* Return: a descriptor of a copy; -1: none. */
static int copy(int fd, off_t bytes)
{
	int to = memfd_create("ringpipe-copy", MFD_CLOEXEC);
	off_t at = 0;

	while (to >= 0 && at < bytes) {
		if (sendfile(to, fd, &at, (size_t)(bytes - at)) > 0)
			continue;
		close(to);
		to = -1;
	}
	if (to >= 0)
		(void)lseek(to, 0, SEEK_SET);
	return to;
}

static void free_copied(const void *reply)
{
	__atomic_sub_fetch(rp_bounded_number(), ((const struct open_reply *)reply)->copied_bytes,
			   __ATOMIC_RELAXED);
}

/* Copy a file within the limits. All copies count from before they have memory. */
static int copy_counted(int fd, const struct rp_foreign_file_limits *limits,
			struct open_reply *reply)
{
	int copied = -1;

	if ((uint64_t)reply->file.st_size > limits->copy_bytes)
		return -1;
	reply->copied_bytes = (uint64_t)reply->file.st_size;
	if (__atomic_add_fetch(rp_bounded_number(), reply->copied_bytes, __ATOMIC_RELAXED) <=
	    limits->copies_bytes)
		copied = copy(fd, reply->file.st_size);
	if (copied < 0) {
		free_copied(reply);
		reply->copied_bytes = 0;
	}
	return copied;
}

static int run(const void *data, void *ret_reply)
{
	const struct open_request *request = data;
	struct open_reply *reply = ret_reply;
	int fd = open(request->path, request->flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK), copied;

	if (fd < 0)
		return -1;
	if (fstat(fd, &reply->file) != 0 || !S_ISREG(reply->file.st_mode)) {
		close(fd);
		return -1;
	}
	if (!request->limits.copies_all && !is_served(fd))
		return fd;
	copied = copy_counted(fd, &request->limits, reply);
	close(fd);
	return copied;
}

static int open_from(const char *path, int flags, uint64_t source, struct open_reply *ret_reply)
{
	struct open_request request = { .limits = rp_foreign_file_limits, .flags = flags };
	const size_t bytes = strlen(path) + 1;
	const struct rp_bounded_call call = {
		.source = source,
		.limit_ns = request.limits.wait_ns, .run = run, .discard = free_copied,
		.request = &request, .request_bytes = offsetof(struct open_request, path) + bytes,
		.reply = ret_reply, .reply_bytes = sizeof(*ret_reply),
	};
	int fd;

	if (bytes > sizeof(request.path))
		return -1;
	memcpy(request.path, path, bytes);
	return rp_bounded_call(&call, &fd) ? fd : -1;
}

int rp_foreign_file_open(const char *path, int flags, pid_t process, uint64_t device,
			 struct stat *ret_file)
{
	struct open_reply reply;
	const int fd = open_from(path, flags, device ? DEVICE_SOURCE | device :
				 PROCESS_SOURCE | (uint64_t)process, &reply);

	if (fd >= 0)
		*ret_file = reply.file;
	return fd;
}

int rp_foreign_file_open_debug(const char *path, uint64_t device)
{
	struct open_reply reply;
	const int fd = open_from(path, O_NOCTTY, DEBUG_SOURCE | device, &reply);

	/* The caller closes it before it opens the next one, so these copies do not add up. */
	if (fd >= 0)
		free_copied(&reply);
	return fd;
}
