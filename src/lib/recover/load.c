/* SPDX-License-Identifier: MIT */
/* Reads a session's directory into memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recover/recovery.h"

#define FILE_MAX (1ull << 32)

/*
 * Open a regular file, without following links and without blocking. Return: a descriptor, or
 * -errno.
 */
static int open_file(int directory_fd, const char *name, struct stat *ret_stat)
{
	int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(fd, ret_stat) != 0 || !S_ISREG(ret_stat->st_mode)) {
		close(fd);
		return -EBADMSG;
	}
	return fd;
}

static ssize_t read_at(int fd, uint8_t *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = pread(fd, bytes + done, size - done, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static int read_file(int directory_fd, const char *name, struct rp_recovery_file *ret_file)
{
	struct stat stat;
	int fd = open_file(directory_fd, name, &stat);
	ssize_t got;
	uint8_t *bytes;

	if (fd < 0)
		return fd;
	bytes = (uint64_t)stat.st_size > FILE_MAX ? NULL : malloc((size_t)stat.st_size + 1);
	if (!bytes) {
		close(fd);
		return (uint64_t)stat.st_size > FILE_MAX ? -EFBIG : -ENOMEM;
	}
	got = read_at(fd, bytes, (size_t)stat.st_size);
	close(fd);
	if (got < 0) {
		free(bytes);
		return (int)got;
	}
	*ret_file = (struct rp_recovery_file){ bytes, (size_t)got };
	return 0;
}

/*
 * The kernel grants a read lease only while no process has the file open or mapped for writing. The
 * lease works across namespaces and does not depend on process ids, which are reused.
 */
static int is_mapped(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
		(void)fcntl(fd, F_SETLEASE, F_UNLCK);
		return 0;
	}
	return errno == EAGAIN ? 1 : -errno;
}

int rp_recovery_look(int directory_fd, enum rp_recovery_state *ret_state,
		     struct rp_recover_header *ret_header)
{
	struct rp_recover_header header = { 0 };
	struct stat stat;
	int fd = open_file(directory_fd, "session", &stat), mapped;
	ssize_t got;

	if (fd < 0)
		return fd;
	mapped = is_mapped(fd);
	got = read_at(fd, (uint8_t *)&header, sizeof(header));
	close(fd);
	if (mapped < 0 || got < 0)
		return mapped < 0 ? mapped : (int)got;
	header.name[sizeof(header.name) - 1] = '\0';
	header.output[sizeof(header.output) - 1] = '\0';
	*ret_header = header;
	if (mapped)
		*ret_state = RP_RECOVERY_RUNNING;
	else if (!header.magic[0] || header.ended)
		*ret_state = RP_RECOVERY_EMPTY;
	else if (memcmp(header.magic, RP_RECOVER_MAGIC, sizeof(header.magic)) == 0)
		*ret_state = RP_RECOVERY_LEFT;
	else
		return -EBADMSG;
	return 0;
}

static int read_rings(int directory_fd, struct rp_recovery *recovery)
{
	struct rp_recovery_file *grown;
	char name[32];
	int ret;

	for (;;) {
		if (recovery->ring_count == RP_RECOVER_RINGS_MAX)
			return -EBADMSG;
		grown = realloc(recovery->rings, (recovery->ring_count + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		recovery->rings = grown;
		snprintf(name, sizeof(name), "ring-%zu", recovery->ring_count);
		ret = read_file(directory_fd, name, &grown[recovery->ring_count]);
		if (ret != 0)
			return ret == -ENOENT ? 0 : ret;
		recovery->ring_count++;
	}
}

int rp_recovery_read(int directory_fd, struct rp_recovery *ret_recovery)
{
	struct rp_recovery recovery = { 0 };
	int ret = read_file(directory_fd, "session", &recovery.session);

	if (ret == 0)
		ret = read_file(directory_fd, "events", &recovery.events);
	if (ret == 0)
		ret = read_rings(directory_fd, &recovery);
	if (ret != 0) {
		rp_recovery_fini(&recovery);
		return ret;
	}
	*ret_recovery = recovery;
	return 0;
}

void rp_recovery_fini(struct rp_recovery *recovery)
{
	for (size_t i = 0; i < recovery->ring_count; i++)
		free(recovery->rings[i].bytes);
	free(recovery->rings);
	free(recovery->session.bytes);
	free(recovery->events.bytes);
	memset(recovery, 0, sizeof(*recovery));
}

int rp_recovery_remove(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int error = errno;

	if (!directory) {
		if (fd >= 0)
			close(fd);
		return -error;
	}
	while ((entry = readdir(directory))) {
		if (strncmp(entry->d_name, "ring-", 5) == 0 || !strcmp(entry->d_name, "events"))
			(void)unlinkat(fd, entry->d_name, 0);
	}
	/* Delete this file last: it identifies the directory as a session's. */
	(void)unlinkat(fd, "session", 0);
	closedir(directory);
	return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}
